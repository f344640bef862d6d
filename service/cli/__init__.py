"""The command line. `command` is the entry point, `app` the list of commands; most other files hold the commands of one
noun. `demo` is a room beside.
"""
