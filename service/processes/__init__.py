"""Several processes on one machine: `tarry serve --processes N` runs a whole node in each, under a supervisor.

It is a room of its own since it knows nothing of messages: the work that a process does is passed to it.

- `supervisor`   starts the processes, passes signals on, and restarts processes that die. No event loop runs in it.
- `restarts`     decides when a process that has ended is restarted, and when the server ends. Pure.
- `process`      connects a process to its supervisor and the others: orders, and the metrics of all.
- `board`        a few numbers in shared memory, by which new connections are divided among the processes.
- `exposition`   merges the metrics of all processes into one text.
- `last_word`    a small process that logs the end of a supervisor that could not log it itself.

All processes accept from one socket, which the supervisor has bound. With a socket for each (SO_REUSEPORT) a connection
waits for one process, and is reset when that one stops; and a second server could bind the same port by mistake. From
one backlog any process accepts: when one stops or dies, the others accept all that come. SO_REUSEPORT spreads
connections by chance; the board spreads them evenly.

Processes are forked before any event loop or thread runs: so they share the memory of all loaded code, and a restart
takes a few hundredths of a second.
"""
