"""Icons of sites, for feeds that name no picture."""

from __future__ import annotations

import pytest

from microsub.articles import IconFinder, PageReader
from microsub.articles.icons import MONTH
from microsub.feeds import ICON, FeedRecord
from microsub.model.settings import FollowSettings
from microsub.server.jobs import article_stage
from tests.articles.test_stage import HOST, follow, serve
from tests.support.parsing import PARSER
from tests.support.polling import World
from tests.support.web import Answer, Publisher, html_reply

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
ICO = b"\0\0\1\0\1\0" + bytes(40)


async def found(it: World, site: Publisher, home: str = "/") -> str | None:
    feed = FeedRecord("1", site.url("/feed", HOST), home=site.url(home, HOST))
    return (await IconFinder(it.fetcher, PARSER).look(feed, it.now))[ICON]


async def test_the_icon_that_the_page_names_comes_before_the_usual_one(site: Publisher, it: World) -> None:
    site.serve("/", html_reply('<link rel="icon" href="s.svg"><link rel="shortcut icon" href="/i.png?v=2"><p>x'))
    site.serve("/i.png", Answer(PNG))
    site.serve("/favicon.ico", Answer(ICO))
    assert await found(it, site) == site.url("/i.png?v=2", HOST)


async def test_without_one_it_is_the_usual_one(site: Publisher, it: World) -> None:
    site.serve("/blog/", Answer(b"gone", 404))
    site.serve("/favicon.ico", Answer(ICO))
    assert await found(it, site, "/blog/") == site.url("/favicon.ico", HOST)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"not here", 404),
        Answer(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", headers=[("Content-Type", "image/png")]),
        Answer(PNG + bytes(300_000)),
        Answer(b"", headers=[("Location", "http://10.0.0.1/favicon.ico")], status=302),
        html_reply("<h1>Not found</h1>"),
    ],
    ids=["404", "svg", "large", "private", "page"],
)
async def test_other_files_are_left_out(site: Publisher, it: World, answer: Answer) -> None:
    names = "".join(f'<link rel="icon" href="/{number}.png">' for number in range(50))
    site.serve("/", html_reply(f"{names}<p>x"))
    site.otherwise = answer
    assert await found(it, site) is None
    assert len(site.asked) <= 5


async def test_a_site_is_asked_once_a_month(site: Publisher, it: World) -> None:
    serve(site)
    site.serve("/", html_reply('<link rel="icon" href="/i.png">'))
    site.serve("/i.png", Answer(PNG))
    followed = await follow(it, site, "off")
    await it.poll(followed)
    await it.feeds.update(followed.id, {"home": site.url("/", HOST)})
    stage = article_stage(it, PageReader(it.fetcher, PARSER), IconFinder(it.fetcher, PARSER))

    async def handle() -> None:
        stages = it.make_stages()
        stages.serve("articles", stage.handle)
        await it.following.change("alice", "home", followed.id, it.now, settings=FollowSettings(view="list"))
        await stages.run_once()

    await handle()
    assert (await it.record(followed)).icon == site.url("/i.png", HOST)
    asked = site.count("/i.png")
    await handle()
    assert site.count("/i.png") == asked
    it.clock.advance(MONTH + 60)
    site.serve("/i.png", Answer(b"gone", 404))
    await handle()
    assert site.count("/i.png") == asked + 1
    assert (await it.record(followed)).icon == ""
