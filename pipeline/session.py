"""The Spark session of a job, and what it needs: PySpark and Java 17 or later.

Under `spark-submit` the session is the cluster's; otherwise it is one on this machine.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..store.extras import sentence
from . import java_end
from .errors import SetUpError
from .jvm_noise import kept_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGS = Path(__file__).absolute().parent / "log4j2.properties"
"""The configuration of Spark's log, which has only the errors that Spark dies of."""
_SHUFFLE = "spark.sql.shuffle.partitions"
_SPARKS_OWN = "200"
_PER_CORE = 16
FEW = 200_000
"""Up to so many rows Spark's compilers take longer than the queries that they compile."""
_FOR_FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
_JAVA_FOR_FEW = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""One quick compiler of Java in place of two, and no extra threads that collect garbage."""
_TELL_TWICE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that write each error that it raises to stderr, with Java's stack."""
_TELL_OF_THEIR_END = ("py4j.java_gateway", "py4j.clientserver")
"""Loggers that write a traceback to stderr for each call after Java is gone; the error that is raised says the same."""
_JAVA = 17
"""The oldest Java that Spark 4 runs on."""


def check_installed() -> None:
    """Raises `SetUpError` when PySpark is missing: every job needs the extra, but not every job needs Java."""
    if find_spec("pyspark") is None:
        raise SetUpError(sentence("spark", "pyspark"))


def check() -> None:
    """Raises `SetUpError` with one sentence when PySpark or Java is missing or too old."""
    check_installed()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needs, set_it = f"Spark needs Java {_JAVA} or later, and", "or set JAVA_HOME to where it is"
    if java is None:
        raise SetUpError(f"{needs} there is none: apt install default-jre-headless, {set_it}")
    if not Path(java).exists():
        names = f"JAVA_HOME names {home}, where there is no bin/java"
        raise SetUpError(f"{needs} {names}: correct it, or unset it to take the java of the PATH")
    version = java_version(java)
    if version is not None and version < _JAVA:
        raise SetUpError(f"{needs} {java} is Java {version}: install a newer one, {set_it}")


def java_version(java: str) -> int | None:
    """The major version of a Java program; None when it does not tell."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return None if found is None else int(found[1])


def open_session(name: str, master: str | None = None, rows: int | None = None) -> "SparkSession":
    """The session for a job. `master` is Spark's, such as `local[2]`; None: what `spark-submit` said, or this machine.
    `rows`: about how many rows the job looks at, if that is known.

    Times are UTC, and Python workers run on the interpreter of this process. Raises `SetUpError`.
    """
    check()
    from pyspark import SparkConf, SparkContext, accumulators
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for logger in _TELL_TWICE:
        PySparkLogger.getLogger(logger).disabled = True
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        setattr(server, "handle_error", _say_nothing)  # noqa: B010  # it prints a traceback when Java is gone
    for logger in _TELL_OF_THEIR_END:
        logging.getLogger(logger).disabled = True

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _lead_workers_here()
    settings = {"spark.app.name": f"tarry {name}"}
    if master is None and "SPARK_ENV_LOADED" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is not None:
        settings["spark.master"] = master
        options = _JAVA_FOR_FEW if rows is not None and rows <= FEW else ""
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGS.as_uri()}{options}"
    if master is not None and master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",  # `progress` tells, in one line with the rows
        "spark.ui.enabled": "false",
        # A failure is raised as an error of the job; what Spark says besides is for users of spark-submit.
        "spark.log.level": "ERROR" if "PYSPARK_GATEWAY_PORT" in os.environ else "FATAL",
    }
    conf = SparkConf().setAll(list(settings.items()))
    with kept_out(), _uninterrupted():
        SparkContext.getOrCreate(conf)
    java = _java_process()
    if java is not None:
        java_end.watch(java.pid)
    with _uninterrupted():
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    if str(spark.sparkContext.master).startswith("local"):
        few = rows is not None and rows <= FEW
        if spark.conf.get(_SHUFFLE) == _SPARKS_OWN:
            # Most shuffles are small, and each task costs its start. What a user has set stays.
            spark.conf.set(_SHUFFLE, str((1 if few else _PER_CORE) * spark.sparkContext.defaultParallelism))
        for setting, value in _FOR_FEW.items() if few else ():
            spark.conf.set(setting, value)
    return spark


def _say_nothing(*_: object) -> None:
    """Ignores a broken connection: the caller that waits for an answer gets the error."""


class Later:
    """A session that is opened when it is first needed: a job with little to do may need none.

    `with` stops it at the end, if it was opened.
    """

    def __init__(self, name: str, master: str | None = None) -> None:
        self._name, self._master = name, master
        self._opened: SparkSession | None = None

    @classmethod
    def opened(cls, spark: "SparkSession") -> "Later":
        """Wraps a session that is open already, and that its owner stops."""
        made = cls("")
        made._opened = spark
        return made

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def __call__(self) -> "SparkSession":
        if self._opened is None:
            self._opened = open_session(self._name, self._master)
        return self._opened

    def __enter__(self) -> "Later":
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            close_session(self._opened)


def _java_process() -> "subprocess.Popen[bytes] | None":
    """The Java that this process started; None under `spark-submit`, where it is the other way round."""
    loaded: Any = sys.modules.get("pyspark")
    gateway: Any = None if loaded is None else loaded.SparkContext._gateway  # PySpark has no other way to it
    return getattr(gateway, "proc", None)


def end_of_java(seconds: float = 0.0) -> int | None:
    """The exit code of this process's Java, less than 0 for a signal; None while it lives. Waits for up to `seconds`,
    since a broken connection may show its end sooner than the system."""
    java = _java_process()
    if java is None:
        return None
    try:
        return java.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def close_session(spark: "SparkSession") -> None:
    """Stops a session. If Java is gone, there is nothing to stop, and the reason was reported."""
    with suppress(Exception):
        spark.stop()


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Defers a Ctrl-C until Java has started, or a Java would be left behind; and drops a handler of Spark's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt


def _lead_workers_here() -> None:
    """Makes workers on this machine find the package where this process found it."""
    package = Path(__file__).absolute().parents[1]
    if package.name == "tarry":  # or else it is installed from a checkout, and known to the interpreter
        places = (str(package.parent), os.environ.get("PYTHONPATH"))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
