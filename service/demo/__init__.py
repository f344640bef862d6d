"""`tarry demo`: a day of flights, a kill, and a ledger of what was promised.

- `demo`            the command and its show.
- `flights`         its day, from `sample/`; `replay` its producer and consumers.
- `ledger`          what was promised, and what came.
- `server_process`  its server, which benches and tests start too.
"""
