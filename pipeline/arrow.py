"""pyarrow, which has no types of its own: the seam through which the rooms that are typed use it."""

from importlib import import_module
from typing import Any, TypeAlias

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
pq: Any = import_module("pyarrow.parquet")
fs: Any = import_module("pyarrow.fs")
ds: Any = import_module("pyarrow.dataset")

Table: TypeAlias = Any
Array: TypeAlias = Any
Batch: TypeAlias = Any
Schema: TypeAlias = Any
ArrowType: TypeAlias = Any
