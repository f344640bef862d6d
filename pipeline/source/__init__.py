"""The store as a Spark data source: the layout of its tables, and bounded reads of them."""
