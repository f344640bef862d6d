"""Makes the picture of docs/how-to/dashboard.md: the overview of a shop's server after five minutes of load.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.front_picture docs/images/dashboard.png

It takes six minutes, since the picture shows real activity: messages are published, handed out, acked and failed. Look
at the picture before you keep it, and begin early in an hour: the wheel shows the rest of the hour.
"""

import math
import random
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from support.browser import launch
from support.servers import free_port
from support.serving import served
from tarry.client import Tarry

WIDTH = 1280
SECONDS = 320
"""Seconds of load; the charts of the overview go five minutes back."""
GROUPS = {
    "order-reminders": ("mailer", 9.0),
    "payment-retries": ("payments", 5.0),
    "delivery-slots": ("dispatch", 4.0),
    "trial-endings": ("accounts", 1.5),
    "webhooks": ("sender", 7.0),
}
"""Topic -> its group, and about how many messages it gets a second."""
AHEAD = 24_000
"""Waiting messages when the five minutes begin."""


def prepare(tarry: Tarry, dice: random.Random) -> None:
    """Schedules messages: many in this hour, more by day than by night, and fewer the farther ahead."""
    for topic, (group, _) in GROUPS.items():
        tarry.put_group(topic, group)
    tarry.put_schedule("daily-invoices", cron="0 9 * * *", timezone="Europe/Berlin", topic="invoices", body={})
    tarry.put_group("invoices", "billing")
    now, batch = datetime.now(UTC), 500
    for _ in range(AHEAD // batch):
        planned = [{"body": {}, "deliver_at": _planned(now, dice)} for _ in range(batch)]
        tarry.publish_many(dice.choice(list(GROUPS)), planned)


def _planned(now: datetime, dice: random.Random) -> datetime:
    part = dice.random()
    if part < 0.04:
        ahead = dice.uniform(400, 3900)
        return now + timedelta(seconds=ahead - (ahead % 300) * 0.8 * (dice.random() < 0.4))
    days = 1 if part < 0.12 else 29
    while True:
        at = now + timedelta(hours=1 + dice.random() * (24 * days - 1))
        by_day = 0.55 - 0.45 * math.cos((at.hour - 3) / 12 * math.pi)
        if dice.random() < by_day * (0.5 if at.weekday() > 4 else 1) * (1 - 0.02 * (at - now).days):
            return at


def publish(url: str, topic: str, rate: float, end: threading.Event, dice: random.Random) -> None:
    """Publishes at a rate that rises and falls, most messages due soon."""
    with Tarry(url) as tarry:
        order = dice.randrange(10_000, 90_000)
        while not end.wait(dice.expovariate(rate * (1 + 0.5 * math.sin(time.time() / 47 + rate)))):
            order += 1
            delay = dice.choice((0, 0.5, 2, 2, 5, 10, 20, 40, 3 * 3600, 86_400))
            tarry.publish(topic, {"order": order}, key=f"order-{order}", delay=timedelta(seconds=delay))


def consume(url: str, topic: str, group: str, end: threading.Event, dice: random.Random) -> None:
    """Runs a worker that fails some messages."""
    with Tarry(url) as tarry:
        while not end.is_set():
            claim = tarry.claim(topic, group, max=20, wait="1s")
            if claim is None:
                continue
            time.sleep(dice.uniform(0.001, 0.03))
            failed = [message.id for message in claim.messages if dice.random() < 0.012]
            for id_ in failed:
                tarry.fail(claim, [id_], reason="the mail server is busy")
            if done := [message.id for message in claim.messages if message.id not in failed]:
                tarry.ack(claim, done)


def play(url: str, seconds: float) -> None:
    """Runs all publishers and workers for `seconds`."""
    end = threading.Event()
    threads = list[threading.Thread]()
    for number, (topic, (group, rate)) in enumerate(GROUPS.items()):
        threads.append(threading.Thread(target=publish, args=(url, topic, rate, end, random.Random(number))))
        threads.append(threading.Thread(target=consume, args=(url, topic, group, end, random.Random(number))))
    for thread in threads:
        thread.start()
    end.wait(seconds)
    take(url, Path(sys.argv[1]))
    end.set()
    for thread in threads:
        thread.join()


def take(url: str, path: Path) -> None:
    """Takes a picture of the whole page, in a window of its height."""
    with sync_playwright() as playwright, launch(playwright) as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(f"{url}/ui")
        page.locator("svg.heat").wait_for()
        height = page.evaluate("document.querySelector('main').scrollHeight")
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.wait_for_timeout(1500)
        page.screenshot(path=path)
    with Image.open(path) as picture:  # a palette is a third of the size
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        flags = ("--listen", f"127.0.0.1:{free_port()}", "--node", "shop-1")
        url = f"http://{flags[1]}"
        server.start(*flags)
        with Tarry(url) as tarry:
            prepare(tarry, random.Random(7))
        server.stop()  # so that its counters do not include the preparation
        server.start(*flags)
        play(url, SECONDS)


if __name__ == "__main__":
    main()
