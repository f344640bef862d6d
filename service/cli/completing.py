"""The command `completion`: prints the script by which a shell completes commands, flags and their values."""

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell that will read it.")], /
) -> int:
    """Print a script that completes tarry's commands in a shell.

    In ~/.bashrc: eval "$(tarry completion bash)"
    """
    from .app import app, load_all  # imported late: `app` has all commands, this one among them

    load_all(app)
    sys.stdout.write(app.generate_completion(prog_name="tarry", shell=shell))
    sys.stdout.flush()
    return 0
