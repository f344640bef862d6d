"""A program that forks in the middle of a loop of `consume`; the child leaves the loop by ending.

    python tests/support/forked_loop.py URL

Prints two lines of JSON, the child's first: what the loop and a pool of the user's own answer the child, and the first
ids that its outbox makes; then the bodies and attempts that the parent handled, and the first ids of its outbox.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from tarry.client import Tarry
from tarry.client.outbox import Outbox


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def consumption_of(loop: Any) -> Any:
    return loop.gi_frame.f_locals["consumption"]


def main() -> None:
    url = sys.argv[1]
    tarry = Tarry(url)
    lent = Tarry(url, client=httpx.Client())
    box = Outbox()
    box._ids.get()
    tarry.publish_many("looped", [{"body": n} for n in range(20)])
    seen: list[tuple[int, int]] = []
    child = 0
    loop = tarry.consume("looped", "g", client="looper", limit=20)
    for message in loop:
        with message:
            if len(seen) == 5:
                # The client is registered: if the child withdrew its name, its claims would end at once.
                while not consumption_of(loop)._pulse.registered:
                    time.sleep(0.001)
                child = os.fork()
                if child == 0:
                    ids = [box._ids.get().make(1_000) for _ in range(3)]
                    print(json.dumps([said(lambda: next(loop)), said(lent.topics), ids]), flush=True)
                    # Leaves through the block of the message and the loop, as any end of a program does.
                    sys.exit(0)
            seen.append((message.body, message.attempt))
        if len(seen) == 6:
            assert os.waitpid(child, 0)[1] == 0
    print(json.dumps([seen, [box._ids.get().make(1_000) for _ in range(3)]]), flush=True)


if __name__ == "__main__":
    main()
