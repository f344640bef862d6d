"""Benchmarks: one runnable module for each question; each prints JSON lines."""
