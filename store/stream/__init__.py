"""The stream and what comes into it: publishing, the outbox, the end of a queue, and reading on."""
