"""The report: figures out of the history, charts of them, and the page that holds both.

`figures` and its neighbours are functions from DataFrames to DataFrames; `charts` and `page` know nothing of Spark.
"""
