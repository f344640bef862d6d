"""Group commit, and retries while another transaction holds a row."""
