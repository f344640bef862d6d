"""The command `doctor`: checks whether Tarry can run here and keep its promises. It changes nothing."""

import os
import socket
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import httpx
import trio
from attrs import asdict, frozen

from ...client import Tarry
from ...store.errors import Full, ReadOnly, Refused, SchemaError, StoreError, StoreInUse
from ...store.ids import SHARDS_OF_DELAY
from ...store.migrations import Applied, pending
from ...store.mysql.dsn import Dsn
from ...store.nodes import NodeRow, all_nodes
from ...store.opening import is_shared, migrations_for, open_backend, open_guest
from ...store.operating.keys import Key, all_keys
from ...store.ports import Backend, Guest
from ...store.sqlite.schema import read_applied
from ...store.stream.sealing import wide_holes
from ...store.timers import spoilt
from ..durations import format_duration
from ..engine.cluster.nodes import LEASE, told_by
from ..engine.dispatch.spoilt import FACT as SPOILT
from ..guards.asker import Asker
from ..guards.declared import Guard
from ..guards.question import NoAnswer
from ..http.server.listening import check_path
from ..http.server.tls import BadCertificate, Certificate
from ..places import masked
from ..settings import SettingError, Settings
from ..upkeep.redis_check import ping_redis
from .flags import flag
from .printing import print_items
from .serving import Flags

if TYPE_CHECKING:
    from ...store.mysql.hosts import Looked

_SQLITE = "sqlite:///"
_SKEW = 1000
"""Milliseconds between this clock and the database's beyond which a note is given: the database's is the one that
counts."""

_OTHERS = 0o007
"""The permissions of users that are neither the file's owner nor in its group."""

_SPARE = 10
"""Sessions of the database kept for others: commands, backups, administrators."""

_NAMED = 10
"""The most spoilt rows that are named."""

_ONE_OF_SEVERAL = (
    "the DSN names one member of its group: name them all, unless it is a router, or a name that moves with the primary"
)

_NO_FLAGS = Flags()


@frozen
class Finding:
    """The result of one check: `wrong` makes the doctor fail, `note` does not."""

    check: str
    state: Literal["ok", "note", "wrong"]
    detail: str


def doctor(*, json: Annotated[bool, flag("One JSON line per check.")] = False, flags: Flags = _NO_FLAGS) -> int:
    """Check whether Tarry can run here, and keep its promises.

    It looks at Python, the store, its schema and durability, clocks, Redis, guards and the port.
    Exit code 1 if any of them is wrong.
    """
    settings = flags.settings()
    findings = [
        _version("python", sys.version_info[:3], (3, 11), "Tarry"),
        _version("sqlite", sqlite3.sqlite_version_info, (3, 35), "the embedded store"),
        *_store(settings),
        *_redis(settings),
        *_certificate(settings),
        *_keys(settings),
        *(trio.run(_guard, guard) for guard in settings.guards),
        _door(settings),
    ]
    rows = [(one.check, one.state, one.detail) for one in findings]
    print_items(map(asdict, findings), ("check", "state", "detail"), rows, json=json)
    return int(any(finding.state == "wrong" for finding in findings))


def _version(check: str, here: tuple[int, ...], oldest: tuple[int, int], who: str) -> Finding:
    version = ".".join(map(str, here))
    if here < oldest:
        return Finding(check, "wrong", f"{version}; {who} needs {oldest[0]}.{oldest[1]} or newer")
    return Finding(check, "ok", version)


def _store(settings: Settings) -> list[Finding]:
    dsn = settings.dsn
    path = Path(dsn.removeprefix(_SQLITE))
    if dsn.startswith(_SQLITE) and not path.exists():
        return [_new_file(path, masked(dsn))]
    findings = trio.run(_examine, settings)
    return [*findings, _privacy(path)] if dsn.startswith(_SQLITE) else findings


async def _examine(settings: Settings) -> list[Finding]:
    dsn = settings.dsn
    shown = masked(dsn)
    hosts = await _hosts(dsn) if is_shared(dsn) else []
    return hosts + await _examine_store(settings, shown)


async def _hosts(dsn: str) -> list[Finding]:
    """Whether exactly one server takes writes. No finding if there is one host, and it leads to one server."""
    try:
        parsed = Dsn.parse(dsn)
    except ValueError:
        return []  # `_examine_store` reports it
    from ...store.mysql.hosts import look_at_each  # the embedded store does not need the driver

    found = await look_at_each(parsed)
    groups = _groups(found)
    if not parsed.others and len(found[0].names) < 2:
        return groups
    told = "; ".join(f"{one.place}: {one.why or 'takes writes'}" for one in found)
    # Nodes of a cluster count as one writer: all of them get what is written to one.
    writers = {one.cluster or name for one in found if one.why is None for name in one.names}
    clusters = {one.cluster for one in found if one.cluster}
    if clusters and len(writers) == 1:
        told += f". They are one cluster ({clusters.pop()}); Tarry is at work on one of them at a time"
    for one in found:
        if one.why is None and len(one.names) > 1:
            told += f". {one.place} leads to {len(one.names)} servers in turn: it must lead to one at a time"
    if len(writers) > 1 and not clusters:  # `_groups` reports hosts of several clusters
        told += ". Of several that take writes each has what is written to it: set read_only on all but one"
    if len(writers) != 1 or any(isinstance(one.why, Refused) for one in found):
        return [Finding("hosts", "wrong", told), *groups]
    unsure = any(one.why is not None and not isinstance(one.why, ReadOnly) for one in found)
    return [Finding("hosts", "note" if unsure else "ok", told), *groups]


def _groups(found: "Sequence[Looked]") -> list[Finding]:
    """Findings about the members of replication groups, each once."""
    told = {one.place: one.group for one in found if one.group is not None}
    if not told:
        return []
    first, names = next(iter(told.values())), {group.name for group in told.values()}
    if len(names) > 1 or len(told) < sum(one.why is None or isinstance(one.why, ReadOnly) for one in found):
        each = "; ".join(f"{one.place}: {one.group.name if one.group else 'none'}" for one in found)
        return [Finding("group", "wrong", f"the hosts are not all of one group or Galera: {each}. Name those of one")]
    advice = dict.fromkeys(one for group in told.values() for one in group.advice)
    if len(found) == 1 and first.members > 1 and first.all_named:
        advice[_ONE_OF_SEVERAL] = None
    return [Finding("group", "ok", first.text), *(Finding("group", "note", one) for one in advice)]


async def _examine_store(settings: Settings, shown: str) -> list[Finding]:
    dsn, widest = settings.dsn, settings.widest_hole
    try:
        backend = await open_backend(dsn)
    except StoreInUse:
        schema = _embedded_schema(dsn)
        rows = [await _rows_beside(dsn)] if schema.state == "ok" else []
        return [Finding("store", "ok", f"{shown}, in use by a server"), schema, *rows]
    except StoreError as error:
        return [_wrong_store(shown, error)]
    try:
        before = time.time_ns() // 1_000_000
        now = await backend.now()
        after = time.time_ns() // 1_000_000
        findings = [Finding("store", "ok", f"{shown}, answers in {after - before} ms")]
        faults = await backend.faults()
        findings += [Finding(check, "wrong", fault) for check, fault in faults]
        if any(check == "tables" for check, _ in faults):
            return findings  # the other checks read these tables
        little = settings.too_little(await backend.longest_statement(), await backend.largest_transaction())
        findings += [Finding("server", "wrong", one) for one in little]
        applied = await backend.applied()
        findings.append(schema := _judge(dsn, applied))
        findings += await _durability(backend)
        findings += [Finding("commits", "note", advice) for advice in await backend.advice()]
        nodes: Sequence[NodeRow] = ()
        if applied.checksums:
            findings += [_stands(*hole) for hole in await backend.read(partial(wide_holes, widest=widest))]
        if (room := await backend.room()) is not None:
            nodes = await backend.read(all_nodes) if applied.checksums else []
            alive = [node.name for node in nodes if abs(now - node.renewed_at) <= LEASE]
            findings.append(_connections(*room, settings, alive))
        if schema.state == "ok":
            findings.append(await _rows(backend, now, nodes))
        findings.append(_skew(now, before, after))
    except StoreError as error:
        return [_wrong_store(shown, error)]
    finally:
        await backend.aclose()
    return findings


def _connections(each: int, limit: int, settings: Settings, alive: Sequence[str]) -> Finding:
    """Whether the database allows enough sessions for all running servers, and this one with its processes."""
    many = settings.processes
    own = {settings.node, *(f"{settings.node}-{number}" for number in range(1, many + 1))}
    elsewhere = sum(name not in own for name in alive)
    wanted = (many + elsewhere) * each
    told = (
        f"the database lets in {limit} (max_connections, or this user's own limit); {many} here and {elsewhere}"
        f" elsewhere, of {each} each, may want {wanted}"
    )
    if wanted <= limit:
        return Finding("connections", "ok", told)
    advice = f"raise it to {wanted + _SPARE} or more, or have fewer processes: with fewer they wait for each other"
    return Finding("connections", "note", f"{told}: {advice}")


def _stands(topic: str, queue: int, first: int, last: int) -> Finding:
    return Finding(
        "sealing",
        "wrong",
        f"queue {queue} of {topic} stands still: no message at its offsets {first} to {last}, and one at {last + 1}."
        " Delete that row of `message` if it is not yours, or raise widest_hole",
    )


async def _rows_beside(dsn: str) -> Finding:
    """As `_rows`, for an embedded store that a server has open."""
    try:
        guest = await open_guest(dsn)
        try:
            return await _rows(guest, await guest.now())
        finally:
            await guest.aclose()
    except StoreError as error:
        return Finding("rows", "note", f"they cannot be read: {error}")


async def _rows(guest: Guest, now: int, nodes: Sequence[NodeRow] = ()) -> Finding:
    """Rows that are due and cannot be promoted, as found by this check and by the servers."""
    whys: dict[str, str] = {}
    for shard in range(SHARDS_OF_DELAY):
        whys |= await guest.read(partial(spoilt.find, shard=shard, now=now))
    here = [f"{name}: {why}" for name, why in whys.items()]
    told = list(dict.fromkeys([*here, *(one for node in nodes for one in told_by(node, SPOILT))]))
    if not told:
        return Finding("rows", "ok", "none that is due is spoilt")
    more = f"; and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    shown = f"due, and cannot be promoted: {'; '.join(told[:_NAMED])}{more}"
    return Finding("rows", "wrong", f"{shown}. The runbook says how they are put right")


def _wrong_store(shown: str, error: StoreError) -> Finding:
    if isinstance(error, Full) and error.quota is not None:
        told = f"{error.quota} of Tarry's user of the database is used up: {error}. Set it to 0, which is no limit"
        return Finding("connections", "wrong", told)
    if isinstance(error, Full):
        return Finding(
            "connections",
            "wrong",
            f"the database lets nobody in to look, for all its sessions are in use: {error}. End one, or look again",
        )
    # The text of MySQL's errors begins with the DSN already.
    return Finding("store", "wrong", str(error) if str(error).startswith("mysql://") else f"{shown}: {error}")


def _new_file(path: Path, shown: str) -> Finding:
    directory = path.absolute().parent
    if not directory.is_dir() or not os.access(directory, os.W_OK):
        return Finding("store", "wrong", f"{shown}: {directory} is no directory that can be written to")
    return Finding("store", "ok", f"{shown} will be made by the first `tarry serve`")


def _privacy(path: Path) -> Finding:
    """Whether other users may read the store's files. Tarry makes files that only the owner may read; older ones, and
    files made by others, may have another mode."""
    files = [file for file in map(Path, (f"{path}", f"{path}-wal", f"{path}-shm")) if file.exists()]
    bare = [file for file in files if file.stat().st_mode & _OTHERS]
    if bare:
        names = " ".join(map(str, bare))
        return Finding("files", "note", f"everybody on this machine may read the messages: chmod 600 {names}")
    return Finding("files", "ok", "not open to everybody on this machine")


_NO_SCHEMA = Finding("schema", "note", "none yet: `tarry serve` or `tarry migrate` makes it")


def _embedded_schema(dsn: str) -> Finding:
    """The schema, read from the file in read-only mode, so that it works beside a server that has the store open."""
    path = Path(dsn.removeprefix(_SQLITE)).absolute()
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            applied = read_applied(connection)
    except sqlite3.Error as error:
        return Finding("schema", "wrong", str(error))
    return _judge(dsn, applied)


def _judge(dsn: str, applied: Applied) -> Finding:
    if not applied.checksums:
        return _NO_SCHEMA
    try:
        todo = pending(migrations_for(dsn), applied)
    except SchemaError as error:
        return Finding("schema", "wrong", str(error))
    version = max(applied.checksums)
    if todo:
        floor = max(applied.floor, *(migration.beside for migration in todo))
        stay = f"servers that know {floor:04} may stay at work" if floor <= version else "stop all servers first"
        return Finding(
            "schema", "note", f"version {version}; `tarry serve` or `tarry migrate` brings it up to date; {stay}"
        )
    return Finding("schema", "ok", f"version {version}")


async def _durability(backend: Backend) -> list[Finding]:
    faults = await backend.durability()
    if not faults:
        return [Finding("durability", "ok", "what was answered is on the disk")]
    return [Finding("durability", "wrong", fault) for fault in faults]


def _skew(now: int, before: int, after: int) -> Finding:
    skew = 0 if before <= now <= after else min(abs(now - before), abs(now - after))
    if skew > _SKEW:
        return Finding("clock", "note", f"{skew} ms from the database's, which is the one that counts")
    return Finding("clock", "ok", f"{skew} ms from the database's")


def _redis(settings: Settings) -> list[Finding]:
    """No finding if there is no Redis. One that is away costs latency but no message, so it is only a note."""
    if not settings.redis:
        return []
    shown = masked(settings.redis)
    try:
        wrong = ping_redis(settings)
    except SettingError as error:
        return [Finding("redis", "wrong", str(error))]
    if wrong is not None:
        return [Finding("redis", "note", f"{shown} does not answer, and Tarry works without: {wrong}")]
    return [Finding("redis", "ok", f"{shown} answers")]


def _certificate(settings: Settings) -> list[Finding]:
    if not settings.tls_cert:
        return []
    try:
        Certificate(Path(settings.tls_cert), Path(settings.tls_key))
    except BadCertificate as error:
        return [Finding("certificate", "wrong", str(error))]
    return [Finding("certificate", "ok", f"{settings.tls_cert} and its key")]


def _keys(settings: Settings) -> list[Finding]:
    """Whether there are keys, without which a server does not listen beyond this machine."""
    if not settings.always_asks:
        return []
    try:
        keys = trio.run(_read_keys, settings.dsn)
    except StoreError as error:
        return [Finding("keys", "note", f"they cannot be read: {error}")]
    if not keys:
        told = f"{settings.listen} is not this machine alone, and there is no key: `tarry keys create` makes one"
        return [Finding("keys", "wrong", told)]
    holding = sum(key.revoked_at is None for key in keys)
    return [Finding("keys", "ok" if holding else "note", f"{holding} that hold")]


async def _read_keys(dsn: str) -> list[Key]:
    guest = await open_guest(dsn)
    try:
        return await guest.read(all_keys)
    finally:
        await guest.aclose()


async def _guard(guard: Guard) -> Finding:
    """Whether the guard can be asked, and its answer, without contents of its table."""
    check, asker = f"guard {guard.name}", Asker(guard)
    try:
        trial = await asker.try_it()
    except NoAnswer as error:
        return Finding(check, "wrong", f"cannot be asked, and its messages are held: {error}")
    finally:
        asker.close()
    keys = f"{guard.table}.{guard.key_column} holds {'whole numbers' if trial.numbers else 'texts'}"
    told = f"answers in {trial.took} ms, of {format_duration(guard.timeout)} that it may take; {keys}"
    if not trial.indexed:
        told += f"; no index begins with {guard.key_column}, so each question reads the whole table: make one"
    if trial.unclear is not None:
        return Finding(check, "note", f"{told}; of a key that was tried: {trial.unclear}, so its messages are held")
    if trial.said is None:
        return Finding(check, "note", f"{told}; there is no row, and a message without one is not sent")
    state: Literal["ok", "note"] = "ok" if trial.indexed else "note"
    return Finding(check, state, f"{told}; of a row that was tried its condition is {str(trial.said).lower()}")


def _door(settings: Settings) -> Finding:
    if settings.listen_path is None:
        return _port(settings)
    path = Path(settings.listen_path)
    try:
        check_path(path)
    except OSError as error:
        return Finding("port", "note" if path.is_socket() else "wrong", str(error))
    if not os.access(path.absolute().parent, os.W_OK):
        return Finding("port", "wrong", f"{path.absolute().parent} is no directory that can be written to")
    return Finding("port", "ok", f"{settings.listen} is free")


def _port(settings: Settings) -> Finding:
    listen = settings.listen
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            return _taken(settings, error)
    return Finding("port", "ok", f"{listen} is free")


def _taken(settings: Settings, error: OSError) -> Finding:
    listen = settings.listen
    # The certificate is not verified: nothing secret is sent.
    with (
        httpx.Client(verify=not settings.tls_cert) as client,
        Tarry(settings.url, timeout=2.0, deadline=0.0, client=client) as tarry,
    ):
        if tarry.ready():
            return Finding("port", "ok", f"a Tarry serves on {listen}")
    return Finding("port", "wrong", f"{listen}: {error.strerror}; nothing that answers as Tarry is there")
