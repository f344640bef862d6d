"""A store of each kind, open for what makes real rows: the embedded one always, the servers with the long tests."""

import pytest

from support.store_homes import KINDS, dsn, homes, stage
from support.stores import Kind

__all__ = ["dsn", "homes", "stage"]


@pytest.fixture(params=[KINDS[0], *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS[1:])])
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind
