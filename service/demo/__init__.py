"""`tarry demo`: replays a day of flights, kills the server once, and checks every count against a ledger.

- `demo`            the command and one run of the demo.
- `flights`         the day's flights, from `sample/`; `replay` has the producer and the consumers.
- `ledger`          what was promised for each flight, and what was delivered.
- `server_process`  the demo's server, which benches and tests start, too.
"""
