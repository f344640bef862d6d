"""From a path to its route: a tree of the path's parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from .routes import Operation


@define
class _Branch:
    """Where a path has come, part by part."""

    next: dict[str, "_Branch"] = field(factory=dict[str, "_Branch"])
    """By the next part, as it stands in the path."""
    named: "tuple[str, _Branch] | None" = None
    """By any next part, and how the route calls it."""
    route: str = ""
    operations: dict[str, Operation] = field(factory=dict[str, Operation])
    """What ends here, by its method."""


@define
class Router:
    """`find` goes by the tree of all operations' paths."""

    _root: _Branch = field(factory=_Branch, init=False)

    def add(self, operations: Iterable[Operation]) -> None:
        """Puts them in their places. Paths of one form name their parts alike."""
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
        """The route, its operations by method, and the path's named parts; no operations where no route is."""
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
        """All of them."""
        places = [self._root]
        while places:
            place = places.pop()
            yield from place.operations.values()
            places += [*place.next.values(), *([place.named[1]] if place.named else [])]
