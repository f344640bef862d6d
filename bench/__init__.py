"""One runnable module per question; each prints JSON lines."""
