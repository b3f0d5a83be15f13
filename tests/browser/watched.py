"""A tab that reports every event in it: scripts, requests, navigations, dialogs, windows, downloads."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, Dialog, Error, Frame, Page, Request, Route

HERE = "http://page.example/"
_GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
_PICTURES = frozenset({"image", "media", "texttrack"})
# Repeated here, not imported: this is the promised list.
PLAYERS = re.compile(
    r"https://(?:www\.youtube(?:-nocookie)?\.com/embed/|player\.vimeo\.com/video/|w\.soundcloud\.com/player/"
    r"|open\.spotify\.com/embed/|bandcamp\.com/EmbeddedPlayer/)"
)
# The policy only reports, so that the event happens too and is seen twice.
_POLICY = (
    "default-src 'none'; img-src http: https:; media-src http: https:; frame-src https:; base-uri 'none'; "
    "form-action 'none'"
)

_LISTEN = """
    // Once is enough for each thing: events bubble by the thousand.
    for (const name of ['report', 'ran']) {
        const send = window[name], sent = new Set();
        window[name] = (...what) => {
            if (!sent.has(what.join())) {
                sent.add(what.join());
                send(...what);
            }
        };
    }
    document.addEventListener('securitypolicyviolation', e =>
        report(`policy: ${e.effectiveDirective} ${e.blockedURI} ${e.sample}`), true);
"""

POKE = """
    const LINKS = /^(https?|mailto|tel|xmpp|ircs?|gemini|magnet|geo|sms|matrix):$/;
    window.poke = (root) => {
        const view = root.ownerDocument?.defaultView ?? root.defaultView;
        root.addEventListener('click', e => {
            const link = e.target.closest?.('a[href], area[href]');
            if (link && LINKS.test(link.protocol)) e.preventDefault();
        }, true);
        for (const element of root.querySelectorAll('*')) {
            for (const {name, value} of [...element.attributes]) {
                if (name.startsWith('on')) {
                    report(`handler: ${name}`);
                    const how = {bubbles: true, cancelable: true};
                    try { element.dispatchEvent(new view.MouseEvent(name.slice(2), how)); } catch {}
                }
                if (/^(action|formaction|data|background|ping|srcdoc|style|xlink:href|attributionsrc)$/.test(name))
                    report(`attribute: ${name}`);
                if (/^(href|src|poster|cite|data|action|formaction|xlink:href)$/.test(name)) {
                    let scheme = 'none:';
                    try { scheme = new URL(value, document.baseURI).protocol; } catch {}
                    const fits = name === 'href' ? LINKS : /^https?:$/;
                    if (!fits.test(scheme)) report(`address: ${name} ${value}`);
                }
            }
            if (element.matches('script, style, link, base, form, input, button, object, embed, template, svg, dialog'))
                report(`element: ${element.localName}`);
            if (element.matches('a, area, button, input, summary, details, math, [href]')) {
                try {
                    element.dispatchEvent(new view.MouseEvent('click', {bubbles: true, cancelable: true, view}));
                } catch (error) { report(`poking: ${error}`); }
            }
            if (element.matches('form')) { try { element.requestSubmit(); } catch {} }
            if (element.matches('video, audio')) { try { element.play?.().catch(() => {}); } catch {} }
        }
    };
"""

_AS_HTML = """
    (values) => {
        for (const value of values) {
            const first = document.body.appendChild(document.createElement('div'));
            first.innerHTML = value;
            // Readers move what they show: read back, it must be read the same way again.
            const second = document.body.appendChild(document.createElement('div'));
            second.innerHTML = first.innerHTML;
        }
        poke(document);
    }
"""

_IN_ELEMENTS = """
    (values) => {
        for (const value of values) {
            for (const [tag, name] of ELEMENTS) {
                const element = document.createElement(tag);
                element.setAttribute(name, value);
                document.body.append(element);
            }
        }
        poke(document);
    }
"""

_AS_LINK = """
    (values) => {
        for (const value of values) {
            const link = document.createElement('a');
            link.setAttribute('href', value);
            document.body.append(link);
            // Whatever else it leads to, it mustn't run: only that is clicked.
            if (/^(javascript|vbscript|data|blob):$/.test(link.protocol)) {
                report(`address: ${value}`);
                link.click();
            }
        }
    }
"""

_AS_TEXT = """
    (values) => {
        for (const value of values) {
            const element = document.body.appendChild(document.createElement('p'));
            element.textContent = value;
            element.title = value;
            const again = document.body.appendChild(document.createElement('p'));
            again.innerHTML = element.innerHTML;
        }
        poke(document);
    }
"""

_POKE_FRAMES = """
    () => {
        for (const frame of document.querySelectorAll('iframe'))
            try { frame.contentWindow.poke(frame.contentDocument); } catch { /* It leads elsewhere by now. */ }
    }
"""

_SOME = "[['a', 'href'], ['img', 'src']]"
_ALL = "[['a', 'href'], ['img', 'src'], ['video', 'src'], ['audio', 'src']]"

WAYS = {
    "html": _AS_HTML,
    "address": _IN_ELEMENTS.replace("ELEMENTS", _ALL),
    "path": _IN_ELEMENTS.replace("ELEMENTS", _SOME),
    "loose": _AS_LINK,
    "text": _AS_TEXT,
}
"""How a reader app puts a kind of field into its page by script."""


@dataclass
class Watched:
    """A tab at `HERE` and its reports so far; `framed`: the same by the name of the frame."""

    page: Page
    reports: list[str] = field(default_factory=list)
    framed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    document: str = ""

    async def show(self, body: str = "") -> None:
        """Loads a page with `body` in it, and waits for its load event."""
        self.document = f"<!DOCTYPE html><meta charset=utf-8><body>{body}"
        await self.page.goto(HERE, wait_until="load")

    async def put(self, kind: str, values: list[str]) -> None:
        """Puts `values` into an empty page as a reader app would."""
        await self.show()
        await self.page.evaluate(WAYS[kind], values)
        await self.settle()

    async def touch(self, body: str) -> None:
        """Loads a page with `body` in it; clicks, focuses and plays its elements."""
        await self.show(body)
        await self.page.evaluate("poke(document)")
        await self.settle()

    async def touch_framed(self, bodies: dict[str, str]) -> None:
        """The same for many bodies, each in its own frame, by whose name `framed` has its reports."""
        frames = (f'<iframe name="{name}" srcdoc="{html.escape(body)}"></iframe>' for name, body in bodies.items())
        await self.show("".join(frames))
        await self.page.evaluate(_POKE_FRAMES)
        await self.settle()

    async def settle(self) -> None:
        """Waits until due timers and events have run, and all reports are in."""
        await self.page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")

    async def told(self, doing: Awaitable[None]) -> list[str]:
        """The reports while the page does something, until it is done or the page is left. They are then cleared."""
        try:
            await doing
        except Error as error:
            self.reports.append(f"left: {error.message[:80]}")
            await self._leave()
        taken, self.reports = self.reports, []
        return taken

    async def _leave(self) -> None:
        # This may take several attempts: the page may be navigating to another one.
        for _ in range(3):
            try:
                await self.page.goto("about:blank")
            except Error:
                continue
            return

    def tell(self, text: str, frame: Frame) -> None:
        self.reports.append(text)
        self.framed[frame.name].append(text)

    def on_request(self, request: Request) -> None:
        url, kind = request.url, request.resource_type
        if url == HERE or (kind in _PICTURES and re.match(r"https?://(?!out\.example)", url)):
            return
        try:
            frame = request.frame
        except Error:  # a window's request, whose frame doesn't exist yet
            frame = self.page.main_frame
        if kind == "document" and frame.parent_frame is not None and PLAYERS.match(url):
            return
        self.tell(f"request: {kind} {url[:200]}", frame)

    def on_navigation(self, frame: Frame) -> None:
        if frame.parent_frame is None and frame.url not in {HERE, "about:blank"}:
            self.reports.append(f"navigation: {frame.url[:200]}")

    async def on_dialog(self, dialog: Dialog) -> None:
        self.reports.append(f"dialog: {dialog.type} {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def watched(browser: Browser) -> AsyncIterator[Watched]:
    """A tab that collects reports as they happen."""
    context = await browser.new_context()
    page = await context.new_page()
    made = Watched(page)

    async def report(source: dict[str, Any], text: str) -> None:
        made.tell(text, source["frame"])

    async def ran(source: dict[str, Any], number: int = 0) -> None:
        made.tell(f"script: {number}", source["frame"])

    async def answer(route: Route) -> None:
        await route.fulfill(
            body=made.document,
            content_type="text/html",
            headers={"Content-Security-Policy-Report-Only": _POLICY},
        )

    await context.expose_binding("report", report)
    await context.expose_binding("ran", ran)
    await context.add_init_script(_LISTEN + POKE)
    await context.route(HERE, answer)
    await context.route(re.compile(r"https?://ok\.example/"), _picture)
    _listen(context, page, made)
    try:
        yield made
    finally:
        await context.close()


def _listen(context: BrowserContext, page: Page, made: Watched) -> None:
    context.on("request", made.on_request)
    page.on("framenavigated", made.on_navigation)
    page.on("dialog", made.on_dialog)
    context.on("page", lambda popup: made.reports.append(f"window: {popup.url}"))
    page.on("download", lambda download: made.reports.append(f"download: {download.url[:200]}"))
    page.on("worker", lambda worker: made.reports.append(f"worker: {worker.url[:200]}"))
    page.on("websocket", lambda socket: made.reports.append(f"websocket: {socket.url[:200]}"))
    page.on("crash", lambda _: made.reports.append("crash"))


async def _picture(route: Route) -> None:
    await route.fulfill(body=_GIF, content_type="image/gif")
