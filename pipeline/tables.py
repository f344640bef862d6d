"""The tables that a job looks at, each message once, wherever its rows lie.

`history.open_tables` makes them of the store, of the lake, or of both together; tests make them of literal rows.
"""

from attrs import frozen
from pyspark.sql import DataFrame


@frozen
class Tables:
    """DataFrames with the schemas of `schemas`, by their names there.

    Without a store, what the lake has not is empty.
    """

    messages: DataFrame
    deliveries: DataFrame
    claims: DataFrame
    retries: DataFrame
    returns: DataFrame
    dead: DataFrame
    timers: DataFrame
    cancelled: DataFrame
    queues: DataFrame
    cursors: DataFrame
    tallies: DataFrame
