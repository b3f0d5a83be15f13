"""Sessions: secrets, renewal, expiry."""

from __future__ import annotations

import asyncio

import pytest

from microsub.accounts.sessions import SESSION_SECRET, Sessions, device
from microsub.accounts.store import Accounts
from microsub.base.errors import Unauthorized
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys

ME = "https://ann.example/"
NOW = 1_700_000_000.0
DAY = SESSION_SECRET


@pytest.fixture
async def sessions(redis: Redis) -> Sessions:
    """Sessions in a store with the user ann."""
    await Accounts(redis).add_user("ann", ME, NOW)
    return Sessions(redis)


async def begun(sessions: Sessions, now: float = NOW, **more: str) -> str:
    return await sessions.begin("ann", ME, "with ann.example", "Firefox/1 Linux", now, **more)


async def test_a_changed_cookie_is_invalid(sessions: Sessions) -> None:
    """Any change makes it invalid."""
    cookie = await begun(sessions)
    found = await sessions.find(cookie, NOW)
    assert found is not None
    assert (found.user, found.me, found.cookie) == ("ann", ME, None)
    for other in ["", "ann.", "ann", cookie[:-1], cookie + "x", cookie.replace("ann", "bob"), "ann.ü", "a" * 300]:
        assert await sessions.find(other, NOW) is None, other


async def test_unknown_and_disabled_users_get_no_session(sessions: Sessions, redis: Redis) -> None:
    """This is checked in the same step that writes the session."""
    with pytest.raises(Unauthorized):
        await sessions.begin("bob", "", "here", "", NOW)
    await Accounts(redis).disable_user("ann", NOW)
    with pytest.raises(Unauthorized):
        await begun(sessions)


class TestRenewal:
    """The first visit of a day gets a new secret."""

    async def test_requests_at_once_get_the_same_new_cookie(self, sessions: Sessions) -> None:
        """Whichever reply arrives last, the browser has a valid cookie."""
        old = await begun(sessions)
        found = await asyncio.gather(*(sessions.find(old, NOW + DAY) for _ in range(5)))
        cookies = {one.cookie for one in found if one is not None}
        assert len(found) == 5
        assert len(cookies) == 1
        assert await sessions.find(cookies.pop() or "", NOW + DAY) is not None

    async def test_a_lost_reply_does_no_harm(self, sessions: Sessions) -> None:
        """The old cookie is valid until the new one has been used, and leads to the same new one."""
        old = await begun(sessions)
        first = await sessions.find(old, NOW + DAY)
        again = await sessions.find(old, NOW + DAY + 3600)
        assert first is not None
        assert again is not None
        assert first.cookie == again.cookie != old
        assert first.id == again.id

    async def test_the_old_cookie_ends_once_the_new_one_was_seen(self, sessions: Sessions, redis: Redis) -> None:
        """It ends within a minute, to allow for requests in progress."""
        old = await begun(sessions)
        first = await sessions.find(old, NOW + DAY)
        assert first is not None
        await sessions.find(first.cookie or "", NOW + DAY + 1)
        lives = [await redis.command("TTL", key) for key in await all_keys(redis) if b":session:" in key]
        assert sorted(lives)[0] <= 60
        assert sorted(lives)[1] > 29 * DAY

    async def test_a_session_is_listed_once_and_ended_whole(self, sessions: Sessions) -> None:
        """This includes its old and its new secret."""
        old = await begun(sessions)
        first = await sessions.find(old, NOW + DAY)
        assert first is not None
        assert [one.id for one in await sessions.all("ann")] == [first.id]
        assert await sessions.end("ann", first.id)
        assert await sessions.find(old, NOW + DAY) is None
        assert await sessions.find(first.cookie or "", NOW + DAY) is None
        assert not await sessions.end("ann", first.id)


async def test_visits_extend_a_session(sessions: Sessions, redis: Redis) -> None:
    """It ends 30 days after the last visit; the list expires at the same time."""
    cookie = await begun(sessions)
    names = [key for key in await all_keys(redis) if b":session" in key]
    for name in names:
        await redis.command("EXPIRE", name, 100)
    await sessions.find(cookie, NOW + 10)
    assert [await redis.command("TTL", name) <= 100 for name in names] == [True, True]
    await sessions.find(cookie, NOW + 400)
    assert [await redis.command("TTL", name) > 100 for name in names] == [True, True]


async def test_an_ended_session_is_not_written_again(sessions: Sessions, redis: Redis) -> None:
    """A request in progress can't restore it."""
    cookie = await begun(sessions)
    ((digest, _),) = await sessions._all("ann")
    await sessions.end_all("ann")
    await sessions._touch("ann", digest, NOW)
    assert not await sessions._renew("ann", digest, "0" * 64, NOW)
    assert await sessions.find(cookie, NOW) is None
    assert await redis.command("EXISTS", keys.session("ann", digest)) == 0


async def test_old_sessions_make_room(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of sessions per user is limited."""
    monkeypatch.setattr("microsub.accounts.sessions.MOST", 3)
    cookies = [await begun(sessions, NOW + n) for n in range(5)]
    assert [await sessions.find(cookie, NOW + 9) is not None for cookie in cookies] == [False, False, True, True, True]


async def test_ending_all_ends_what_is_renewed_meanwhile(sessions: Sessions, redis: Redis) -> None:
    """In any order, no secret is valid afterwards."""
    for _ in range(10):
        old = await begun(sessions)
        found, *_ = await asyncio.gather(
            sessions.find(old, NOW + DAY), sessions.end_all("ann"), sessions.find(old, NOW + DAY)
        )
        for cookie in (old, (found.cookie or "") if found else ""):
            assert await sessions.find(cookie, NOW + DAY) is None
        assert await sessions.all("ann") == []


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/142 Safari/537.36 Edg/142.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 15) AppleWebKit Chrome/142 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19 like Mac OS X) Version/19 Safari/604.1", "Safari on iPhone"),
        ("curl/8.0", "a browser"),
        ("", "a browser"),
    ],
)
def test_a_browser_in_a_few_words(agent: str, words: str) -> None:
    """The words are enough to recognise a browser in a list, and nothing else is stored."""
    assert device(agent) == words
