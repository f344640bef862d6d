"""The shares of the wheel: a shard is always in the wheel of somebody who says so, whoever comes and goes, whenever he
looks, renews, loads and forgets; only what dies takes its shards along."""

import random

import attrs
import pytest

from tarry.service.engine.cluster.assignment import assign
from tarry.service.engine.cluster.ownership import Ownership, Peer

ALL = frozenset(range(16))


@attrs.define(eq=False)
class Server:
    """A node: its shares, what its wheel holds in full, and what it is about to do."""

    boot: str
    shares: Ownership = attrs.field(factory=Ownership)
    wheel: frozenset[int] = frozenset()
    loading: frozenset[int] = frozenset()
    telling: list[int] | None = None
    telling_leaving: bool = False


@attrs.define
class World:
    """Servers and their rows. Each step is one that nothing can cut in two."""

    dice: random.Random
    servers: list[Server] = attrs.field(factory=list[Server])
    rows: dict[str, Peer] = attrs.field(factory=dict[str, Peer])
    lost: frozenset[int] = ALL
    """They went with who died, and nobody has read them since."""
    born: int = 0

    def join(self) -> None:
        self.born += 1
        self.servers.append(server := Server(f"{self.born}-{self.dice.getrandbits(32)}"))
        self.look(server)

    def look(self, server: Server) -> None:
        if server.telling is None:  # one after another
            server.shares.see(server.boot, [row for boot, row in self.rows.items() if boot != server.boot])

    def begin_renewal(self, server: Server) -> None:
        if server.telling is None:
            server.telling = server.shares.to_tell
            server.telling_leaving = server.shares.leaving
            server.shares.telling(server.telling)

    def commit_renewal(self, server: Server) -> None:
        if server.telling is not None:
            self.rows[server.boot] = Peer(server.boot, frozenset(server.telling), server.telling_leaving)

    def end_renewal(self, server: Server) -> None:
        if server.telling is not None:
            self.commit_renewal(server)
            server.shares.told(server.telling, leaving=server.telling_leaving)
            server.telling = None

    def renew(self, server: Server) -> None:
        self.begin_renewal(server)
        self.end_renewal(server)

    def lose_answer(self, server: Server) -> None:
        """Whether it was written or not."""
        server.telling = None

    def take(self, server: Server) -> None:
        server.loading |= server.shares.take()

    def load(self, server: Server) -> None:
        server.wheel |= server.loading
        server.shares.loaded(server.loading)
        server.loading = frozenset()

    def drop(self, server: Server) -> None:
        if not server.loading:
            server.wheel -= server.shares.drop()

    def stop(self, server: Server) -> None:
        server.shares.leaving = True

    def exit(self, server: Server) -> None:
        if server.shares.leaving and server.shares.relieved and server.shares.others and not server.loading:
            self.servers.remove(server)
            self.rows.pop(server.boot, None)

    def kill(self, server: Server) -> None:
        if len(self.servers) > 1:
            for other in list(self.servers):  # they rely on it, and cannot know
                self.drop(other)
                self.exit(other)
            if server in self.servers:
                self.servers.remove(server)
            self.lost |= server.wheel - self.there()
            self.rows.pop(server.boot, None)

    def bury(self, server: Server) -> None:
        """It only slept."""
        self.rows.pop(server.boot, None)

    def there(self) -> frozenset[int]:
        return frozenset().union(*(server.wheel for server in self.servers))

    def check(self) -> None:
        self.lost -= self.there()
        assert self.there() | self.lost == ALL, f"{set(ALL - self.there() - self.lost)} in no wheel"
        for server in self.servers:
            assert server.wheel <= server.shares.held

    def calm_down(self) -> None:
        for _ in range(6):
            for server in list(self.servers):
                for step in (self.look, self.take, self.load, self.begin_renewal, self.end_renewal, self.drop):
                    step(server)
                    self.check()
                self.exit(server)
                self.check()


def calm(servers: int) -> World:
    """So many servers that have come, and share."""
    world = World(random.Random(1))
    for _ in range(servers):
        world.join()
    world.calm_down()
    return world


@pytest.mark.parametrize("seed", range(300))
def test_a_shard_is_always_in_a_wheel(seed: int) -> None:
    dice = random.Random(seed)
    world = World(dice)
    world.join()
    often = [world.look, world.begin_renewal, world.commit_renewal, world.end_renewal, world.take, world.load]
    steps = often * 3 + [world.drop] * 6 + [world.exit] * 2 + [world.bury] + [world.lose_answer] * 4
    seldom = [world.stop] + [world.kill] * (seed % 2)
    for _ in range(400):
        chosen = dice.random()
        staying = [server for server in world.servers if not server.shares.leaving]
        if (chosen < 0.02 and len(staying) < 5) or not staying:
            world.join()
        elif chosen < 0.03:
            dice.choice(seldom)(dice.choice(world.servers))
        else:
            dice.choice(steps)(dice.choice(world.servers))
        world.check()
    if not [server for server in world.servers if not server.shares.leaving]:
        world.join()
    for server in world.servers:
        server.telling = None
    world.calm_down()
    owners = assign(frozenset(server.boot for server in world.servers))
    for server in world.servers:
        mine = {shard for shard in ALL if owners[shard] == server.boot}
        assert server.wheel == server.shares.held == mine
        assert set(server.shares.to_tell) == mine


def test_the_one_before_lets_go_when_the_new_one_has_said_twice_that_it_has_the_shard() -> None:
    world = calm(1)
    world.join()
    old, new = world.servers
    world.take(new)
    theirs = new.loading
    assert len(theirs) == 8
    world.renew(new)
    world.look(old)
    world.drop(old)
    assert old.wheel == ALL, "the new one is there, and has not loaded"
    world.load(new)
    world.renew(new)
    world.look(old)
    world.drop(old)
    assert old.wheel == ALL, "the old one's row says yet that it has them"
    world.renew(old)
    assert world.rows[old.boot].shards == ALL - theirs
    world.drop(old)
    assert old.wheel == ALL, "it has not looked since"
    world.look(old)
    world.drop(old)
    assert old.wheel == old.shares.held == ALL - theirs


def test_who_stops_keeps_what_it_has_until_others_have_it() -> None:
    world = calm(2)
    old, new = world.servers
    world.stop(old)
    world.renew(old)
    world.look(old)
    assert not old.shares.relieved
    assert old.shares.others
    for step in (world.look, world.take, world.load):
        step(new)
        world.look(old)
        assert not old.shares.relieved
    world.renew(new)
    world.look(old)
    assert old.shares.relieved
    assert len(old.wheel) == 8


def test_who_stops_alone_waits_for_nobody() -> None:
    world = calm(1)
    (server,) = world.servers
    world.stop(server)
    world.look(server)
    assert server.shares.relieved
    assert not server.shares.others
    world.rows["b"] = Peer("b", frozenset(), leaving=True)
    world.look(server)
    assert server.shares.relieved
    assert not server.shares.others
