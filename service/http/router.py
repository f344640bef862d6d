"""Finds the route of a path, in a tree of the paths' parts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import define, field

T = TypeVar("T")


@define
class _Branch(Generic[T]):
    """A node of the tree, reached by the parts of a path so far."""

    next: "dict[str, _Branch[T]]" = field(factory=dict[str, "_Branch[T]"])
    """The branches for a literal next part."""
    named: "tuple[str, _Branch[T]] | None" = None
    """The branch for any other next part, and the name that the route gives this part."""
    route: str = ""
    operations: dict[str, T] = field(factory=dict[str, T])
    """The operations of the path that ends here, by method."""


@define
class Router(Generic[T]):
    _root: _Branch[T] = field(factory=_Branch[T], init=False)

    def add(self, path: str, method: str, operation: T) -> None:
        """Adds an operation. Paths that differ only in the names of their parts must use the same names."""
        place = self._root
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                if place.named is None:
                    place.named = part[1:-1], _Branch[T]()
                place = place.named[1]
            else:
                place = place.next.setdefault(part, _Branch[T]())
        place.route = path
        place.operations[method] = operation

    def find(self, segments: Sequence[str]) -> tuple[str, Mapping[str, T], dict[str, str]]:
        """The route, its operations by method, and the path's named parts; no operations if there is no such route."""
        place, parts = self._root, dict[str, str]()
        for part in segments:
            known = place.next.get(part)
            if known is None:
                if place.named is None or not part:
                    return "", {}, {}
                name, known = place.named
                parts[name] = part
            place = known
        return place.route, place.operations, parts

    def operations(self) -> Iterator[T]:
        places = [self._root]
        while places:
            place = places.pop()
            yield from place.operations.values()
            places += [*place.next.values(), *([place.named[1]] if place.named else [])]
