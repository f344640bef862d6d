"""Arrow columns of the types that Spark expects, made of a driver's results."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType, TimestampType

from .arrow import Array, ArrowType, Schema, pa, pc

_TYPES: Mapping[str, ArrowType] = {
    "string": pa.string(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}


def arrow_type(kind: DataType) -> ArrowType:
    return _TYPES[kind.typeName()]


def arrow_schema(schema: StructType) -> Schema:
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def to_column(values: Array, kind: DataType) -> Array:
    """A driver's column as this type; drivers give times as milliseconds, and text as bytes."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    wanted = arrow_type(kind)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), wanted)
    if isinstance(kind, TimestampType):
        return times(values)
    if pa.types.is_string(wanted) and not pa.types.is_string(values.type):
        try:
            return values.cast(wanted)
        except pa.ArrowInvalid:  # a program of a user's own wrote it
            return pa.array([None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()], wanted)
    if pa.types.is_boolean(wanted) and not pa.types.is_boolean(values.type):
        return pc.not_equal(values, pa.scalar(0, values.type))
    return values.cast(wanted)


def times(milliseconds: Array) -> Array:
    return pc.multiply(milliseconds.cast(pa.int64()), 1000).cast(pa.timestamp("us", "UTC"))


def constant(value: object, kind: DataType, length: int) -> Array:
    return pa.repeat(pa.scalar(value, arrow_type(kind)), length)


def looked_up(ids: Array, names: Mapping[int, Sequence[str]], place: int) -> Array:
    """The name of each id."""
    dictionary = pa.array([name[place] for name in names.values()], pa.string())
    return dictionary.take(pc.index_in(ids.cast(pa.int64()), pa.array(list(names), pa.int64())))


def frame(spark: Any, rows: Iterable[Mapping[str, object]], schema: StructType) -> DataFrame:
    """Rows as a DataFrame that needs no job. (PySpark's types of this call are partly unknown.)"""
    made: DataFrame = spark.createDataFrame(pa.Table.from_pylist(list(rows), arrow_schema(schema)), schema)
    return made
