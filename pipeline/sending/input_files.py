"""Reads users' files, Parquet, CSV and NDJSON, as DataFrames that keep each row as it came.

Fields of a CSV are text, as they stand in the file; an empty one is missing. Nothing is inferred: what a file's later
rows look like must not change what its first rows mean, or they would count as new when the file has grown.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from attrs import frozen
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from ..errors import NotFound, PipelineError
from ..spark_errors import translate

Format = Literal["parquet", "csv", "ndjson"]

_ENDS: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}
_PACKED = (".gz", ".bz2", ".zst", ".snappy", ".lz4")

_FOOTER = re.compile(r"((?:file:)?/\S*?)(?:\. | is not a Parquet file|[,;\n]|$)")
"""The file that an error of Spark names, when it cannot read the file's footer."""

TORN = "_tarry_torn"
"""A column of CSV files: the line, if it has not as many fields as the header."""
LINE = "value"
"""A column of NDJSON files: the line."""


@frozen
class Rows:
    """The rows of some files, and the names of their columns."""

    frame: DataFrame
    format: Format
    names: tuple[str, ...]
    """The names of the columns; empty for NDJSON, where each row has its own."""

    def column(self, name: str, option: str) -> Column:
        """A column by name. Raises ValueError with the nearest one when there is none."""
        if self.format == "ndjson":
            return fn.expr(f"try_variant_get({_document()}, '{_path(name)}', 'variant')")
        if name not in self.names:
            near = get_close_matches(name, self.names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.names[:30])}"
            raise ValueError(f"{option} {name}: the files have no such column; {hint}")
        return fn.col(_quoted(name))

    def type_of(self, name: str) -> DataType:
        return VariantType() if self.format == "ndjson" else self.frame.schema[name].dataType

    def text(self, name: str, option: str) -> Column:
        """A column as text; null where it is missing or empty."""
        column = self.column(name, option)
        type_ = self.type_of(name)
        if isinstance(type_, VariantType):
            text = fn.expr(f"try_variant_get({_document()}, '{_path(name)}', 'string')")
        elif isinstance(type_, StructType | MapType | ArrayType):
            text = fn.to_json(column)
        elif isinstance(type_, BinaryType):
            text = fn.decode(column, "UTF-8")
        else:
            text = column.cast(StringType())
        return fn.when(text != "", text)

    def whole(self) -> Column:
        """The row as JSON text: the line itself, or an object of all columns."""
        if self.format == "ndjson":
            return fn.col(LINE)
        return fn.to_json(fn.struct(*[fn.col(_quoted(name)) for name in self.names]), {"ignoreNullFields": "false"})

    def torn(self) -> Column:
        """Why the row cannot be read; null when it can."""
        if self.format == "ndjson":
            return fn.when(~is_json(fn.col(LINE)), "the line is not JSON")
        if self.format == "csv":
            return fn.when(fn.col(TORN).isNotNull(), "the line has not as many fields as the header")
        return fn.lit(None).cast(StringType())


def is_json(text: Column) -> Column:
    """Whether a text is one JSON value in UTF-8: Spark's reader may stop after a first value, but not within a list or
    an object; and it reads bytes of any encoding, which are passed on as they are."""
    in_list = fn.try_parse_json(fn.concat(fn.lit("["), text, fn.lit("]")))
    in_object = fn.try_parse_json(fn.concat(fn.lit('{"x":'), text, fn.lit("}")))
    return fn.coalesce(fn.is_valid_utf8(text) & in_list.isNotNull() & in_object.isNotNull(), fn.lit(False))


def read_rows(spark: SparkSession, files: Sequence[str], format_: Format | None, *, multi_line: bool = False) -> Rows:
    """The rows of the files, paths or URLs, folders and patterns as Spark takes them.

    `multi_line`: fields of a CSV hold line breaks. Raises `NotFound`, and ValueError when the format cannot be told.
    """
    format_ = format_ or _format_of(files)
    try:
        if format_ == "parquet":
            frame = _parquet(spark, files)
            return Rows(frame, format_, tuple(frame.columns))
        if format_ == "ndjson":
            return Rows(spark.read.text(list(files)).where(fn.trim(LINE) != ""), format_, ())
        return _csv(spark, list(files), multi_line)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise NotFound(f"there is no such file: {', '.join(files)}") from error
        raise PipelineError(f"the files cannot be read as {format_}: {_first_line(error)}") from error


def _parquet(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    try:
        return spark.read.parquet(*files)
    except AnalysisException:
        raise
    except Exception as error:  # of a footer
        if translate(error) is None:
            raise
        found = _FOOTER.search(str(error))
        raise PipelineError(f"{found[1] if found else ', '.join(files)} is no Parquet file, or is damaged") from error


def _csv(spark: SparkSession, files: list[str], multi_line: bool) -> Rows:
    tabs = all(_bare(file).endswith(".tsv") for file in files)
    options = {
        "header": "true",
        "sep": "\t" if tabs else ",",
        "quote": '"',
        "escape": '"',
        "multiLine": "true" if multi_line else "false",
    }
    header = spark.read.options(**options).csv(files).schema
    if not header.fields:
        raise PipelineError(f"{files[0]} has no header: its first line names the columns")
    # Files whose headers differ are refused, instead of being read by the first one's.
    schema = StructType(header.fields).add(TORN, StringType())
    reader = spark.read.options(**options, enforceSchema="false", columnNameOfCorruptRecord=TORN)
    return Rows(reader.schema(schema).csv(files), "csv", tuple(header.names))


def _format_of(files: Sequence[str]) -> Format:
    formats: set[Format | None] = {_ENDS.get("." + _bare(file).rpartition(".")[2]) for file in files}
    only: Format | None = formats.pop() if len(formats) == 1 else None
    if only is None:
        raise ValueError(
            f"--format: say parquet, csv or ndjson, the names of the files do not tell: {', '.join(files)}"
        )
    return only


def _bare(file: str) -> str:
    name = file.lower().rstrip("/")
    for end in _PACKED:
        name = name.removesuffix(end)
    return name


def _document() -> str:
    return f"try_parse_json({LINE})"


def _path(name: str) -> str:
    if any(letter in name for letter in "'\"\\[]"):
        raise ValueError(f"{name}: a name in NDJSON may not hold quotes, brackets or backslashes here")
    return "$" + "".join(f'["{part}"]' for part in name.split("."))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
