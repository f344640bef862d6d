"""What do very many queues cost a consumer: messages that lie one to a queue, and as many in one queue?

    python -m tarry.bench.queues --dsn mysql://root@127.0.0.1:3306/any [--queues 1024] [--rounds 3]

One server. Each round publishes a message for each queue, and one consumer drains them over HTTP: it claims up to a
thousand, acks what came, and claims again. First a topic of one queue, the baseline of the same run; the same in claims
of one message, which tells what so many claims cost anyway; then the topic of many queues.

    drain_s      from the first claim to the answer of the last ack
    first        messages in the first answer
    claims       answers with messages
    statements   that the database counted meanwhile, for each message (MySQL and MariaDB)
    ratio        many queues by one, and by one in claims of one message, within each round
"""

import time
from collections.abc import Sequence

import httpx
import msgspec
import trio

from . import databases
from .lean_http import LeanHTTP
from .report import Figures, column, ratios, say, show, spreads
from .subject import served

_BATCH = 1000


def main() -> None:
    parser = databases.options("queues", __doc__, "sqlite")
    parser.add_argument("--queues", type=databases.count, default=1024, help="of the topic of many")
    parser.add_argument("--rounds", type=databases.count, default=3, help="of all cases")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        settings = databases.durability(dsn)
        runs = measure(scratch, arguments.queues, arguments.rounds)
    for case in ("one", "singly", "many"):
        queues = arguments.queues if case == "many" else 1
        figures = spreads([run[case] for run in runs], 3)
        show({"bench": "queues", "case": case, "queues": queues, "messages": arguments.queues, **settings, **figures})
    by = {f"by_{case}": ratios(column(runs, "drain_s"), "many", case) for case in ("one", "singly")}
    show({"bench": "queues", "summary": "many queues by one", "queues": arguments.queues, **by})


def measure(dsn: str, queues: int, rounds: int) -> list[dict[str, Figures]]:
    """Rounds on one server: for each case what its drain took."""
    with served(dsn) as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for topic, many in (("one", 1), ("many", queues)):
                client.put(f"/v1/topics/{topic}", json={"queues": many}).raise_for_status()
        return [trio.run(take_round, server.port, dsn, queues) for _ in range(rounds)]


async def take_round(port: int, dsn: str, queues: int) -> dict[str, Figures]:
    """The three cases, one after another."""
    found: dict[str, Figures] = {}
    async with LeanHTTP(port) as http:
        for case, topic, size in (("one", "one", 1000), ("singly", "one", 1), ("many", "many", 1000)):
            say(f"{case}: {queues} messages")
            await publish(http, topic, range(queues) if topic == "many" else [0] * queues)
            before = databases.asked(dsn)
            found[case] = await drain(http, topic, queues, size)
            if before:
                found[case]["statements"] = (databases.asked(dsn) - databases.LOOK - before) / queues
    return found


async def publish(http: LeanHTTP, topic: str, queues: Sequence[int]) -> None:
    """A message for each of these queues."""
    for begin in range(0, len(queues), _BATCH):
        messages = [{"body": "x" * 200, "queue": queue} for queue in queues[begin : begin + _BATCH]]
        await http.post(f"/v1/topics/{topic}/messages", msgspec.json.encode({"messages": messages}))


async def drain(http: LeanHTTP, topic: str, messages: int, size: int) -> Figures:
    """Claims and acks until all have come."""
    ask = msgspec.json.encode({"client": "bench", "max": size, "wait": 5000})
    came: list[int] = []
    began = time.perf_counter()
    while sum(came) < messages:
        answer = msgspec.json.decode(await http.post(f"/v1/topics/{topic}/groups/g/claim", ask))
        if answer["claim"] is None:
            raise AssertionError(f"{sum(came)} of {messages} messages came, then none within 5 s")
        came.append(len(answer["messages"]))
        await http.post(f"/v1/claims/{answer['claim']}/ack", b"{}")
    return {"drain_s": time.perf_counter() - began, "first": came[0], "claims": len(came)}


if __name__ == "__main__":
    main()
