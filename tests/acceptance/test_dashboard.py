"""The dashboard in a real browser, against a running server with real data: what people do on each page, what they see
while it goes on, what a program says of its accessibility, and that what others wrote is never run.

One server and one browser for all, for both take their time; each test has a window of its own.
"""

import re
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    expect,
    sync_playwright,
)

from support.browser import launch
from support.dashboard_data import BREAKER, fill
from support.servers import free_port
from support.serving import Served, served
from support.waiting import wait_until
from tarry.client import Tarry

AXE = Path(__file__).parents[1] / "support" / "axe.min.js"
_SERIOUS = {"serious", "critical"}
CUT_OFF = """[...document.querySelectorAll(".scroll")].filter(one => one.scrollWidth > one.clientWidth)
    .map(one => one.getAttribute("aria-label"))"""
"""Tables of which a part is out of sight."""
OVER_EACH_OTHER = """[...document.querySelectorAll("svg.picture")].flatMap((picture) => {
    const texts = [...picture.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
    return texts.flatMap(([said, a], index) => texts.slice(index + 1).filter(([, b]) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4).map(([other]) => `${said} and ${other}`));
})"""
"""Texts of pictures that lie on one another; a few pixels of theirs are empty."""
LIVE = 4000
"""Milliseconds within which something that is to come within a second is there, on a machine that has much to do."""


@frozen
class House:
    """A server with keys and data."""

    server: Served
    url: str
    keys: dict[str, str]
    ids: dict[str, str]
    tarry: Tarry


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with served(tmp_path_factory.mktemp("dashboard")) as server:
        server.environment["TARRY_REPORTS"] = str(server.folder / "reports")
        assert server.tarry("migrate").returncode == 0
        keys = {
            "operator": server.key("operator", "admin"),
            "reader": server.key("reader", "read:*"),
            "short-lived": server.key("short-lived", "read:*"),
        }
        port = free_port()
        server.start("--listen", f"127.0.0.1:{port}")
        url = f"http://127.0.0.1:{port}"
        with Tarry(url, key=keys["operator"]) as tarry:
            yield House(server, url, keys, fill(tarry), tarry)
        assert server.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


@define(eq=False, slots=False)
class Window:
    """A page that is signed in, and all that went wrong in it."""

    page: Page
    url: str
    wrong: list[str] = field(factory=list[str])

    def listen(self) -> None:
        """What nobody is to see: errors, what the policy blocks, dialogs, requests to others."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._sent)

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.wrong.append(said.text)

    def _asked(self, dialog: Dialog) -> None:
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def _sent(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.wrong.append(request.url)

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, key: str) -> None:
        page = self.go("/ui")
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{self.url}/ui")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def window(house: House, context: BrowserContext) -> Iterator[Window]:
    window = Window(context.new_page(), house.url)
    window.listen()
    yield window
    assert window.wrong == []


@pytest.fixture
def operator(house: House, window: Window) -> Window:
    window.sign_in(house.keys["operator"])
    return window


def said(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator("#said")).to_contain_text(text, timeout=10_000)


def test_signing_in_and_out(house: House, window: Window) -> None:
    page = window.go("/ui/topics/orders")
    expect(page.get_by_role("heading", name="Tarry")).to_be_visible()
    page.get_by_label("Key").fill(house.keys["reader"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{house.url}/ui/topics/orders")
    (cookie,) = page.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert house.keys["reader"] not in str(cookie)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{house.url}/ui/sign-in")
    window.go("/ui")
    expect(page.get_by_label("Key")).to_be_focused()


def test_search_trace_and_cancel(house: House, operator: Window) -> None:
    page = operator.go("/ui/messages")
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("Key").fill("order-7")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url(re.compile(r"/ui/messages\?topic=orders&key=order-7$"))
    page.get_by_role("link", name=house.ids["waiting"]).click()
    expect(page.locator(".life")).to_contain_text("scheduled")
    page.get_by_label("Move to").fill("30m")
    page.get_by_role("button", name="Move").click()
    said(page, "it is due at")
    page.get_by_role("button", name="Cancel…").click()
    said(page, "will not be delivered")
    page.get_by_role("button", name="Cancel the message").click()
    said(page, "Cancelled")
    expect(page.locator(".life")).to_contain_text("cancelled", timeout=LIVE)
    assert house.tarry.message(house.ids["waiting"])["state"] == "cancelled"
    page = operator.go(f"/ui/messages/{house.ids['failed']}")
    expect(page.locator(".life li").first).to_contain_text("published")
    expect(page.locator(".life")).to_contain_text("the printer is on fire")
    expect(page.locator(".life")).to_contain_text(re.compile(r"\+\d"))


def test_publish_again(house: House, operator: Window) -> None:
    page = operator.go(f"/ui/messages/{house.ids['acked']}")
    page.get_by_label("Publish again in").fill("2h")
    page.get_by_role("button", name="Publish again…").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    page.locator("#said a").click()
    page.wait_for_url(re.compile("/ui/messages/[0-9]+$"))
    expect(page.locator(".life")).to_contain_text("scheduled")


def test_pause_is_live_for_others(house: House, operator: Window, browser: Browser) -> None:
    other = browser.new_context()
    watching = Window(other.new_page(), house.url)
    watching.sign_in(house.keys["reader"])
    seen = watching.go("/ui/groups/orders/mailing")
    expect(seen.locator("#pulse")).to_have_text("live", timeout=LIVE)
    assert seen.get_by_role("button", name="Pause…").count() == 0
    page = operator.go("/ui/groups/orders/mailing")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause mailing").click()
    said(page, "mailing is paused")
    expect(seen.locator("#live")).to_contain_text("paused", timeout=LIVE)
    assert house.tarry.group("orders", "mailing")["paused"] is True
    page.get_by_role("button", name="Resume").click()
    expect(seen.locator("#live .tile").first).to_contain_text("active", timeout=LIVE)
    other.close()
    line = next(line for line in house.server.log.splitlines() if '"pause"' in line and "operated" in line)
    assert '"key": "operator"' in line


def test_a_topic_is_made_and_changed(house: House, operator: Window) -> None:
    page = operator.go("/ui/topics")
    page.get_by_text("New topic").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("orders is there already.")).to_be_visible()
    expect(page.get_by_label("Name")).to_be_focused()
    page.get_by_label("Name").fill("invoices")
    page.get_by_label("Queues").fill("2")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url(f"{house.url}/ui/topics/invoices")
    settings = page.locator("#settings")
    expect(settings).to_contain_text("Retention7 d · the server's")
    settings.get_by_text("Change").click()
    settings.get_by_label("Queues").fill("1")
    settings.get_by_label("Retention").fill("30")
    settings.get_by_role("button", name="Save").press("Enter")
    expect(settings.get_by_label("Retention")).to_be_focused()
    expect(settings).to_contain_text("30 has no unit")
    settings.get_by_label("Retention").fill("30d")
    settings.get_by_role("button", name="Save").press("Enter")
    expect(settings).to_contain_text("has 2 queues, and queues are never taken away")
    expect(settings.get_by_label("Queues")).to_be_focused()
    assert house.tarry.topic("invoices")["retention"] is None
    settings.get_by_label("Queues").fill("3")
    settings.get_by_role("button", name="Save").press("Enter")
    expect(settings.get_by_text("Saved.")).to_be_focused()
    expect(settings).to_contain_text("Retention30 d · its own; the server's is 7 d")
    told = house.tarry.topic("invoices")
    assert (told["queues"], told["retention"], told["ladder"]) == (3, 30 * 86_400_000, None)
    house.tarry.delete_topic("invoices")


def test_a_group_is_made_and_changed(house: House, operator: Window) -> None:
    house.tarry.put_topic("bills", ladder=["1m"])
    page = operator.go("/ui/topics/bills")
    page.get_by_text("New group").click()
    page.get_by_label("Name").fill("mail")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url(f"{house.url}/ui/groups/bills/mail")
    settings = page.locator("#settings")
    expect(settings).to_contain_text("Ladder1 min · the topic's")
    settings.get_by_text("Change").click()
    settings.get_by_label("Ladder").fill("5s, 10s")
    settings.get_by_label("Concurrency").fill("7")
    settings.get_by_role("button", name="Save").click()
    expect(settings).to_contain_text("Ladder5 s, 10 s · its own; the topic's is 1 min")
    told = house.tarry.group("bills", "mail")
    assert (told["ladder"], told["concurrency"]) == ([5000, 10_000], 7)
    expect(page.get_by_role("region", name="The ladder")).to_contain_text("after 10 s", timeout=LIVE)
    house.tarry.delete_topic("bills")


def test_figures_are_live(house: House, operator: Window) -> None:
    page = operator.go("/ui/topics/carts")
    before = page.locator(".tile", has_text="Accepted").locator("dd")
    expect(before).to_have_text("20")
    house.tarry.publish("carts", {"cart": 21})
    expect(before).to_have_text("21", timeout=LIVE)
    operator.go("/ui")
    expect(page.locator("#rates canvas")).to_be_visible()
    expect(page.locator("svg.ring")).to_be_visible()
    expect(page.locator("svg.heat")).to_be_visible()
    assert page.locator("svg.bars").count() == 4


def test_redrive_a_selection_and_purge_what_fits(house: House, operator: Window) -> None:
    page = operator.go("/ui/dead")
    page.get_by_role("link", name="labels").click()
    total = house.tarry.group("parcels", "labels")["dead_letters"]
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{total} dead letters")
    boxes = page.locator("td.tick input")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Redrive…").click()
    said(page, "2 dead letters would go back")
    page.get_by_role("button", name="Redrive 2").click()
    said(page, "2 dead letters redriven")
    wait_until(lambda: house.tarry.group("parcels", "labels")["dead_letters"] == total - 2)
    page = operator.go("/ui/dead/parcels/labels?reason=no%20ink")
    page.get_by_label("all that match the search").check()
    page.get_by_role("button", name="Purge…").click()
    said(page, "would be deleted for good")
    page.get_by_role("button", name=re.compile("Purge [0-9]+")).click()
    said(page, "purged")
    assert list(house.tarry.dead_letters("parcels", "labels", reason="no ink")) == []
    assert house.tarry.group("parcels", "labels")["dead_letters"] > 0, "the others stay"


def test_redrive_and_purge_by_what_they_are(house: House, operator: Window) -> None:
    """Of a topic of its own: letters of one reason, and of one key, counted first."""
    tarry = house.tarry
    tarry.put_group("invoices", "print", ladder=[])
    reasons = ["no paper", "timeout after 3 s", "timeout after 4 s", "no paper"]
    tarry.publish_many("invoices", [{"body": n, "key": f"invoice-{n}", "tag": "paper"} for n in range(len(reasons))])
    claim = tarry.claim("invoices", "print", max=10)
    assert claim is not None
    for message, reason in zip(claim.messages, reasons, strict=True):
        tarry.fail(claim, [message.id], reason=reason)
    page = operator.go("/ui/dead/invoices/print")
    many = page.get_by_role("region", name="Redrive or purge many")
    many.get_by_label("Reason").fill("timeout*")
    many.get_by_role("button", name="Purge all that match…").click()
    said(page, "2 dead letters would be deleted for good")
    assert tarry.group("invoices", "print")["dead_letters"] == 4
    page.get_by_role("button", name="Purge 2").click()
    said(page, "2 dead letters purged")
    expect(page.get_by_role("heading", level=1)).to_have_text("2 dead letters", timeout=LIVE)
    many.get_by_label("Reason").fill("")
    many.get_by_label("Key").fill("invoice-3")
    many.get_by_label("Tag").fill("paper")
    page.keyboard.press("Enter")
    said(page, "1 dead letter would go back")
    expect(page.get_by_role("button", name="Redrive 1")).to_be_focused()
    page.keyboard.press("Enter")
    said(page, "1 dead letter redriven")
    wait_until(lambda: tarry.group("invoices", "print")["dead_letters"] == 1)
    assert [letter.message.key for letter in tarry.dead_letters("invoices", "print")] == ["invoice-0"]


TIMES = "[...document.querySelectorAll('time')].map(one => [one.textContent, one.title, one.dateTime])"


CLOCKS = """[...document.querySelectorAll("svg.bars text[data-form=clock]")]
    .map(one => [Number(one.dataset.at) / 1000, one.textContent])"""


def test_times_in_the_zone_of_the_browser(house: House, browser: Browser) -> None:
    """UTC unless this browser was told otherwise; then what is shown and what is typed is of its own zone."""
    context = browser.new_context(timezone_id="Australia/Darwin", viewport={"width": 1280, "height": 900})
    window = Window(context.new_page(), house.url)
    window.listen()
    window.sign_in(house.keys["operator"])
    due = datetime(2031, 5, 1, 20, 15, tzinfo=UTC)
    id_ = house.tarry.publish("zoned", 1, deliver_at=due, key="k").id
    address = "/ui/messages?topic=zoned&state=scheduled&from=2031-05-01T20:00:00Z&to=2031-05-01T21:00:00Z"
    page = window.go(address)
    utc = ["2031-05-01 20:15:00.000", "2031-05-02 05:45:00.000 Australia/Darwin", "2031-05-01T20:15:00.000Z"]
    local = ["2031-05-02 05:45:00.000", "2031-05-01 20:15:00.000 UTC", "2031-05-01T20:15:00.000Z"]
    assert utc in page.evaluate(TIMES)
    expect(page.get_by_label("From, UTC")).to_have_value("2031-05-01T20:00")
    page.get_by_role("button", name="Times: UTC").click()
    assert local in page.evaluate(TIMES)
    expect(page.get_by_label("From, local time")).to_have_value("2031-05-02T05:30")
    page = window.go(address)
    assert local in page.evaluate(TIMES), "the browser remembers it"
    expect(page.get_by_label("To, local time")).to_have_value("2031-05-02T06:30")
    page.get_by_label("From, local time").fill("2031-05-02T05:45:00")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url(re.compile("from=2031-05-01T20%3A15%3A00&to=2031-05-01T21%3A00%3A00$"))
    expect(page.get_by_role("link", name=id_)).to_be_visible()
    expect(page.get_by_label("From, local time")).to_have_value("2031-05-02T05:45")
    page.get_by_label("From, local time").fill("2031-05-02T05:45:01")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No message matches")).to_be_visible()
    page = window.go(f"/ui/messages/{id_}")
    page.get_by_label("Move to").fill("2031-05-01 22:15")
    page.get_by_role("button", name="Move").click()
    said(page, "2031-05-01T22:15:00.000Z")
    expect(page.locator(".life time").last).to_have_text("2031-05-02 07:45:00.000", timeout=LIVE)
    page = window.go("/ui/schedules/hourly")
    page.get_by_label("Backfill from, local time").fill("2025-01-01T05:30:00")
    page.get_by_label("to, local time", exact=True).fill("2025-01-01T05:30:01")
    page.get_by_role("button", name="Count…").click()
    said(page, "fire time")
    page = window.go("/ui")
    page.locator("#rates canvas").wait_for()
    expect(page.locator(".u-legend")).to_contain_text("Australia/Darwin")
    page.locator("svg.bars text[data-at]").first.wait_for()
    darwin = timezone(timedelta(hours=9, minutes=30))
    for zone, button in ((darwin, "Times: Australia/Darwin"), (UTC, "Times: UTC")):
        told: list[tuple[float, str]] = page.evaluate(CLOCKS)
        assert told, "bars have times"
        assert [said for at, said in told] == [datetime.fromtimestamp(at, zone).strftime("%H:%M") for at, _ in told]
        page.get_by_role("button", name=button).click()
    expect(page.locator(".u-legend")).to_contain_text("Australia/Darwin")
    assert window.wrong == []
    context.close()


def test_times_without_a_script_are_utc(house: House, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False, timezone_id="Australia/Darwin")
    page = context.new_page()
    page.goto(f"{house.url}/ui/sign-in")
    page.get_by_label("Key").fill(house.keys["reader"])
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{house.url}/ui/messages/{house.ids['failed']}")
    expect(page.get_by_text("Times are UTC")).to_be_visible()
    expect(page.locator("#zone")).to_be_hidden()
    at = house.tarry.message(house.ids["failed"])["life"][0]["at"]
    expect(page.locator("time").first).to_have_text(at.replace("T", " ").removesuffix("Z"))
    context.close()


def test_a_schedule(house: House, operator: Window) -> None:
    page = operator.go("/ui/schedules")
    page.get_by_role("link", name="hourly").click()
    expect(page.locator(".times li")).to_have_count(10)
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause hourly").click()
    expect(page.locator("#live")).to_contain_text("It is paused", timeout=LIVE)
    page.get_by_role("button", name="Resume").click()
    said(page, "hourly is resumed")  # the question below would be gone with the answer to this
    page.get_by_role("button", name="Run now…").click()
    page.get_by_role("button", name="Send it").click()
    said(page, "Sent:")
    expect(page.locator("td[class=state]").first).to_contain_text("run", timeout=LIVE)


def test_a_session_ends_with_its_key(house: House, window: Window) -> None:
    window.sign_in(house.keys["short-lived"])
    expect(window.page.locator("#pulse")).to_have_text("live", timeout=LIVE)
    assert house.server.tarry("keys", "revoke", "short-lived").returncode == 0
    window.page.wait_for_url(re.compile("/ui/sign-in"), timeout=15_000)
    window.wrong.clear()  # a stream that is refused is an error to the browser


def test_by_keyboard_alone(house: House, operator: Window) -> None:
    page = operator.go("/ui/topics")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Topic")).to_be_focused()
    outline: str = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    menu = page.locator("details.copies summary").first
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".menu").first).to_be_visible()
    expect(page.locator(".menu").first).to_contain_text("curl -s -H")
    page.keyboard.press("Escape")
    expect(page.locator(".menu").first).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".menu").first).to_be_hidden()


STOPS = """() => { globalThis.stops = []; addEventListener("focusin", ({ target }) => {
    const { top, bottom, left, right, width, height } = target.getBoundingClientRect();
    const at = document.elementFromPoint(left + Math.min(width / 2, 20), top + Math.min(height / 2, 10));
    const within = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
    const seen = within && (target.contains(at) || at?.contains(target));
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    const shown = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    const behind = stops.at(-1)?.target, again = stops.some((one) => one.target === target); // round once more
    const after = behind && behind !== target
        && !(behind.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING);
    const wrong = after ? "comes too late" : !seen ? "is out of sight" : !shown ? "has no ring" : "";
    if (!again) stops.push({ target, wrong });
}) }"""
"""Notes each element that gets the focus, and what is wrong with it."""
WRONG = """() => { const to = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
        .filter(one => one.checkVisibility() && !one.disabled && one.type !== "hidden" && one.tabIndex >= 0
            && !(one.type === "radio" && !one.checked) && !one.closest("details:not([open]) > .menu"));
    const told = one => one.outerHTML.slice(0, 90), met = new Set(stops.map(one => one.target));
    return [...stops.filter(one => one.wrong).map(one => `${one.wrong}: ${told(one.target)}`),
        ...to.filter(one => !met.has(one)).map(one => `is not met: ${told(one)}`)]; }"""


def test_the_keyboard_meets_all_of_a_page(house: House, operator: Window) -> None:
    """With Tab, from the top to the end: everything that can be worked, in the order of the page, seen, and ringed."""
    page = operator.page
    found: list[str] = []
    for address in addresses(house):
        if "sign-in" in address:
            continue  # whose only field has the focus
        operator.go(address)
        page.evaluate(STOPS)
        for _ in range(400):
            page.keyboard.press("Tab")
            if page.evaluate(
                "document.activeElement === document.body || document.activeElement?.tagName === 'IFRAME'"
            ):
                break
        else:
            found.append(f"{address}: the keyboard does not come out")
        found += [f"{address}: {one}" for one in page.evaluate(WRONG)]
    operator.wrong[:] = [one for one in operator.wrong if "404" not in one]  # the page that is not there
    assert found == []


def test_a_question_takes_the_focus_and_gives_it_back(house: House, operator: Window) -> None:
    page = operator.go("/ui/groups/payments/ledger")
    pause, resume = (page.get_by_role("button", name=name) for name in ("Pause…", "Resume"))
    sure = page.get_by_role("button", name="Pause ledger")
    pause.focus()
    page.keyboard.press("Enter")
    expect(sure).to_be_focused()
    page.keyboard.press("Escape")
    expect(sure).to_have_count(0)
    expect(pause).to_be_focused()
    page.keyboard.press("Enter")
    expect(sure).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Do nothing")).to_be_focused()
    page.keyboard.press("Enter")
    expect(pause).to_be_focused()
    page.keyboard.press("Enter")
    expect(sure).to_be_focused()
    page.keyboard.press("Enter")
    expect(resume).to_be_focused(timeout=LIVE)
    page.keyboard.press("Enter")
    expect(pause).to_be_focused(timeout=LIVE)
    assert house.tarry.group("payments", "ledger")["paused"] is False


def test_dead_letters_by_keyboard(house: House, operator: Window) -> None:
    page = operator.go("/ui/dead/parcels/labels")
    total = house.tarry.group("parcels", "labels")["dead_letters"]
    page.locator("td.tick input").first.focus()
    page.keyboard.press("Space")
    purge = page.get_by_role("button", name="Purge…")
    purge.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Purge 1", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{total - 1} dead letters", timeout=LIVE)
    expect(purge).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#said")).to_be_empty()
    expect(purge).to_be_focused()


def test_the_theme_is_kept(operator: Window) -> None:
    page = operator.go("/ui")
    before: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    after: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    operator.go("/ui/topics")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def addresses(house: House) -> list[str]:
    ids = house.ids
    return [
        "/ui",
        "/ui/topics",
        "/ui/topics/orders",
        "/ui/groups",
        "/ui/groups/orders/billing",
        "/ui/messages",
        *(f"/ui/messages/{ids[name]}" for name in ("hostile", "failed")),
        "/ui/messages?topic=orders&state=scheduled",
        "/ui/messages?topic=orders",
        "/ui/topics/orders/timers",
        "/ui/schedules",
        "/ui/schedules/hourly",
        "/ui/dead",
        "/ui/dead/parcels/labels",
        "/ui/nodes",
        "/ui/reports",
        "/ui/sign-in",
        "/ui/topics/nowhere",
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.cases(1)
def test_axe_finds_no_serious_fault(house: House, operator: Window, theme: Any) -> None:
    """And nothing that others wrote is run on any page, and neither a page nor a table is wider than the screen."""
    page = operator.page
    page.emulate_media(color_scheme=theme)
    axe = AXE.read_text("utf-8")
    found: list[str] = []
    for address in addresses(house):
        operator.go(address)
        if page.locator("#pictures").count():
            page.locator("#pictures svg").first.wait_for()
        page.evaluate("document.querySelectorAll('details.change').forEach((one) => (one.open = true))")
        page.evaluate(axe)  # past the page's policy, as a tool of the browser's own
        only = "" if theme == "light" else ", runOnly: ['color-contrast']"  # in which alone themes differ
        told: dict[str, Any] = page.evaluate(f"axe.run({{resultTypes: ['violations']{only}}})")
        found += [
            f"{address}: {one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in told["violations"]
            if one["impact"] in _SERIOUS
        ]
        page.set_viewport_size({"width": 390, "height": 844})
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{address}: wider than a telephone")
        found += [f"{address}: cut off on a telephone: {one}" for one in page.evaluate(CUT_OFF)]
        found += [f"{address}: on a telephone: {one}" for one in page.evaluate(OVER_EACH_OTHER)]
        page.set_viewport_size({"width": 1280, "height": 900})
        found += [f"{address}: cut off: {one}" for one in page.evaluate(CUT_OFF)]
        found += [f"{address}: {one}" for one in page.evaluate(OVER_EACH_OTHER)]
    operator.wrong[:] = [one for one in operator.wrong if "404" not in one]  # the page that is not there
    assert found == []


def test_a_report_and_the_figures_that_it_leads_to(house: House, operator: Window) -> None:
    """The link is one of the report's own page: the session goes with it, and what comes is a file."""
    operator.go("/ui/reports")
    expect(operator.page.get_by_text("There is no report in the folder yet")).to_be_visible()
    figures = house.server.folder / "reports" / "monday" / "figures"
    figures.mkdir(parents=True)
    (figures / "rate.json").write_text("[7]")
    text = '<h1>What Tarry did</h1><a href="figures/rate.json">JSON</a><script>parent.document.title = "ran"</script>'
    (figures.parent / "index.html").write_text(text)
    page = operator.go("/ui/reports")
    report = page.frame_locator("iframe")
    expect(report.get_by_role("heading", name="What Tarry did")).to_be_visible()
    with page.expect_download() as download:
        report.get_by_role("link", name="JSON").click()
    assert download.value.suggested_filename == "monday-rate.json"
    assert Path(download.value.path()).read_text() == "[7]"
    assert "Reports" in page.title()
    operator.wrong[:] = [one for one in operator.wrong if "Blocked script execution" not in one]


def test_nodes_of_several_servers_are_all_in_sight(operator: Window) -> None:
    """Of one server the cells are short: shards in one stretch, and no duties for somebody else."""
    page = operator.go("/ui/nodes")
    page.locator("table").first.evaluate(
        """(table) => {
            const set = (kind, html) => { table.querySelector(`td.${kind}`).innerHTML = html };
            const shards = ["0,", "2-3,", "5,", "7-9,", "11,", "13,", "15"];
            set("parts", shards.map((one) => `<span class="whole">${one}</span>`).join(" "));
            set("address", "https://tarry-1.warehouse.example:8277");
            set("name", "warehouse-amsterdam-1");
        }"""
    )
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT_OFF) == [], width
        assert page.locator("td.address").evaluate("(one) => one.offsetHeight") < 80


def test_a_page_would_tell_if_it_ran_what_others_wrote(operator: Window) -> None:
    """The ears of the tests above: an image of the wrong kind, put into a page, is heard."""
    operator.page.evaluate("text => { document.querySelector('main').innerHTML = text }", BREAKER)
    operator.page.wait_for_timeout(300)
    assert any("Content Security Policy" in one for one in operator.wrong)
    operator.wrong.clear()


def test_the_server_stops_beside_open_pages(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path) as server:
        port = free_port()
        server.start("--listen", f"127.0.0.1:{port}")
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/ui")
        expect(page.locator("#pulse")).to_have_text("live", timeout=LIVE)
        assert server.stop() == 0
        expect(page.locator("#pulse")).to_have_text(re.compile("not live"), timeout=LIVE)
        server.start("--listen", f"127.0.0.1:{port}")
        expect(page.locator("#pulse")).to_have_text("live", timeout=15_000)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ui/static/icon.svg") as icon:
            assert icon.status == 200
        context.close()
        assert server.stop() == 0
