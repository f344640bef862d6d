"""The data pipeline on Spark: archive, report, audit, trace, import and replay.

`tarry pipeline --help`, `python -m tarry.pipeline --help` and `spark-submit` run the same jobs. A job is a function
from DataFrames to DataFrames; only `source` and `lake` read and write, and jobs whose module docstring says so.
"""
