"""How one machine uses its cores: `tarry serve --processes N`, a whole node in each process, and who looks after them.

A room of its own, for it stands around servers and knows nothing of messages: what it starts is given to it.

- `supervisor`   starts the processes, hands signals on, and starts again what dies. No event loop runs in it.
- `restarts`     when a process that has ended begins again, and when all is over. Pure: time comes from outside.
- `process`      what a process knows of itself and the others: orders from its supervisor, the metrics of all.
- `board`        a few numbers that all processes see, by which new connections are shared out.
- `exposition`   the metrics of all in one text.

All processes take connections from one socket, which the supervisor has bound. With a socket for each (SO_REUSEPORT) a
connection waits for one process, and is reset when that one stops; and a second server on the same port by mistake
would be let in. From one line whoever is there takes it: when a process stops, or dies, the others see to all that
knock. What SO_REUSEPORT gives, connections spread over the processes, the board gives better: evenly, not by chance.

Processes are forked, before anything runs a loop or a thread: so they share the memory of all that is loaded, and one
that is started again needs a few hundredths of a second for it.
"""
