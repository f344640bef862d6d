"""What the extras bring, and the sentence for whoever lacks one: it names the command to type.

Only what an extra brings gets this sentence. Anything else that cannot be imported is a fault, and stays one.
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
"""For each extra, what is imported of it, and the distribution that has it."""

_NEWS = {"server": "the server and its commands are not installed", "spark": "the pipeline is not installed"}


def sentence(extra: str, module: str) -> str:
    """That the extra is not there, as its module `module` shows, and what to type."""
    return f"{_NEWS[extra]} ({EXTRAS[extra][module]} is missing): {command(extra)}"


def command(extra: str) -> str:
    """What to type. Where Tarry is installed, pip looks for nothing but what the extra brings."""
    return f"pip install 'tarry[{extra}]'"


def lacking(extra: str, error: BaseException) -> str | None:
    """The sentence, if the import failed since a distribution of the extra is not there; else None."""
    # A submodule that is missing is another thing: the distribution is there, and is not what it should be.
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    return sentence(extra, module) if module is not None and module in EXTRAS[extra] else None
