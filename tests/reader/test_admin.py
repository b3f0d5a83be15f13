"""The admin's pages: access, content and actions."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from selectolax.lexbor import LexborNode as Node

import microsub
from microsub.admin import Hours, overview
from microsub.admin.hours import HourFigures
from microsub.base.clock import HOUR
from microsub.base.errors import StoreUnavailable
from microsub.configuration.facts import Change, ChangeKind, conflict_line
from microsub.configuration.model import FeedConfig
from microsub.feeds.condition import FeedCondition, answered
from microsub.reader import FOLDERS
from microsub.reader.admin import pages
from microsub.reader.admin.pages import HEIGHT, Plot, by_day
from microsub.web.pages import FOLDER, Templates
from microsub.work import Message
from tests.reader.conftest import ReadingVisitor
from tests.support.readers import FEED
from tests.support.visitor import Shown

PAGES = [
    "/admin",
    "/admin/feeds",
    "/admin/feeds/1",
    "/admin/letters",
    "/admin/hubs",
    "/admin/users",
    "/admin/configuration",
]


TEMPLATES = Templates([FOLDER, *FOLDERS])
SYNC = (Path(microsub.__file__).parent / "backend_file" / "sync.py").read_text()
REST = "so it counts as a complete new file: what it lacks is removed"


@pytest.fixture
async def admin(ann: ReadingVisitor) -> ReadingVisitor:
    """Ann is an admin, and all feeds were checked."""
    await ann.publish("a", "b")
    await ann.server.accounts.set_admin("ann", True)
    await ann.server.presence.beat("worker", ann.server.now)
    await look(ann)
    return ann


async def look(ann: ReadingVisitor) -> None:
    await ann.server.parts.survey.look(ann.server.now)


def cells(node: Node) -> str:
    return " ".join(node.text(separator=" ").split())


def words(page: Shown) -> str:
    main = page.tree.css_first("main")
    assert main is not None
    return " ".join(main.text().split())


async def test_other_users_get_404(ann: ReadingVisitor) -> None:
    """They get neither page nor link, from the first request after the right has ended; strangers must sign in."""
    for path in PAGES:
        assert (await ann.get(path)).status == 404
    assert "/admin" not in (await ann.get("/channels")).response.text
    await ann.server.accounts.set_admin("ann", True)
    assert 'href="/admin"' in (await ann.get("/channels")).response.text
    page = await ann.get("/admin/letters")
    assert page.status == 200
    feed = await ann.get("/admin/feeds/1")
    await ann.server.accounts.set_admin("ann", False)
    assert (await ann.browser.submit(feed, "/admin/feeds/1")).status == 404
    ann.browser.client.cookies.clear()
    assert (await ann.get("/admin")).location.startswith("/sign-in?")


async def test_the_overview_says_whether_all_is_well(admin: ReadingVisitor) -> None:
    """With the words of /health, and with numbers."""
    page = await admin.get("/admin")
    assert page.title == "Everything is working"
    figures = [cells(node) for node in page.tree.css(".figures > div")]
    assert {"Feeds 1", "Users 1", "Workers 1", "Queued messages 0"} <= set(figures)
    for language, sign in (("en", "."), ("de", ",")):
        shown = await admin.get("/admin", **{"accept-language": language})
        assert re.search(rf"\d{re.escape(sign)}\d [MG]iB", shown.text), language
    server = admin.server
    await server.feeds.update("1", {"failures": "2", "last_error": "status: 404"})
    await look(admin)
    assert (await admin.get("/admin")).title == "The server works, but 1 feed can’t be read"
    await server.parts.dead_letters.add("stored", Message("1-1", {"feed": b"1"}, 5), "KeyError", server.now)
    await look(admin)
    page = await admin.get("/admin")
    assert page.title == "Working, but needs attention"
    assert "1 message failed" in page.text
    assert "1 feed can’t be read" in page.text
    await server.presence.leave("worker")
    assert (await admin.get("/admin")).title == "Something is broken"


async def test_the_overview_shows_what_can_be_read(admin: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of a master that is away are missing; the page with its name is what admins look for then."""

    async def away(*_: object) -> None:
        raise StoreUnavailable("gone")

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(overview, "PATIENCE", 0.5)
    monkeypatch.setattr(overview, "memory", silent)
    parts = admin.server.parts
    monkeypatch.setattr(overview, "backlogs", away)
    for part, name in (
        (parts.survey, "recent"),
        (parts.survey, "held"),
        (parts.stores.presence, "alive"),
        (parts.stores.accounts, "count"),
        (Hours(admin.server.redis), "last"),
    ):
        monkeypatch.setattr(type(part), name, away)
    page = await admin.get("/admin")
    assert page.status == 200
    figures = [cells(node) for node in page.tree.css(".figures > div")]
    assert {"Feeds –", "Users –", "Workers –", "Store memory –", "Queued messages –"} <= set(figures)
    assert not page.tree.css(".plot, .held, #queues")


async def test_feeds_are_listed_by_health(admin: ReadingVisitor) -> None:
    """Failing feeds come first; addresses are shown without parts that may be secret."""
    server = admin.server
    await server.follow_unscheduled("https://secret.example/feed?token=sesame", "ann", "home")
    await server.feeds.update("2", {"failures": "3", "last_error": "status: 404", "last_success": str(server.now)})
    await look(admin)
    page = await admin.get("/admin/feeds")
    assert [node.text().strip() for node in page.tree.css(".sources h2 a")][1] == "A blog"
    assert "The last 3 checks failed: status: 404" in words(page)
    assert "sesame" not in page.text
    assert len((await admin.get("/admin/feeds?state=failing")).tree.css(".sources > li")) == 1
    assert "No feeds." in (await admin.get("/admin/feeds?state=gone")).text
    assert (await admin.get("/admin/feeds?state=odd&page=9999999")).status == 200
    assert "1 user follows it." in words(await admin.get("/admin/feeds/1"))
    assert (await admin.get("/admin/feeds/99")).status == 404


async def test_a_long_list_has_pages(admin: ReadingVisitor) -> None:
    """A page has fifty feeds."""
    server = admin.server
    for n in range(60):
        await server.feeds.subscribe(
            (await server.feeds.ensure(f"https://f{n}.example/", server.now)).id, "ann", "home"
        )
    await look(admin)
    first = await admin.get("/admin/feeds")
    assert len(first.tree.css(".sources > li")) == 50
    further = first.tree.css_first(".paging a")
    assert further is not None
    second = await admin.get(further.attributes["href"] or "")
    assert len(second.tree.css(".sources > li")) == 11


async def test_a_feed_can_be_polled_at_once(admin: ReadingVisitor) -> None:
    """It is due at once, except within a minute of the last poll, or where the publisher doesn't allow it."""
    server, path = admin.server, "/admin/feeds/1"
    refused = await admin.browser.submit(await admin.get(path), path)
    assert (refused.status, "less than a minute ago" in refused.text) == (429, True)
    await server.feeds.update("1", {"last_poll": str(server.now - 90)})
    asked = await admin.browser.submit(await admin.get(path), path)
    assert "as soon as its host" in (await admin.get(asked.location)).text
    assert await server.schedule.holds([("1", "blog.example")]) == [True]
    await server.feeds.update("1", {"hold_until": str(server.now + 600)})
    assert "asked for a pause" in (await admin.browser.submit(await admin.get(path), path)).text
    for _ in range(20):
        last = await admin.browser.submit(await admin.get(path), path)
    assert last.status == 429


async def test_dead_letters_are_retried_and_dropped(admin: ReadingVisitor) -> None:
    """One by one; if a letter can't be retried, the page says why."""
    dead, now = admin.server.parts.dead_letters, admin.server.now
    for stage in ("stored", "nonsense"):
        fields = {"feed": b"1", "note": b"https://x.example/?token=sesame"}
        fields["body"] = b'{"feed_url":"https:\\/\\/u:sesame@x.example\\/feed?page=2\\u0026token=sesame"}'
        await dead.add(stage, Message("1-1", fields, 5), "KeyError: https://a:sesame@b.example/", now)
    page = await admin.get("/admin/letters")
    assert page.title == "2 dead letters"
    assert "sesame" not in page.text
    first, second = await dead.list()
    done = await admin.browser.submit(page, "/admin/letters/retry", letter=first.id)
    assert "will be retried" in (await admin.get(done.location)).text
    assert await admin.server.redis.command("XLEN", "stream:{stored}") == 1
    assert "feed_url" in page.text
    failed = await admin.browser.submit(page, "/admin/letters/retry", letter=second.id)
    assert "names the stage" in failed.text
    await admin.browser.submit(page, "/admin/letters/drop", letter=second.id)
    assert await dead.count() == 0
    assert (await admin.browser.submit(page, "/admin/letters/drop", letter=second.id)).status == 404


async def test_a_long_field_of_a_letter_is_cut_before_it_is_searched(admin: ReadingVisitor) -> None:
    """A truncated address is left out; the time grows only with the length, for any words."""
    cut = b"x " * 900 + b"https://u:" + b"sesame" * 200
    words = (b"a" * 7_990 + b" ") * 40
    for _ in range(50):
        letter = Message("1-1", {"body": cut, "more": words, "last": b"%" * 20_000}, 5)
        await admin.server.parts.dead_letters.add("pushed", letter, "KeyError", admin.server.now)
    page = await admin.get("/admin/letters")
    assert page.status == 200
    assert "sesame" not in page.text
    assert len(page.response.text) < 50 * 5_000


async def test_hubs_users_and_configuration(admin: ReadingVisitor) -> None:
    """All known facts of each, without secrets."""
    server = admin.server
    await server.feeds.update("1", {"hub": "https://hub.example/"})
    await server.subscription_store.count("https://hub.example/", posts=7)
    await look(admin)
    hubs = [cells(row) for row in (await admin.get("/admin/hubs")).tree.css("tbody tr")]
    assert hubs == ["hub.example 1 0 0 0 0 7 0"]
    await server.accounts.add_user("bob", "", server.now)
    await server.parts.local.credentials.invite("bob")
    await server.accounts.add_user("carl", "", server.now)
    await server.accounts.disable_user("carl", server.now)
    await server.parts.activity.note("ann", server.now)
    users = [cells(row) for row in (await admin.get("/admin/users")).tree.css("tbody tr")]
    assert users[0].startswith("ann admin https://ann.example/")
    assert users[1].startswith("bob invited – never Invite again Remove")
    assert users[2].startswith("carl disabled – disabled since")
    assert users[2].endswith("Restore Quotas")


async def test_the_configuration_in_force(
    admin: ReadingVisitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the last applied changes, and without secrets."""
    server = admin.server
    monkeypatch.chdir(tmp_path)
    assert "No backend.json has been applied yet." in (await admin.get("/admin/configuration")).text
    feeds = ["https://u:sesame@blog.example/feed", "https://blog.example/private?token=sesame"]
    muted = ["https://blog.example/author?key=sesame"]
    channel = {"uid": "x", "feeds": feeds, "mute": muted}
    server.save({"users": {"ann": {"me": "https://ann.example/", "channels": [channel]}}})
    assert await server.configuration.look() == "applied"
    server.save({"users": {"ann": {"me": "https://ann.example/", "channels": [{"uid": "x", "feeds": feeds[:1]}]}}})
    assert await server.configuration.look() == "applied"
    page = await admin.get("/admin/configuration")
    assert "sesame" not in page.text
    assert "***@blog.example/feed" in page.text
    assert "channel ann/x added" in words(page)
    assert "Kanal ann/x angelegt" in words(await admin.get("/admin/configuration", **{"accept-language": "de"}))


def test_lines_about_the_configuration_are_in_german() -> None:
    """Every change, whatever its value, and every conflict of file and apps; each line has a form of its own."""
    feed, values = (
        FeedConfig("https://blog.example/feed", "Blog"),
        {ChangeKind.ADMIN: True, ChangeKind.REORDERED: ("a", "b")},
    )
    feeds = {ChangeKind.FEED_ADDED, ChangeKind.FEED_RENAMED, ChangeKind.FEED_REMOVED}
    lines = [str(Change(what, "ann", "x", feed if what in feeds else values.get(what, "y"))) for what in ChangeKind]
    lines += [str(Change(what, "ann", "x", "y", restored=True)) for what in ChangeKind if what.value.endswith("added")]
    lines += [str(Change(ChangeKind.ADMIN, "ann", value=False)), str(Change(ChangeKind.TOKEN_ENDPOINT, "ann"))]
    whats = [
        *("channel ann/x", "setting max_items of channel ann/x", "name of channel ann/x", "site of user ann"),
        *("whether user ann is an admin", "feed https://b.example/ in ann/x", "name of https://b.example/ in ann/x"),
        *("sign-in of https://b.example/ in ann/x", "filter for all channels of ann"),
        *("output feed ann/x", "source ann/x", "order of the channels of ann"),
    ]
    said = ["an edit", "removed it", "another content", "other settings", "another one", "nothing", "'5'"]
    lines += [conflict_line(what, one, "removed it", file_wins=False) for what in whats for one in said]
    lines += [conflict_line(what, "'5'", one, file_wins=True) for what in whats for one in said]
    lines += [f"not applied, because of a later change in an app: {line}" for line in lines[:3]]
    lines += [re.sub("{name}", "v1", line) for line in re.findall(r'"(backend\.json was (?:reset|edited) .*?)"', SYNC)]
    lines += [f"backend.json {why}, {REST}" for why in re.findall(r'"(has .*?)"', SYNC)]
    assert len(lines) > 150
    german = [TEMPLATES.translated(pages._lines().found(line), "de") for line in lines]
    assert len(set(german)) == len(set(lines))
    words = r"\b(?:of|user|removed|changed|added|the|edit|nothing|restored|other|another|settings|file|whether|and)\b"
    assert [one for one in german if re.search(words, one)] == []


async def test_a_long_configuration_is_cut_between_lines(
    admin: ReadingVisitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No part of a secret is left, wherever the limit is, and the page says that there is more."""
    server = admin.server
    monkeypatch.chdir(tmp_path)
    feeds = [f"https://blog.example/{number}?token=sesame" for number in range(3)]
    server.save({"users": {"ann": {"channels": [{"uid": "x", "feeds": feeds}]}}})
    assert await server.configuration.look() == "applied"
    (file,) = (await admin.get("/admin/configuration")).tree.css("pre")
    whole = file.text()
    for limit in range(len(whole) - 60, len(whole), 7):
        monkeypatch.setattr(pages, "_LONGEST_FILE", limit)
        page = await admin.get("/admin/configuration")
        (file,) = page.tree.css("pre")
        lines = file.text().splitlines()
        assert lines == whole.splitlines()[: len(lines)]
        assert "The rest is too long to show." in page.text


def test_how_a_feed_is() -> None:
    """By its record: a quiet feed isn't broken."""
    from microsub.feeds.record import FeedRecord

    day, now = 86_400.0, 1_000_000_000.0

    def of(**fields: object) -> FeedCondition:
        extra = {name: str(fields.pop(name)) for name in ("gap", "last_change", "answers") if name in fields}
        return FeedCondition.of(FeedRecord("1", FEED, extra=extra, **fields), now)  # type: ignore[arg-type]

    quiet = of(last_success=now, gap=day, last_change=now - 40 * day)
    assert (quiet.state, quiet.needs_attention, round(quiet.posts_a_month, 2)) == ("quiet", False, 0.75)
    assert of(last_success=now, gap=day, last_change=now - day).state == "ok"
    assert of(created=now).state == "new"
    briefly = of(failures=2, last_success=now - 60, last_error="status: 500", last_change=now)
    assert (briefly.state, briefly.needs_attention, briefly.error) == ("failing", True, "status: 500")
    gone = of(gone=True, next_poll=now)
    assert (gone.state, gone.needs_attention, gone.next) == ("gone", True, 0.0)
    record = FeedRecord("1", FEED)
    for n in range(20):
        record = FeedRecord("1", FEED, extra={"answers": answered(record, "changed" if n % 2 else "timeout", now + n)})
    answers = FeedCondition.of(record, now).answers
    assert (len(answers), answers[0], answers[-1]) == (10, (now + 19, "changed"), (now + 10, "timeout"))


def test_plots_and_days() -> None:
    """The highest bar fills the drawing; days are sums."""
    hours = [HourFigures(n * HOUR, polls=float(n), failed=n / 2) for n in range(48)]
    plot = Plot.of(hours, lambda hour: hour.polls, lambda hour: hour.failed)
    last = plot.bars[-1]
    assert (len(plot.bars), plot.most, plot.width) == (47, 47.0, 192)
    assert last == (188, 0.0, HEIGHT, HEIGHT / 2)
    assert Plot.of(hours, lambda hour: hour.posts) == Plot([], 0.0, 192)
    assert [(day.begin, day.polls) for day in by_day(hours)] == [(86_400, 852.0), (0, 276.0)]
