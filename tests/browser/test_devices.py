"""A browser gets notifications of new posts in Chromium: the page of devices, and the service worker's messages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from tests.browser.conftest import WHOLE, browsing
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab, tab
from tests.support.polling import dated, rss
from tests.support.push_service import PushService
from tests.support.waiting import PATIENCE, wait_until
from tests.support.web import Publisher, publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

DEVICES = "/settings/devices"
STUB = """(keys) => {
  PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
    window.asked = { applicationServerKey, userVisibleOnly };
    const { address, public: p256dh, secret: auth } = keys;
    return { toJSON: () => ({ endpoint: address, keys: { p256dh, auth } }) };
  };
}"""
"""The push service's answer, as no real one can be reached from here."""
SHOWN = "registration.getNotifications().then((all) => all.map(({ title, body, tag }) => [title, body, tag]))"
CLICK = """async () => {
  const opened = new Promise((resolve) => { clients.openWindow = async (address) => resolve(address); });
  const [notification] = await registration.getNotifications({ tag: "new posts" });
  dispatchEvent(new NotificationEvent("notificationclick", { notification }));
  return opened;
}"""
"""A tap, which a browser without a screen can't make; it would let the worker open a window."""


@dataclass
class Pushed:
    """A running server and a push service."""

    server: ReadingServer
    site: Publisher


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pushed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pushed]:
    """Ann, Bob and Cy follow a blog of three posts in `home`."""
    async with publisher() as site:
        feed = site.serve_document("/feed", rss(dated(3)))
        users = {
            name: {"channels": [{"uid": "home", "name": "Home", "feeds": [feed]}]} for name in ("ann", "bob", "cy")
        }
        async with reading_server(tmp_path_factory.mktemp("devices"), users, *users, polls=1) as made:
            yield Pushed(made, site)


async def test_a_missing_push_service_is_reported(browser: Browser, pushed: Pushed) -> None:
    """Some browsers have no push service, and neither answer nor refuse; others report an error."""
    async with tab(browser) as here:
        await here.context.grant_permissions(["notifications"])
        page = await pushed.server.sign_in(here, "bob", DEVICES)
        await page.evaluate(
            "() => { PushManager.prototype.subscribe = () => new Promise((_, no) => { window.no = no; }); }"
        )
        await page.get_by_role("button", name="Turn on notifications").click()
        asking = page.get_by_text("Contacting the push service of your browser.")
        await asking.wait_for()
        await page.wait_for_function("() => window.no")  # a slow service worker is waited for before it is asked
        await page.evaluate("() => no(new Error())")
        await page.get_by_text("Your browser could not reach its push service.").wait_for()
        assert not await asking.is_visible()


async def test_a_device_is_switched_on_tested_and_removed(browser: Browser, pushed: Pushed) -> None:
    """A click on the button and the browser's permission; a worker sends the encrypted test message."""
    service = PushService(pushed.site)
    async with tab(browser) as here:
        await here.context.grant_permissions(["notifications"])
        page = await pushed.server.sign_in(here, "ann", "/settings")
        await page.get_by_role("link", name="Push notifications").click()
        assert await page.get_by_label("Notifications").is_checked()
        await page.evaluate(STUB, service.browser.fields)
        await page.get_by_role("checkbox", name="Home").check()
        await here.press("Turn on notifications")
        assert "Notifications are on for this device." in await here.text()
        assert "Notifications, Home · since" in await here.text()
        await press(page, "Test")
        await wait_until(lambda: service.asked)
        assert service.messages[0]["title"] == "It works"
        await page.get_by_role("checkbox", name="Home").uncheck()
        await here.press("Save changes")
        assert "Notifications · since" in await here.text()
        await press(page, "Remove")
        assert "Devices with notifications" not in await here.text()


async def press(page: Page, button: str) -> None:
    """Presses the button of the only device in the list."""
    async with page.expect_event("load"):
        await page.locator(".list button", has_text=button).click()


async def test_a_denied_permission_shows_where_to_change_it(browser: Browser, pushed: Pushed) -> None:
    """Then nothing is sent."""
    async with tab(browser) as here:
        page = await pushed.server.sign_in(here, "bob", DEVICES)
        await page.evaluate("Notification.requestPermission = async () => 'denied'")
        await page.get_by_role("button", name="Turn on notifications").click()
        await page.get_by_text("Your browser blocks notifications from this site.").wait_for()
        assert page.url == pushed.server.url + DEVICES


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def whole_browser() -> AsyncIterator[Browser]:
    """A browser that shows notifications."""
    async with browsing(WHOLE) as made:
        yield made


async def registration(context: BrowserContext, page: Page) -> str:
    """The browser's name for our service worker."""
    session = await context.new_cdp_session(page)
    found: list[str] = []

    def note(event: dict[str, list[dict[str, str]]]) -> None:
        found.extend(one["registrationId"] for one in event["registrations"])

    session.on("ServiceWorker.workerRegistrationUpdated", note)
    await session.send("ServiceWorker.enable")
    await wait_until(lambda: found)
    await session.detach()
    return found[0]


async def test_the_service_worker_shows_messages_and_opens_them(whole_browser: Browser, pushed: Pushed) -> None:
    """No notification appears while a page of ours is visible; a later message replaces the previous one."""
    context = await whole_browser.new_context()
    await context.grant_permissions(["notifications"])
    page = await pushed.server.sign_in(Tab(context, await context.new_page()), "cy", DEVICES)
    await page.evaluate("navigator.serviceWorker.ready.then(() => 0)")
    name = await registration(context, page)
    session = await context.new_cdp_session(page)
    await session.send("ServiceWorker.enable")
    (worker,) = context.service_workers

    async def deliver(**message: object) -> None:
        """Passes a message to the service worker, as the browser does for its push service."""
        where = {"origin": pushed.server.url, "registrationId": name, "data": json.dumps(message)}
        await session.send("ServiceWorker.deliverPushMessage", where)

    async def shown() -> list[list[str]]:
        found: list[list[str]] = await worker.evaluate(SHOWN)
        return found

    async def deliver_until_shown(**message: object) -> None:
        """A browser that has just begun on a busy machine can lose a message, or the notification made for it."""
        while True:
            await deliver(**message)
            with suppress(AssertionError):
                await wait_until(lambda: shown_is(shown, str(message["body"])), timeout=PATIENCE / 8)
                return

    await deliver(title="Home", body="2 new posts", path="channel/home", test=False)
    await deliver_until_shown(title="It works", body="So it is.", path="", test=True)
    assert await shown() == [["It works", "So it is.", "test"]]  # the other message came while this page was visible
    await page.goto("about:blank")
    await deliver(title="Home", body="2 new posts", path="channel/home", test=False)
    await deliver_until_shown(title="Home", body="3 new posts", path="channel/home", test=False)
    assert [one for one in await shown() if one[2] != "test"] == [["Home", "3 new posts", "new posts"]]
    assert await worker.evaluate(CLICK) == f"{pushed.server.url}/channel/home"
    assert [one[2] for one in await shown()] == ["test"]
    await context.close()


async def shown_is(shown: Callable[[], Awaitable[list[list[str]]]], body: str) -> bool:
    return any(one[1] == body for one in await shown())
