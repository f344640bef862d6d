"""The command line of the pipeline: a file per command, none of which loads Spark before it has to."""
