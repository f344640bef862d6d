"""Sets up logs: one line for each event on stderr, as JSON or for people, including the standard library's loggers."""

import logging
import os
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor


def set_up_logs(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Sets up logs for the whole process; call it once, before anything is logged.

    `auto` is console on a terminal and JSON otherwise. There are no colours with NO_COLOR, or on a stream that is no
    terminal.
    """
    out: TextIO = stream or sys.stderr
    terminal = out.isatty()
    console = form == "console" or (form == "auto" and terminal)
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if console else "iso", utc=not console),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor]
    if console:
        colors = terminal and not os.environ.get("NO_COLOR")
        last = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        )
    )
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers = [handler]
    # `debug` is meant for Tarry's own events, not for those of libraries.
    root.setLevel(max(number, logging.INFO))
    for quiet in ("httpx", "httpcore"):
        logging.getLogger(quiet).setLevel(logging.WARNING)
