"""The engine room: publishing, dispatching and consuming messages, and which server does what."""
