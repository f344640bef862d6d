"""The how-to of sizing: its figures are those of the benchmarks, and what it says of the disk is measured here."""

import re
import sqlite3
from pathlib import Path

from support.server import client_of, start_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "sizing.md").read_text("utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
MESSAGES, BODY = 2000, 198


def test_the_figures_are_those_of_the_benchmarks() -> None:
    mysql = BENCHMARKS[BENCHMARKS.index("On MySQL 9.7 and SQLite:") :]
    for name, figure in (("publish_200", 134), ("publish_1", 745), ("lines", 12), ("run", 18)):
        (told,) = re.findall(rf"^\| `{name}` \|(?:[^|]*\|){{3}} ([\d,]+) \|", mysql[:3000], re.MULTILINE)[:1]
        assert int(told.replace(",", "")) == figure
        assert f"{figure} us" in PAGE
    assert "20 bytes a timer, 61 MB a server with 200,000 and 57 with none" in BENCHMARKS
    assert f"= {(2000 * 134 + 4000 * 18) / 1e6:.2f}," in PAGE
    assert f"{500 + 207 + 11} bytes * 7,000,000 = {718 * 7e6 / 1e9:.1f} GB" in PAGE


def test_what_a_message_takes_on_disk(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:

        def size() -> int:
            store = sqlite3.connect(tmp_path / "tarry.db")
            try:
                store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                pages, free, each = (
                    store.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "freelist_count", "page_size")
                )
            finally:
                store.close()
            return int((pages - free) * each)

        def grown(topic: str, **when: str) -> float:
            before = size()
            for first in range(0, MESSAGES, 1000):
                numbers = range(first, first + 1000)
                tarry.publish_many(topic, [{"body": "x" * BODY, "key": f"k{n:05}", **when} for n in numbers])
            return (size() - before) / MESSAGES - BODY - 2  # a JSON string has quotes

        waits, streamed = grown("later", delay="5h"), grown("now")
        before, taken = size(), 0
        while taken < MESSAGES:
            claim = tarry.claim("now", "billing", max=100, wait="5s")
            assert claim is not None
            taken += tarry.ack(claim)
        acked = (size() - before) / MESSAGES
    print(f"waits {waits:.0f}, in the stream {streamed:.0f}, acknowledged {acked:.0f} bytes")
    for figure, measured, apart in ((193, waits, 30), (207, streamed, 30), (11, acked, 10)):
        assert f"| {figure} |" in PAGE
        assert abs(measured - figure) < apart  # pages that are filled in another order
