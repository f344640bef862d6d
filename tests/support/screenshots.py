"""Takes pictures of every page of the dashboard, wide and narrow, dark and light, for a person to look at.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.dashboard_data http://127.0.0.1:8277
    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.screenshots http://127.0.0.1:8277 FOLDER [PART-OF-A-NAME]

The server must not require a key; the pages show the data that `dashboard_data` creates.
"""

import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from support.browser import launch
from tarry.client import Tarry

SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")


def pages(tarry: Tarry) -> dict[str, str]:
    """The addresses of the pages by name, with one message for each state."""
    found = {
        "overview": "/ui",
        "topics": "/ui/topics?sort=backlog",
        "topic": "/ui/topics/orders",
        "groups": "/ui/groups",
        "group": "/ui/groups/orders/billing",
        "messages": "/ui/messages?topic=orders&state=scheduled",
        "messages-empty": "/ui/messages",
        "schedules": "/ui/schedules?topic=orders&key=cart-7",
        "schedule": "/ui/schedules/hourly",
        "dead": "/ui/dead",
        "letters": "/ui/dead/parcels/labels",
        "nodes": "/ui/nodes",
        "reports": "/ui/reports",
        "sign-in": "/ui/sign-in",
        "problem": "/ui/topics/nowhere",
    }
    for state in ("retrying", "dead"):
        topic = {"dead": "parcels"}.get(state, "orders")
        some: list[dict[str, Any]] = list(tarry.find(topic, state=state))[:1]
        found |= {f"message-{state}": f"/ui/messages/{one['id']}" for one in some}
    for key in ("order-7", "\"'><img src=x onerror=alert(2)>"):
        some = list(tarry.find("orders", key=key))[:1]
        found |= {f"message-{'hostile' if '<' in key else 'waiting'}": f"/ui/messages/{one['id']}" for one in some}
    return found


def take(browser: Browser, url: str, folder: Path, addresses: dict[str, str]) -> None:
    """Takes the pictures of all pages."""
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="dark" if theme == "dark" else "light"
            )
            page = context.new_page()
            for name, address in addresses.items():
                page.goto(url + address)
                page.wait_for_timeout(1200)  # for the live part and the charts, which load by themselves
                page.screenshot(path=folder / f"{name}-{size}-{theme}.png", full_page=True)
            context.close()


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with Tarry(url) as tarry:
        addresses = {name: to for name, to in pages(tarry).items() if not sys.argv[3:] or sys.argv[3] in name}
    with sync_playwright() as playwright, launch(playwright) as browser:
        take(browser, url, folder, addresses)


if __name__ == "__main__":
    main()
