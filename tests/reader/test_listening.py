"""The queue of episodes: kept with the account, changed by forms that need no script."""

from __future__ import annotations

from dataclasses import replace

from microsub.model.jf2 import Content, Enclosure, Entry
from microsub.model.reader import LONGEST_EPISODE, MOST_EPISODES, MOST_OF_EPISODES
from tests.reader.conftest import ReadingVisitor
from tests.support.posts import NOON
from tests.support.redis_wrappers import Between, once
from tests.support.visitor import Shown, Visitor, fields_of

BAR = "/listening"


async def episode(ann: ReadingVisitor, name: str, url: str = "", title: str = "", at: float = NOON) -> str:
    """A published post with one audio file; its path."""
    file = Enclosure(url or f"https://a.example/{name}.mp3", "audio/mpeg")
    entry = Entry(guid=name, url=f"https://a.example/{name}", name=title or name, enclosure=(file,))
    return f"/post/{await ann.publish_entry(entry, at)}"


async def press(ann: ReadingVisitor, path: str, button: str, url: str) -> Shown:
    """Presses a button below the file on the post's page; the page that is shown then."""
    page = await ann.get(path)
    done = await ann.browser.post(f"{path}/listen", {**fields_of(page.form(f"{path}/listen")), button: url})
    return await ann.get(done.location) if done.location else done


def queue(page: Shown) -> list[str]:
    """The titles in the bar, the current episode's first."""
    return [node.text().strip() for node in page.tree.css("#listening p a, #listening li > span[dir]")]


async def test_an_episode_plays_in_the_bar_of_every_page(ann: ReadingVisitor) -> None:
    """The policy of these pages allows its file; without an episode it allows no foreign one."""
    before = await ann.get("/channel/home")
    assert "media-src 'self';" in before.response.headers["content-security-policy"]
    path = await episode(ann, "one")
    assert queue(await press(ann, path, "play", "https://a.example/one.mp3")) == ["one"]
    for place in ("/channel/home", "/feed", "/settings", "/search?q=one"):
        page = await ann.get(place)
        assert queue(page) == ["one"]
        assert "media-src 'self' https: http:" in page.response.headers["content-security-policy"]
        assert page.tree.css_first("#listening audio").attributes["src"] == "https://a.example/one.mp3"


async def test_a_secret_that_is_shown_once_has_no_player_beside_it(ann: ReadingVisitor) -> None:
    """Its forms would leave the page."""
    await press(ann, await episode(ann, "one"), "play", "https://a.example/one.mp3")
    account = await ann.get("/account")
    assert queue(account) == ["one"]
    made = await ann.browser.submit(account, "/account/tokens", name="app", days="30", scope=["read"])
    assert "it isn’t shown again" in made.text
    assert queue(made) == []
    await ann.server.accounts.set_admin("ann", True)
    users = await ann.get("/admin/users")
    assert queue(users) == ["one"]
    invited = await ann.browser.submit(users, "/admin/users/invite", name="bob")
    assert "it isn’t shown again" in invited.text
    assert queue(invited) == []


async def test_the_token_of_a_source_is_shown_while_an_episode_plays(ann: ReadingVisitor) -> None:
    """Without the player, as other secrets."""
    await press(ann, await episode(ann, "one"), "play", "https://a.example/one.mp3")
    sources = await ann.get("/settings/sources")
    assert queue(sources) == ["one"]
    made = await ann.browser.submit(sources, "/settings/sources", name="Script", channel="home")
    assert "it isn’t shown again" in made.text
    assert queue(made) == []


async def test_the_bar_leads_to_a_page_that_can_be_opened(ann: ReadingVisitor) -> None:
    """Pages that say why a form was refused stand at addresses that only receive forms; others are missing."""
    await press(ann, await episode(ann, "one"), "play", "https://a.example/one.mp3")
    table = await ann.get("/feed")
    await ann.browser.submit(table, "/feed/refresh")
    refused = await ann.browser.submit(table, "/feed/refresh")
    for page, status, target in (
        (table, 200, "/feed"),
        (refused, 429, "/"),
        (await ann.get("/channel/none"), 404, "/"),
    ):
        assert (page.status, queue(page)) == (status, ["one"])
        done = await ann.browser.submit(page, BAR, seconds="20")
        assert done.location == target
        assert queue(await ann.get(done.location)) == ["one"]


async def test_episodes_wait_in_the_queue(ann: ReadingVisitor) -> None:
    """An episode that is begun comes first, and the one before it keeps its position; the next one follows."""
    urls = {name: f"https://a.example/{name}.mp3" for name in ("one", "two", "three")}
    paths = {name: await episode(ann, name) for name in urls}
    await press(ann, paths["one"], "play", urls["one"])
    await press(ann, paths["two"], "add", urls["two"])
    page = await press(ann, paths["two"], "add", urls["two"])
    assert queue(page) == ["one", "two"]
    fields = {"current": urls["one"], "seconds": "71"}
    told = await ann.change(page, "current", urls["one"], BAR, accept="application/json")
    assert told.status == 204
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | fields, accept="application/json")
    page = await press(ann, paths["three"], "play", urls["three"])
    assert queue(page) == ["three", "one", "two"]
    await ann.change(page, "play", urls["one"], BAR)
    page = await ann.get("/channel/home")
    assert queue(page) == ["one", "three", "two"]
    assert page.tree.css_first("#listening audio").attributes["src"] == f"{urls['one']}#t=71"
    for left in (["three", "two"], ["two"], []):
        gone = await ann.change(
            page, "remove", page.tree.css_first("#listening audio").attributes["data-file"] or "", BAR
        )
        assert gone.location == "/channel/home"
        page = await ann.get("/channel/home")
        assert queue(page) == left


async def test_the_queue_is_emptied_at_once(ann: ReadingVisitor) -> None:
    """One button below the waiting episodes ends the playback and forgets them all."""
    for name in ("one", "two", "three"):
        page = await press(ann, await episode(ann, name), "add", f"https://a.example/{name}.mp3")
    assert queue(page) == ["one", "two", "three"]
    await ann.change(page, "clear", "yes", BAR)
    assert queue(await ann.get("/channel/home")) == []


async def test_a_closed_player_keeps_its_queue(ann: ReadingVisitor) -> None:
    """And the position; what other devices report opens nothing, while an episode that is played brings all back."""
    urls = {name: f"https://a.example/{name}.mp3" for name in ("one", "two", "three")}
    paths = {name: await episode(ann, name) for name in urls}
    await press(ann, paths["one"], "play", urls["one"])
    page = await press(ann, paths["two"], "add", urls["two"])
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"close": "yes", "seconds": "71"})
    assert queue(await ann.get("/channel/home")) == []
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"seconds": "75"}, accept="application/json")
    assert not (await ann.get("/account")).tree.css("#listening")
    page = await press(ann, paths["three"], "play", urls["three"])
    assert queue(page) == ["three", "one", "two"]
    await ann.change(page, "close", "yes", BAR)
    page = await press(ann, paths["one"], "add", urls["one"])
    assert queue(page) == ["three", "one", "two"]
    await ann.change(page, "play", urls["one"], BAR)
    assert (await ann.get("/")).tree.css_first("#listening audio").attributes["data-at"] == "75"


async def test_a_closed_player_keeps_its_place(ann: ReadingVisitor) -> None:
    """It goes on there when it is played, also after another one; one that was never begun is forgotten."""
    urls = {name: f"https://a.example/{name}.mp3" for name in ("one", "two", "three")}
    paths = {name: await episode(ann, name) for name in urls}
    page = await press(ann, paths["one"], "play", urls["one"])
    assert page.tree.css_first("#listening [name=close]").text() == "Close the player"
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"close": "yes", "seconds": "71"})
    assert queue(await ann.get("/channel/home")) == []
    page = await press(ann, paths["two"], "play", urls["two"])
    assert queue(page) == ["two", "one"]
    await ann.change(page, "remove", urls["one"], BAR)
    await ann.change(page, "close", "yes", BAR)
    page = await press(ann, paths["one"], "play", urls["one"])
    assert (queue(page), page.tree.css_first("#listening audio").attributes["data-at"]) == (["one"], "0")
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"close": "yes", "seconds": "71"})
    page = await press(ann, paths["one"], "play", urls["one"])
    assert page.tree.css_first("#listening audio").attributes["data-at"] == "71"


async def test_times_in_an_episode_lead_to_their_moments(ann: ReadingVisitor) -> None:
    """In its file, where the text isn't a link or code; other figures, and times after its end, stay text."""
    times = "1:02 in (12:34), 1:02:03, 99:00 of 1:00:59; 1:2, 5:61, 7:1:2, 8:00 Uhr, 9:15 pm, 3:4:05:06, 10:10.5"
    html = f"<p>{times}</p><p><a href='/x'>2:00</a> <code>3:00</code> <b title='4:00'>5:00</b></p>"
    file = Enclosure("https://a.example/1.mp3?a=1&b=2#t=5", "audio/mpeg", duration=2 * 3600)
    entry = Entry(guid="1", url="https://a.example/1", content=Content(html, "x"), enclosure=(file,))
    path = f"/post/{await ann.publish_entry(entry)}"
    for place in (path, "/channel/home"):
        page = await ann.get("/channel/home")
        await ann.browser.post("/view", {**fields_of(page.form("/view")), "view": "full"})
        links = (await ann.get(place)).tree.css(".content [data-start]")
        found = {one.text(): one.attributes["href"] for one in links}
        seconds = {"1:02": 62, "12:34": 754, "1:02:03": 3723, "99:00": 5940, "1:00:59": 3659, "5:00": 300}
        assert found == {text: f"https://a.example/1.mp3?a=1&b=2#t={at}" for text, at in seconds.items()}
    short = replace(entry, guid="2", url="https://a.example/2", enclosure=(replace(file, duration=600),))
    page = await ann.get(f"/post/{await ann.publish_entry(short, NOON + 1)}")
    assert [one.text() for one in page.tree.css(".content [data-start]")] == ["1:02", "5:00"]


async def test_an_episode_that_has_ended_is_read(ann: ReadingVisitor) -> None:
    """Its post, not that of one which is skipped."""
    paths = {name: await episode(ann, name, at=NOON + at) for at, name in enumerate(("one", "two"))}
    for name, ended in (("one", {}), ("two", {"ended": "yes"})):
        url = f"https://a.example/{name}.mp3"
        page = await press(ann, paths[name], "play", url)
        await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"remove": url, **ended})
    assert await ann.titles("/channel/home") == ["one"]


async def test_a_closed_queue_is_opened_again(ann: ReadingVisitor) -> None:
    """From below the channels; an episode that is in the queue isn't added twice, and the page says so."""
    path, url = await episode(ann, "one"), "https://a.example/one.mp3"
    for said in ("Added to the queue.", "It is in the queue already."):
        assert (await press(ann, path, "add", url)).tree.css_first("#done [data-text]").text() == said
    page = await press(ann, await episode(ann, "two", at=NOON + 1), "play", "https://a.example/two.mp3")
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"close": "yes"})
    closed = await ann.get("/channel/home")
    assert closed.tree.css_first("#listening") is None
    assert closed.form(BAR).css_first("button").text() == "Queue of 2 episodes"
    await ann.browser.submit(closed, BAR, play="https://a.example/two.mp3")
    assert queue(await ann.get("/channel/home")) == ["two", "one"]


async def test_begun_episodes_make_room(ann: ReadingVisitor) -> None:
    """Players that were closed would otherwise fill the queue."""
    for number in range(MOST_EPISODES + 1):
        path, url = await episode(ann, f"e{number}", at=NOON + number), f"https://a.example/e{number}.mp3"
        page = await press(ann, path, "play", url)
        await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"close": "yes", "current": url, "seconds": "71"})
    shown = queue(await press(ann, path, "play", url))
    assert (len(shown), shown[0], "e0" in shown, "e1" in shown) == (MOST_EPISODES, "e20", False, True)


async def test_the_length_of_a_file_is_shown(ann: ReadingVisitor) -> None:
    """In seconds below a minute; in lines of a list as players show it, also of a video without any sound file."""
    for number, (seconds, said) in enumerate(
        {1: "1 second", 40: "40 seconds", 60: "1 minute", 61: "2 minutes"}.items()
    ):
        file = Enclosure(f"https://a.example/{number}.mp3", "audio/mpeg", duration=seconds)
        entry = Entry(guid=str(number), url=f"https://a.example/{number}", name="Short", enclosure=(file,))
        page = await ann.get(f"/post/{await ann.publish_entry(entry, NOON + number)}")
        assert page.tree.css_first(".files small").text() == said
    film = Enclosure("https://a.example/9.mp4", "video/mp4", duration=3723)
    await ann.publish_entry(Entry(guid="9", url="https://a.example/9", name="Film", enclosure=(film,)), NOON + 9)
    await ann.browser.post("/view", {**fields_of((await ann.get("/channel/home")).form("/view")), "view": "list"})
    lines = (await ann.get("/channel/home")).tree.css(".row .minutes")
    assert [one.text() for one in lines] == ["▶ 1:02:03", "♪ 1:01", "♪ 1:00", "♪ 0:40", "♪ 0:01"]


async def test_the_queue_is_bounded(ann: ReadingVisitor) -> None:
    """In episodes and bytes; long titles are cut, and files of other posts are refused."""
    for number in range(MOST_EPISODES):
        path = await episode(ann, f"e{number}", title="t" * 500, at=NOON + number)
        assert (await press(ann, path, "add", f"https://a.example/e{number}.mp3")).status == 200
    page = await ann.get("/channel/home")
    assert [len(title) for title in queue(page)] == [LONGEST_EPISODE] * MOST_EPISODES
    full = await press(ann, await episode(ann, "more", at=NOON + 50), "play", "https://a.example/more.mp3")
    assert (full.status, "finds no room in your queue" in full.text) == (400, True)
    await ann.change(page, "remove", "https://a.example/e0.mp3", BAR)
    url = "https://a.example/" + "a" * (MOST_OF_EPISODES - 2000)
    long = await press(ann, await episode(ann, "long", url, at=NOON + 60), "add", url)
    assert (long.status, "finds no room in your queue" in long.text) == (400, True)
    foreign = await press(ann, path, "play", "https://evil.example/x.mp3")
    assert foreign.status == 404


async def test_two_web_processes_change_the_queue(ann: ReadingVisitor) -> None:
    """Also if one adds an episode between what the other reads and writes: neither change is lost."""
    urls = {name: f"https://a.example/{name}.mp3" for name in ("one", "two")}
    paths = {name: await episode(ann, name) for name in urls}
    page = await press(ann, paths["one"], "play", urls["one"])

    async def elsewhere() -> None:
        await press(ann, paths["two"], "add", urls["two"])

    far = ann.server.through(Between(ann.server.redis, once("setting_revise", elsewhere)))
    browser = Visitor(far.app, ann.browser.address)
    browser.client.cookies.update(ann.browser.cookies)
    fields = fields_of(page.form(BAR)) | {"current": urls["one"], "seconds": "71"}
    assert (await browser.post(BAR, fields, accept="application/json")).status == 204
    page = await ann.get("/channel/home")
    assert queue(page) == ["one", "two"]
    assert page.tree.css_first("#listening audio").attributes["data-at"] == "71"


async def test_an_invalid_position_changes_nothing(ann: ReadingVisitor) -> None:
    """Nor does that of an episode that is no longer in the queue."""
    url = "https://a.example/one.mp3"
    page = await press(ann, await episode(ann, "one"), "play", url)
    for seconds in ("-1", "1.5", "²", "9" * 400, ""):
        await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"seconds": seconds})
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"seconds": "9", "current": "https://a.example/gone.mp3"})
    assert (await ann.get("/")).tree.css_first("#listening audio").attributes["data-at"] == "0"


async def test_a_position_replaces_the_one_in_an_address(ann: ReadingVisitor) -> None:
    """A feed's link may begin at a moment; an address with two positions would begin at none."""
    url = "https://a.example/one.mp3#t=5"
    path = await episode(ann, "one", url)
    page = await press(ann, path, "play", url)
    assert page.tree.css_first("#listening audio").attributes["src"] == url
    await ann.browser.post(BAR, fields_of(page.form(BAR)) | {"current": url, "seconds": "71"})
    page = await ann.get("/channel/home")
    assert page.tree.css_first("#listening audio").attributes["src"] == "https://a.example/one.mp3#t=71"
    gone = await ann.change(page, "remove", url, BAR)
    assert not (await ann.get(gone.location)).tree.css("#listening")


async def test_an_episode_of_a_list_plays_there(ann: ReadingVisitor) -> None:
    """By one button, in every view; the list's policy allows its file."""
    path = await episode(ann, "one")
    for view in ("list", "cards", "full"):
        page = await ann.get("/channel/home?show=all")
        await ann.browser.post("/view", {**fields_of(page.form("/view")), "view": view})
        page = await ann.get("/channel/home?show=all")
        assert "media-src 'self' https: http:" in page.response.headers["content-security-policy"]
        button = page.tree.css_first(".post .acts [data-act=play]").attributes["value"] or ""
        done = await ann.browser.post(f"{path}/listen", {**fields_of(page.form(f"{path}/listen")), "play": button})
        assert done.location == "/channel/home?show=all"
        page = await ann.get(done.location)
        assert queue(page) == ["one"]
        await ann.change(page, "clear", "yes", BAR)


async def test_an_episode_added_to_the_queue_is_confirmed(ann: ReadingVisitor) -> None:
    path = await episode(ann, "one")
    page = await press(ann, path, "add", "https://a.example/one.mp3")
    assert page.tree.css_first("#done p:not([hidden]) [data-text]").text() == "Added to the queue."
    assert not (await ann.get(path)).tree.css("#done p:not([hidden])")
