"""What is wrong with a command line beyond what its parser sees."""


class UsageError(Exception):
    """The arguments do not go together; the text says what to write instead. Exit code 2."""
