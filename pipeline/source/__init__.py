"""The store as a Spark data source: what lies where, and bounded reads of it."""
