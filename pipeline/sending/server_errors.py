"""What a server says no to, as an error of the pipeline."""

from collections.abc import Generator
from contextlib import contextmanager

from ...client.errors import NotFound as NotThere
from ...client.errors import TarryError, Unavailable
from ..errors import NotFound, PipelineError, StoreAway


@contextmanager
def translated() -> Generator[None, None, None]:
    """Around calls to a server. Raises `NotFound`, `StoreAway` and `PipelineError` for the client's errors."""
    try:
        yield
    except NotThere as error:
        raise NotFound(str(error)) from error
    except Unavailable as error:
        raise StoreAway(f"the server is away, and the job stopped: {error}") from error
    except TarryError as error:
        raise PipelineError(f"the server refuses: {error}") from error
