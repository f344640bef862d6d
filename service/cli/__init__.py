"""The command line. `command` is the entry point; most other files hold the commands of one noun; `demo` is a room
beside.

- `command`       the installed `tarry`: prints a sentence if the extra is missing, else runs `app`.
- `app`           the list of commands; turns errors into one sentence and an exit code.
- `serving`       serve, migrate, config show. `doctor`: doctor. `keys`: keys.
- `producing`     publish, cancel. `consuming`: consume, peek. `messages`: show, find, reschedule. `topics`, `groups`.
                  `dead`: dead, redrive. `operating`: seek, erase, clients, nodes, guards. And so on, a file for each
                  noun. They use `tarry.client`; `server` has the flags that say where the server is.
- `pipelining`    hands over to the pipeline.
- `printing`, `rendering`   tables on a terminal, tab-separated lines in a pipe, JSON lines on request.
"""
