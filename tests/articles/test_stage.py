"""Articles are read for followers who want full texts, from a publisher on loopback."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Any, cast

import orjson
import pytest

from microsub.articles import ArticleStage, PageReader
from microsub.articles.stage import SECONDS, TROUBLE
from microsub.fetch import asking_for
from microsub.formats.html.sanitise import clean_html
from microsub.model.jf2 import Content
from microsub.model.settings import FollowSettings
from microsub.parsing.pool import ParsePool
from microsub.posts import Texts, articles_wanted
from microsub.posts.full_text import with_full
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.server.jobs import article_stage
from microsub.work import Message, Stream
from tests.support.parsing import PARSER
from tests.support.polling import World, world
from tests.support.redis_wrappers import Killing, Wrapped, killed_anywhere
from tests.support.web import Answer, Asked, Publisher, html_reply

HOST = "paper.test"
WORDS = "The harbour was quiet that morning, and nobody had seen the ferry since Tuesday, said the keeper. "
ARTICLE = "".join(f"<p>Paragraph {number}. {WORDS * 3}</p>" for number in range(8))


def page(title: str, body: str = ARTICLE) -> Answer:
    """A page with an article amid a menu and links to others."""
    menu = "".join(f'<li><a href="/s{number}">Section {number}</a></li>' for number in range(20))
    return html_reply(
        f"<!doctype html><title>{title} – The Paper</title><body><nav><ul>{menu}</ul></nav>"
        f'<article><h1>{title}</h1>{body}<img src="/boat.jpg" alt="A boat"></article>'
        f'<aside class="related"><ul>{menu}</ul></aside><footer>About us, imprint</footer></body>'
    )


def feed(site: Publisher, texts: Mapping[str, str]) -> Answer:
    """An RSS feed with an entry for each page."""
    items = "".join(
        f"<item><title>{name.title()}</title><link>{site.url(f'/{name}', HOST)}</link><guid>{name}</guid>"
        f"<description>{text}</description></item>"
        for name, text in texts.items()
    )
    document = f'<rss version="2.0"><channel><title>The Paper</title>{items}</channel></rss>'
    return Answer(document.encode(), headers=[("Content-Type", "application/rss+xml")])


CUT = dict.fromkeys(("one", "two", "three", "four"), f"Paragraph 0. {WORDS}…")


def serve(site: Publisher, texts: Mapping[str, str] = CUT) -> str:
    for name in texts:
        site.serve(f"/{name}", page(name.title()))
    return site.serve("/feed", feed(site, texts))


def stage(it: World) -> ArticleStage:
    return article_stage(it, PageReader(it.fetcher, PARSER))


async def read_articles(it: World) -> None:
    """Handle all waiting messages."""
    stages = it.make_stages()
    stages.serve("articles", stage(it).handle)
    await stages.run_once()


async def follow(it: World, site: Publisher, choice: str | None = None, user: str = "alice") -> Any:
    """Follow the feed, newly, with that choice."""
    await it.redis.command("SET", keys.articles(), "0")
    found = await it.follow(site.url("/feed", HOST), user)
    if choice is not None:
        await it.channels.update_subscription(user, "home", found.id, settings=FollowSettings(full_text=choice))
    return found


async def shown(it: World, user: str = "alice") -> dict[str, str]:
    """The text of each post as the user's apps get it."""
    ids = [row.id for row in await it.rows(user)]
    found = [orjson.loads(b"{" + item) for item in await it.parts.reading.data(user, ids) if item]
    return {post["name"]: post["content"]["text"] for post in found}


async def test_a_feed_that_cuts_its_posts_is_found_out_by_three_of_them(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site)
    await it.poll(followed)
    assert all(text.endswith("…") for text in (await shown(it)).values())
    await read_articles(it)
    found = await shown(it)
    assert len(found) == 4
    assert all("Paragraph 7." in text and "Section 3" not in text for text in found.values())
    assert [site.count(f"/{name}") for name in CUT] == [1, 1, 1, 1]


async def test_a_full_text_keeps_the_players_of_the_feed(site: Publisher, it: World) -> None:
    """Above the article, once, and not those that the article has; pages load most of theirs by scripts."""
    video, sound = "https://www.youtube.com/embed/abc123", "https://paper.test/a.mp3"
    own = (
        f"<iframe src='{video}'></iframe><iframe src='https://tube.example/embed/7'></iframe>"
        f"<audio src='{sound}'></audio><video><source src='https://paper.test/v.mp4'></video>"
    )
    serve(site, {"one": escape(f"{own}<p>Paragraph 0. {WORDS}…</p>"), "two": "x"})
    site.serve("/one", page("One", f"{ARTICLE}<audio src='{sound}' controls></audio>"))
    await it.poll(await follow(it, site, "on"))
    await read_articles(it)
    ids = [row.id for row in await it.rows("alice")]
    posts = [orjson.loads(b"{" + item) for item in await it.parts.reading.data("alice", ids) if item]
    (html,) = (post["content"]["html"] for post in posts if post["name"] == "One")
    players, _, article = html.partition("</div>")
    assert [players.count(one) for one in (video, "▶ tube.example", "v.mp4", sound)] == [1, 1, 1, 0]
    assert article.count("Paragraph 7.") == article.count(sound) == 1
    assert video not in article


MANY = " ".join(f"<audio src='/{number}'></audio>" for number in range(100))


@pytest.mark.parametrize(
    ("own", "above"),
    [
        ("<video src='/v'><p>No videos here.</p></video>", "<video src='/v'><p>No videos here.</p></video>"),
        ("<video src='/v'><video src='/w'></video><p>No videos here.</p></video>", "<video src='/w'></video>"),
        ("<audio title='</audio><iframe onload=x()>' src='/a'></audio>",) * 2,
        ("<p title='<iframe onload=x() '><q title=' src=//a></iframe>'></p>", ""),
        ("<p title='<img src=//a>'><img src='/s' width='16'> <img src='/i' alt='<b>'></p>", "<img src='/i' alt='<b>'>"),
        ("<a href='https://www.b.test/v'><img src='/s'><br>▶ One (b.test)</a>",) * 2,
        (
            "<a href='https://b.test/v'>▶ b.test</a><a href='/one'>▶ Read on</a>",
            "<a href='https://b.test/v'>▶ b.test</a>",
        ),
        ("<a href='https://[b/'>▶ b.test</a>", ""),
        (f"{MANY} <audio src='/more'></audio>", MANY),
    ],
)
def test_a_text_with_players_above_it_is_as_clean_as_before(own: str, above: str) -> None:
    """A parser doesn't change it. Of other links with the sign of players, none is added; a picture, if it has none."""
    own, above = [clean_html(html, "https://a.test/") for html in (own, above)]
    post = {"type": "entry", "content": {"html": own, "text": ""}}
    both = with_full(orjson.dumps(post), b'{"html": "<p>All.</p>", "text": "All."}', automatic=True)
    assert isinstance(both, Texts)
    html = orjson.loads(both.full)["content"]["html"]
    assert html == (f"<div>{above}</div><p>All.</p>" if above else "<p>All.</p>")
    assert clean_html(html, "https://a.test/") == html


@pytest.mark.parametrize(
    ("photo", "article"),
    [([], '<p><img src="/o"></p>'), (["https://a.test/p"], "<p>All.</p>")],
    ids=["its own", "a photo"],
)
def test_a_full_text_with_a_picture_gets_no_other(photo: list[str], article: str) -> None:
    post = {"type": "entry", "photo": photo, "content": {"html": '<img src="/i">', "text": ""}}
    both = with_full(orjson.dumps(post), orjson.dumps({"html": article, "text": "All."}), automatic=True)
    assert isinstance(both, Texts)
    assert orjson.loads(both.full)["content"]["html"] == article


async def test_a_feed_with_whole_posts_stays_as_it_is(site: Publisher, it: World) -> None:
    whole = {name: ARTICLE.replace("<p>", " ").replace("</p>", " ") for name in (*CUT, "five", "six")}
    serve(site, whole)
    followed = await follow(it, site)
    await it.poll(followed)
    before = await shown(it)
    await read_articles(it)
    assert await shown(it) == before
    assert sum(site.count(f"/{name}") for name in whole) == 3
    serve(site, {"seven": whole["one"], **whole})
    await it.poll(followed)
    await read_articles(it)
    assert site.count("/seven") == 0, "it is known"


async def test_an_edit_of_the_feed_does_not_undo_the_full_text(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    site.serve("/feed", feed(site, {**CUT, "one": f"Corrected. {WORDS}…"}))
    assert (await it.poll(followed)).updated == 1
    await read_articles(it)
    assert "Paragraph 7." in (await shown(it))["One"]
    (own,) = [text for text in await it.texts() if "/one" in text]
    assert "Corrected." in own
    assert site.count("/one") == 1


async def test_a_post_with_another_link_is_read_again(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    site.serve("/moved", page("One", ARTICLE.replace("harbour", "lagoon")))
    document = feed(site, CUT).body.replace(site.url("/one", HOST).encode(), site.url("/moved", HOST).encode())
    site.serve("/feed", Answer(document, headers=[("Content-Type", "application/rss+xml")]))
    await it.poll(followed)
    await read_articles(it)
    assert "lagoon" in (await shown(it))["One"]


async def test_followers_from_before_keep_the_feeds_text_beside_one_who_sees_the_full_text(
    site: Publisher, it: World
) -> None:
    serve(site)
    await follow(it, site, user="bob")
    await it.redis.command("SET", keys.articles(), f"{it.now + 1}")
    it.clock.advance(2)
    followed = await it.follow(site.url("/feed", HOST), "alice")
    await it.poll(followed)
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it, "alice")).values())
    assert all(text.endswith("…") for text in (await shown(it, "bob")).values())


@pytest.mark.parametrize(("status", "asked", "waiting"), [(500, 2, 0), (503, 1, 0), (429, 1, 0), (404, 2, 1)])
async def test_slow_pages_that_fail_are_not_asked_for_without_end(
    site: Publisher, it: World, status: int, asked: int, waiting: int
) -> None:
    """The feed waits for its turn again only if some of its pages are done with."""
    serve(site)

    def failing(_asked: Asked) -> Answer:
        it.clock.advance(SECONDS / 2 + 1)
        return Answer(status=status)

    for name in CUT:
        site.serve(f"/{name}", failing)
    followed = await follow(it, site, "on")
    await it.poll(followed)
    stream = keys.stream("articles")
    await it.redis.command("XTRIM", stream, "MAXLEN", 0)
    await stage(it).handle(Message("1-1", articles_wanted(followed.id)))
    assert sum(site.count(f"/{name}") for name in CUT) == asked
    assert await it.redis.command("XLEN", stream) == waiting


async def test_two_followers_see_the_text_that_each_has_chosen(site: Publisher, it: World) -> None:
    whole = {name: ARTICLE.replace("<p>", " ").replace("</p>", " ") for name in ("five", "six", "seven")}
    serve(site, {"one": CUT["one"]} | whole)
    await follow(it, site, "off", "alice")
    await follow(it, site, "auto", "carol")
    followed = await follow(it, site, "on", "bob")
    await it.poll(followed)
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it, "bob")).values())
    for user in ("alice", "carol"):
        assert (await shown(it, user))["One"].endswith("…"), "most of the posts are whole"
    await it.channels.update_subscription("alice", "home", followed.id, settings=FollowSettings(full_text="on"))
    assert await shown(it, "alice") == await shown(it, "bob")


async def test_turning_it_on_reads_the_posts_that_are_there(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site, "off")
    await it.poll(followed)
    await read_articles(it)
    assert {asked.path for asked in site.asked} == {"/feed"}
    await it.following.change("alice", "home", followed.id, it.now, settings=FollowSettings(full_text="on"))
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it)).values())


async def test_a_second_follower_of_a_feed_gets_full_texts_of_stored_posts(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site, "off")
    await it.poll(followed)
    await read_articles(it)
    await it.accounts.add_user("bob", "", it.now)
    await it.channels.create("bob", "Home", it.now, "home")
    await it.following.follow("bob", "home", site.url("/feed", HOST), it.now)
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it, "bob")).values())
    assert all(text.endswith("…") for text in (await shown(it)).values())


async def test_nothing_is_asked_for_if_all_follow_from_before(site: Publisher, it: World) -> None:
    serve(site)
    followed = await it.follow(site.url("/feed", HOST))
    await it.redis.command("SET", keys.articles(), f"{it.now + 1}")
    await it.poll(followed)
    await read_articles(it)
    assert {asked.path for asked in site.asked} == {"/feed"}
    serve(site, {**CUT, "five": CUT["one"]})
    await it.poll(followed)
    assert await Stream(it.redis, "articles").newest() is None, "the feed's record says that nobody wants it"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(b"gone", 404), "the server answered 404"),
        (Answer(b"no", 403), "the server answered 403"),
        (Answer(b"%PDF-1.7", headers=[("Content-Type", "application/pdf")]), "its address doesn't lead to a web page"),
        (html_reply("<title>Sign in</title><form><input></form>"), "no article was found on the page"),
        (
            html_reply(
                '<script type="application/ld+json">{"isAccessibleForFree": "False"}</script>'
                f"<article><h1>One</h1><p>{WORDS * 2}</p><p>Subscribe to read on, {WORDS}</p></article>"
            ),
            "the page shows the article only to subscribers",
        ),
        (html_reply("<p>" * 3_000_000), "the page has more than 4 MB"),
        (html_reply("<p><b>x</b></p>" * 130_000), "the page has more than 50000 elements"),
    ],
)
async def test_a_page_that_cant_be_read_leaves_the_feeds_text_and_says_why(
    site: Publisher, it: World, answer: Answer, why: str
) -> None:
    serve(site)
    for name in CUT:
        site.serve(f"/{name}", answer)
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    assert all(text.endswith("…") for text in (await shown(it)).values())
    assert (await it.record(followed)).extra[TROUBLE] == why


async def test_a_page_with_more_markup_and_less_text_than_the_feed(site: Publisher, it: World) -> None:
    """Text is compared with text, so the feed's own stays."""
    serve(site, dict.fromkeys(CUT, WORDS * 12))
    links = "".join(f'<p>{WORDS} <a href="/{"x" * 400}{number}">more</a></p>' for number in range(6))
    for name in CUT:
        site.serve(f"/{name}", page(name.title(), links))
    followed = await follow(it, site, "on")
    await it.poll(followed)
    before = await shown(it)
    await read_articles(it)
    assert await shown(it) == before
    assert (await it.record(followed)).extra[TROUBLE] == "the page has less text than the feed"


async def test_a_page_that_is_refused_is_not_asked_for_again(site: Publisher, it: World) -> None:
    serve(site)
    site.serve("/one", Answer(b"gone", 404))
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    await Stream(it.redis, "articles").add([articles_wanted(followed.id)])
    await read_articles(it)
    assert site.count("/one") == 1
    assert "Paragraph 7." in (await shown(it))["Two"]


async def test_a_server_that_cant_be_reached_is_tried_once_a_round(site: Publisher, it: World) -> None:
    serve(site)
    for name in CUT:
        site.serve(f"/{name}", lambda asked: asked.reset())
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    assert len([asked for asked in site.asked if asked.path != "/feed"]) == 1
    serve(site, {**CUT, "five": CUT["one"]})
    await it.poll(followed)
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it)).values())


async def test_a_link_to_a_server_that_cant_be_reached_keeps_no_other_page_unread(site: Publisher, it: World) -> None:
    serve(site)
    site.serve("/one", lambda asked: asked.reset())
    elsewhere = site.url("/one", "away.test")
    document = feed(site, CUT).body.replace(site.url("/one", HOST).encode(), elsewhere.encode())
    site.serve("/feed", Answer(document, headers=[("Content-Type", "application/rss+xml")]))
    await it.poll(await follow(it, site, "on"))
    await read_articles(it)
    assert sum("Paragraph 7." in text for text in (await shown(it)).values()) == len(CUT) - 1


async def test_many_messages_for_one_feed_read_its_pages_once_and_leave_room_to_others(
    site: Publisher, it: World
) -> None:
    serve(site)
    followed = await follow(it, site, "on")
    await it.poll(followed)
    handler, message = stage(it), Message("1", articles_wanted(followed.id))
    await asyncio.gather(*(handler.handle(message) for _ in range(4)))
    assert [site.count(f"/{name}") for name in CUT] == [1, 1, 1, 1]


async def test_notes_that_go_on_are_judged_as_articles_are(site: Publisher, it: World) -> None:
    """Without a title, a text says at its end that there is more; others are whole, and not asked for."""
    texts = {name: text if name != "three" else WORDS for name, text in CUT.items()}
    document = feed(site, texts).body.decode()
    document = re.sub(r"<item><title>.*?</title>", "<item>", document)
    site.serve("/feed", Answer(document.encode(), headers=[("Content-Type", "application/rss+xml")]))
    for name in texts:
        site.serve(f"/{name}", page(name.title()))
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    ids = [row.id for row in await it.rows()]
    found = [orjson.loads(b"{" + item) for item in await it.parts.reading.data("alice", ids) if item]
    assert [site.count(f"/{name}") for name in texts] == [int(name != "three") for name in texts]
    assert sum("Paragraph 7." in post["content"]["text"] for post in found) == 3


async def test_notes_and_addresses_with_secrets_are_not_read(site: Publisher, it: World) -> None:
    items = f"<item><description>{WORDS}</description><link>{site.url('/note', HOST)}</link></item>"
    secret = site.url("/secret", HOST).replace("//", "//me:pass@")
    items += f"<item><title>A title</title><description>{WORDS}…</description><link>{secret}</link></item>"
    body = f'<rss version="2.0"><channel><title>x</title>{items}</channel></rss>'.encode()
    site.serve("/feed", Answer(body, headers=[("Content-Type", "application/rss+xml")]))
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    assert {asked.path for asked in site.asked} == {"/feed"}


async def test_full_texts_leave_with_their_post(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site)
    await it.poll(followed)
    await read_articles(it)
    row = (await it.rows())[0]
    assert (await it.items.raw([row.id]))[0][b"Full"].startswith(b'{"html":')


class PostsRead(Wrapped):
    """Knows the most posts that one round trip read."""

    most = 0

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        found = await run()
        if name == "item_data":
            self.most = max(self.most, sum(map(len, found)))
        return found


async def test_a_feed_of_long_posts_is_read_a_few_at_a_time(real_redis: Redis, site: Publisher) -> None:
    """Posts may have a megabyte each, and a process reads the articles of sixteen feeds at a time."""
    site.serve("/feed", feed(site, {f"p{number}": WORDS for number in range(30)}))
    redis = PostsRead(real_redis)
    async with world(redis) as it:
        followed = await follow(it, site, "on")
        await it.poll(followed)
        redis.most = 0
        await stage(it).handle(Message("1-1", articles_wanted(followed.id)))
        assert 0 < redis.most <= 4


class BusyParser:
    """Parses until it is `free`; counts how many pages of each requester it parses at a time, at `most`."""

    def __init__(self) -> None:
        self.now, self.most = Counter[str](), Counter[str]()
        self.free = asyncio.Event()

    async def run(self, *_: object, keys: tuple[str]) -> Content:
        (key,) = keys
        self.now[key] += 1
        self.most |= self.now
        await self.free.wait()
        self.now[key] -= 1
        return Content("<p>It.</p>", "It.")


async def test_slow_pages_of_a_user_take_one_parser_at_a_time(site: Publisher, it: World) -> None:
    """So the pages of other users don't wait for them; those of the server itself aren't limited."""
    site.serve("/one", page("One"))
    parser, url = BusyParser(), site.url("/one", HOST)
    reader = PageReader(it.fetcher, cast(ParsePool, parser))

    async def read(user: str) -> object:
        with asking_for(user):
            return await reader.read(url, "One")

    reading = [asyncio.create_task(read(user)) for user in (*["user ann"] * 5, "user bob", *[""] * 3)]
    async with asyncio.timeout(20):
        while site.count("/one") < len(reading) or parser.most.total() < 5:
            await asyncio.sleep(0.01)
    parser.free.set()
    assert await asyncio.gather(*reading) == [Content("<p>It.</p>", "It.")] * len(reading)
    assert parser.most == {"user ann": 1, "user bob": 1, "articles": 3}


async def test_a_worker_that_is_killed_anywhere_leaves_the_same_texts(real_redis: Redis, site: Publisher) -> None:
    serve(site)
    redis = Killing(real_redis)
    async with world(redis) as it:
        ids: list[str] = []

        async def prepare() -> None:
            followed = await follow(it, site)
            await it.poll(followed)
            ids[:] = [followed.id]

        async def act() -> None:
            await stage(it).handle(Message("1-1", articles_wanted(ids[0])))

        async def state() -> dict[str, str]:
            return await shown(it)

        site.serve("/feed", feed(site, {name: CUT[name] for name in ("one", "two", "three")}))
        assert await killed_anywhere(redis, prepare, act, state) > 10


async def choose(it: World, followed: Any, user: str = "alice", **chosen: str) -> None:
    settings = FollowSettings(full_text="on", **chosen)
    await it.following.change(user, "home", followed.id, it.now, settings=settings)
    await read_articles(it)


async def test_another_selector_reads_the_pages_again(site: Publisher, it: World) -> None:
    """Several elements, without those that are left out; nested ones once."""
    serve(site)
    followed = await follow(it, site, "on")
    await it.poll(followed)
    await read_articles(it)
    assert all("Paragraph 7." in text for text in (await shown(it)).values())
    await choose(it, followed, article="article > p:nth-of-type(2), article > p:nth-of-type(3), p:nth-of-type(3)")
    for text in (await shown(it)).values():
        assert [f"Paragraph {n}." in text for n in range(4)] == [False, True, True, False]
        assert text.count("Paragraph 2.") == 1
    await choose(it, followed, article="article", article_without="p:nth-of-type(n+3), img")
    for text in (await shown(it)).values():
        assert [f"Paragraph {n}." in text for n in range(4)] == [True, True, False, False]
    await choose(it, followed, article_without="p:last-of-type")
    for text in (await shown(it)).values():
        assert [f"Paragraph {n}." in text for n in (0, 6, 7)] == [True, True, False]
    asked = len(site.asked)
    await choose(it, followed, article_without="p:last-of-type")
    assert len(site.asked) == asked


async def test_selectors_of_one_follower_count_only_if_others_agree(site: Publisher, it: World) -> None:
    """Selectors count for nobody as long as another follower has others or none."""
    serve(site)
    followed = await follow(it, site, "on")
    await follow(it, site, "on", "bob")
    await it.poll(followed)
    await choose(it, followed, article="footer")
    for user in ("alice", "bob"):
        assert all("Paragraph 7." in text for text in (await shown(it, user)).values())
    await choose(it, followed, "bob", article="article > p:first-of-type")
    assert all("Paragraph 7." in text for text in (await shown(it)).values())
    await choose(it, followed, article="article > p:first-of-type")
    assert all("Paragraph 7." not in text for text in (await shown(it, "bob")).values())


async def test_a_selector_that_finds_nothing(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site, "on")
    await it.poll(followed)
    await choose(it, followed, article="#nothing-here")
    assert all(text.endswith("…") for text in (await shown(it)).values())
    feed_now = await it.feeds.get(followed.id)
    assert feed_now
    assert feed_now.extra[TROUBLE] == "the selector of the article finds nothing on the page"


async def test_a_feed_in_two_channels_needs_one_choice(site: Publisher, it: World) -> None:
    serve(site)
    followed = await follow(it, site, "on")
    await it.channels.create("alice", "later", it.now, "later")
    await it.following.follow("alice", "later", site.url("/feed", HOST), it.now)
    await it.poll(followed)
    await choose(it, followed, article="article > p:first-of-type")
    assert all("Paragraph 7." not in text for text in (await shown(it)).values())
