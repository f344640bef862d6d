"""From the wheel to the stream: what is due is promoted, and what stands in its way waits apart."""
