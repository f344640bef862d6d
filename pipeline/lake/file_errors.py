"""What goes wrong with a file of the lake while it is read, each as one sentence."""

from collections.abc import Generator
from contextlib import contextmanager

from ..arrow import pa
from ..errors import LakeError
from .object_store import Access


def missing(place: str, file: str) -> LakeError:
    """A file that the table at `place` lists is not there."""
    return LakeError(
        f"a file that the lake lists is missing: {file}. Put it back from a backup,"
        f" or take it out of the table with DeltaTable({place!r}).repair()"
    )


@contextmanager
def reading(access: Access, place: str, path: str) -> Generator[None]:
    """Errors of pyarrow at this file of the table at `place`, as a `LakeError`."""
    try:
        yield
    except FileNotFoundError as error:
        lost = access.lost_bucket(place)
        raise (missing(place, f"{place}/{path}") if lost is None else _unreadable(place, lost)) from error
    except (OSError, pa.ArrowInvalid) as error:
        why = access.known(error, place)
        if why is not None:
            raise _unreadable(place, why) from error
        raise LakeError(f"a Parquet file is damaged: {place}/{path}. Put it back from a backup") from error


def _unreadable(place: str, why: str) -> LakeError:
    return LakeError(f"the lake at {place} cannot be read: {why}")
