"""Finds the route of a path, in a tree of the paths' parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from .routes import Operation


@define
class _Branch:
    """A node of the tree, reached by the parts of a path so far."""

    next: dict[str, "_Branch"] = field(factory=dict[str, "_Branch"])
    """The branches for a literal next part."""
    named: "tuple[str, _Branch] | None" = None
    """The branch for any other next part, and the name that the route gives this part."""
    route: str = ""
    operations: dict[str, Operation] = field(factory=dict[str, Operation])
    """The operations of the path that ends here, by method."""


@define
class Router:
    _root: _Branch = field(factory=_Branch, init=False)

    def add(self, operations: Iterable[Operation]) -> None:
        """Adds these operations. Paths that differ only in the names of their parts must use the same names."""
        for operation in operations:
            place = self._root
            for part in operation.path.split("/")[1:]:
                if part.startswith("{"):
                    if place.named is None:
                        place.named = part[1:-1], _Branch()
                    place = place.named[1]
                else:
                    place = place.next.setdefault(part, _Branch())
            place.route = operation.path
            place.operations[operation.method] = operation

    def find(self, segments: Sequence[str]) -> tuple[str, Mapping[str, Operation], dict[str, str]]:
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

    def operations(self) -> Iterator[Operation]:
        places = [self._root]
        while places:
            place = places.pop()
            yield from place.operations.values()
            places += [*place.next.values(), *([place.named[1]] if place.named else [])]
