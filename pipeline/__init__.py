"""The data pipeline on Spark: archive, report, audit, trace, import and replay.

`tarry pipeline --help`, `python -m tarry.pipeline --help` and `spark-submit` run the same jobs. A job is a function
from DataFrames to DataFrames; only the edges read and write: `source` and `lake`, and what a job says in its own head.
"""
