"""The command line. `command` is the entry; a file beside it holds the commands of one noun; `demo` is a room beside.

- `command`       what is installed as `tarry`: a sentence for whoever lacks the extra, and `app` for all others.
- `app`           the list of commands, and errors turned into one sentence and an exit code.
- `serving`       serve, migrate, config show. `doctor`: doctor.
- `producing`     publish, cancel. `consuming`: consume, peek, topics. `operating`: groups, seek, dead, clients, nodes.
                  All over `tarry.client`; `server` says where.
- `pipelining`    what hands over to the pipeline.
- `printing`, `rendering`   tables on a terminal, tab-separated lines in a pipe, JSON lines on request.
"""
