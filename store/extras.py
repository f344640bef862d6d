"""The packages of each extra, and the message for a user who lacks one, with the command that installs it.

Only a missing package of an extra gets this message. Any other failed import is a fault, and is raised as such.
"""

from collections.abc import Mapping

_SERVER = {
    "cronsim": "cronsim",
    "cryptography": "cryptography",
    "cyclopts": "cyclopts",
    "jinja2": "Jinja2",
    "markupsafe": "MarkupSafe",
    "prometheus_client": "prometheus-client",
    "rich": "rich",
    "structlog": "structlog",
    "tenacity": "tenacity",
    "trio": "trio",
    "trio_mysql": "trio-mysql",
    "tzdata": "tzdata",
}
_SPARK = {
    "pyspark": "PySpark",
    "connectorx": "connectorx",
    "deltalake": "deltalake",
    "matplotlib": "matplotlib",
    "pyarrow": "pyarrow",
    "pymysql": "PyMySQL",
}
EXTRAS: Mapping[str, Mapping[str, str]] = {"server": _SERVER, "spark": _SPARK | _SERVER}
"""For each extra, the modules that are imported, and the distribution that has each."""

_NEWS = {"server": "the server and its commands are not installed", "spark": "the pipeline is not installed"}


def sentence(extra: str, module: str) -> str:
    """Says that the extra is not installed, since its module `module` is missing, and what to type."""
    return f"{_NEWS[extra]} ({EXTRAS[extra][module]} is missing): {command(extra)}"


def command(extra: str) -> str:
    """The command to type. Where Tarry is installed, pip installs only the packages of the extra."""
    return f"pip install 'tarry[{extra}]'"


def lacking(extra: str, error: BaseException) -> str | None:
    """The sentence, if the import failed because a distribution of the extra is missing; else None."""
    # Not for a missing submodule: then the distribution is installed, but not in the expected form.
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    return sentence(extra, module) if module is not None and module in EXTRAS[extra] else None
