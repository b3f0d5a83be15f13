"""Quotas and rate limits of a user, as in replies to apps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from microsub.accounts.quotas import RequestRate, UserQuotas, resolved
from microsub.configuration.effective import AllSettings
from microsub.configuration.model import InstanceSettings, Quotas, Registration, UserSettings
from microsub.redis.attempts import AttemptCounts
from microsub.timelines.follow import NEW_FOLLOWS
from tests.support.readers import Reader
from tests.support.world import World

FEED = "https://f{}.example/feed"


def allow(server: World, **quotas: int) -> None:
    """Sets these limits for all users."""
    server.settings = InstanceSettings(quotas=Quotas(**quotas))


def test_own_quotas_precede_those_of_the_kind() -> None:
    """The user's own, otherwise the kind's: by default a limit of rules for all, and others for registered users."""
    instance = InstanceSettings(quotas=Quotas(feeds=7), registration=Registration(quotas=Quotas(feeds=3, requests=0)))
    everywhere = AllSettings(
        instance,
        {"ann": UserSettings(quotas=Quotas(channels=1)), "bob": UserSettings(quotas=Quotas(feeds=0))},
    )
    assert resolved(everywhere, "ann", registered=False) == Quotas(1, 7, 0, 0, 1000, 0, 0, 1000, 0, 200_000_000, 0)
    assert resolved(everywhere, "bob", registered=True) == Quotas(
        50, 0, 50, 0, 1000, 10_000, 20, 1000, 20, 20_000_000, 300_000_000
    )
    assert resolved(AllSettings(), "ann", registered=False) == Quotas(0, 0, 0, 0, 1000, 0, 0, 1000, 0, 200_000_000, 0)
    assert resolved(AllSettings(), "ann", registered=True) == Quotas(
        50, 500, 50, 600, 1000, 10_000, 20, 1000, 20, 20_000_000, 300_000_000
    )


async def test_channels(server: World, alice: Reader) -> None:
    """The error names limit and count; an existing name isn't a new channel, and a deletion makes room."""
    allow(server, channels=3)
    await alice.post(action="channels", name="Third")
    reply = await alice.post(403, action="channels", name="Fourth")
    assert reply["error"] == "forbidden"
    assert "the limit for channels is reached: 3 of 3" in reply["error_description"]
    assert (await alice.post(action="channels", name="Third"))["name"] == "Third"
    await alice.post(action="channels", method="delete", channel="later")
    await alice.post(action="channels", name="Fourth")


async def test_feeds(server: World, alice: Reader) -> None:
    """In all channels together; a feed that is followed already, or moved, doesn't count again."""
    allow(server, feeds=2)
    await alice.post(action="follow", channel="home", url=FEED.format(1))
    await alice.post(action="follow", channel="later", url=FEED.format(2))
    reply = await alice.post(403, action="follow", channel="home", url=FEED.format(3))
    assert (reply["error"], "feeds" in reply["error_description"]) == ("forbidden", True)
    assert await server.feeds.find(FEED.format(3)) is None, "nobody follows it, so there is no record of it"
    await alice.post(action="follow", channel="home", url=FEED.format(1))
    await alice.post(action="follow", method="update", channel="later", url=FEED.format(1))
    await alice.post(action="unfollow", channel="later", url=FEED.format(1))
    await alice.post(action="follow", channel="home", url=FEED.format(3))


async def test_new_follows_a_day_are_limited_without_a_quota(server: World, alice: Reader) -> None:
    """10,000 new feeds in a day for all users. Existing follows may be repeated; the admin isn't limited.

    Each leaves 5 KB for thirty days. Before: 600 requests per minute left 4 GiB per day. Now: 10,000 leave 50 MB.
    """
    assert NEW_FOLLOWS.most == 10_000
    await server.channels.followed_on("alice", server.now, NEW_FOLLOWS.most - 5)
    for number in range(5):
        await alice.post(action="follow", channel="home", url=FEED.format(number))
        await alice.post(action="unfollow", channel="home", url=FEED.format(number))
    await server.parts.following.follow("alice", "home", FEED.format(50), server.now)
    reply = await alice.post(403, action="follow", channel="home", url=FEED.format(99))
    assert "new follows in a day is reached: 10000 of 10000" in reply["error_description"]
    assert await server.feeds.find(FEED.format(99)) is None, "it leaves no record"
    await alice.post(action="follow", channel="home", url=FEED.format(50))
    server.now += 86_400
    await alice.post(action="follow", channel="home", url=FEED.format(99))


async def test_new_follows_a_day_are_limited_by_the_quota(server: World, alice: Reader) -> None:
    """Three times the quota of feeds may be begun in a day; existing follows may be repeated."""
    allow(server, feeds=5)
    for number in range(15):
        await alice.post(action="follow", channel="home", url=FEED.format(number))
        await alice.post(action="unfollow", channel="home", url=FEED.format(number))
    reply = await alice.post(403, action="follow", channel="home", url=FEED.format(99))
    assert "new follows in a day is reached: 15 of 15" in reply["error_description"]
    assert await server.feeds.find(FEED.format(99)) is None, "it leaves no record"
    server.now += 86_400
    await alice.post(action="follow", channel="home", url=FEED.format(99))


async def test_rules(server: World, alice: Reader, bob: Reader) -> None:
    """Mutes and blocks of all channels together; a repeated rule doesn't count again, and a removal makes room."""
    allow(server, rules=3)
    await alice.post(action="mute", url=FEED.format(1))
    await alice.post(action="mute", channel="home", url=FEED.format(1))
    await alice.post(action="block", channel="later", url=FEED.format(2))
    for action, channel in (("mute", "home"), ("block", "global")):
        reply = await alice.post(403, action=action, channel=channel, url=FEED.format(3))
        assert reply["error"] == "forbidden"
        assert "mutes and blocks is reached: 3 of 3" in reply["error_description"]
    await alice.post(action="block", channel="later", url=FEED.format(2))
    await bob.post(action="mute", url=FEED.format(1))
    await alice.post(action="unmute", channel="home", url=FEED.format(1))
    await alice.post(action="block", url=FEED.format(3))


async def test_the_admin_isnt_limited(server: World, alice: Reader) -> None:
    """Changes by backend.json, an import or a command are made."""
    allow(server, channels=1, feeds=1, tokens=1)
    await server.channels.create("alice", "More", server.now)
    await server.parts.following.follow("alice", "home", FEED.format(1), server.now)
    await server.parts.following.follow("alice", "home", FEED.format(2), server.now)
    await server.accounts.create_token("alice", ["read"], "tests", server.now)
    await alice.get(action="channels")


@pytest.mark.parametrize("what", ["channels", "feeds", "rules"])
async def test_limits_hold_for_many_at_once(server: World, alice: Reader, what: str) -> None:
    """Exactly as many are accepted as there was room for."""
    allow(server, **{what: 5})

    async def try_one(number: int) -> int:
        body: dict[str, Any] = {"action": "channels", "name": f"N {number}"}
        if what == "feeds":
            body = {"action": "follow", "channel": "home", "url": FEED.format(number)}
        if what == "rules":
            body = {"action": "mute", "url": FEED.format(number)}
        response = await server.client.post("/microsub", data=body, headers=alice.headers)
        return response.status_code

    statuses = await asyncio.gather(*(try_one(number) for number in range(20)))
    room = 3 if what == "channels" else 5  # two channels were there
    assert sorted(statuses) == [200] * room + [403] * (20 - room)


async def test_requests(server: World, alice: Reader, bob: Reader) -> None:
    """429 with the seconds to wait, for all requests of a valid token; other users aren't affected."""
    allow(server, requests=10)
    server.now -= server.now % 60
    for _ in range(5):
        await alice.get(action="channels")
        await alice.post(400, action="timeline", method="mark_read")
    for ask in (alice.get(429, action="channels"), alice.post(429, action="channels", name="New")):
        assert (await ask)["error"] == "too_many_requests"
    response = await server.client.get("/microsub", params={"action": "channels"}, headers=alice.headers)
    assert response.headers["retry-after"] == "60"
    assert (await server.client.get("/microsub/alice", params={"action": "channels"})).status_code == 401
    wrong = {"Authorization": "Bearer alice.wrong"}
    stranger = await server.client.get("/microsub/alice", params={"action": "channels"}, headers=wrong)
    assert stranger.status_code == 401, "only who may ask learns of the limit"
    await bob.get(action="channels")
    server.now += 60
    await alice.get(action="channels")


@pytest.mark.parametrize(("multipart", "fit"), [(False, 17), (True, 2)])
async def test_large_bodies_have_a_share(server: World, alice: Reader, bob: Reader, multipart: bool, fit: int) -> None:
    """Parsing one keeps the processor busy; small requests and other users aren't affected."""
    pad = "x" * 980_000

    async def send(reader: Reader) -> int:
        fields = {"action": "channels", "name": "New", "pad": pad}
        body: dict[str, Any] = {"files": {name: (None, value) for name, value in fields.items()}}
        more = body if multipart else {"data": fields}
        return (await server.client.post("/microsub", headers=reader.headers, **more)).status_code

    assert [await send(alice) for _ in range(fit + 1)] == [*[200] * fit, 429]
    await alice.post(action="channels", name="Newer")
    assert await send(bob) == 200


async def test_strangers_use_up_no_quota(server: World, alice: Reader) -> None:
    """Requests without a valid token count for no user."""
    allow(server, requests=3)
    wrong = {"Authorization": "Bearer alice.wrong"}
    for _ in range(20):
        await server.client.get("/microsub/alice", params={"action": "channels"}, headers=wrong)
    for _ in range(3):
        await alice.get(action="channels")
    await alice.get(429, action="channels")


async def test_the_store_is_read_once_for_unlimited_users(server: World, alice: Reader) -> None:
    """Once per minute at most."""

    class Everything:
        async def everything(self) -> AllSettings:
            return AllSettings()

    class Asked:
        times = 0

        async def is_registered(self, name: str) -> bool:
            self.times += 1
            return await server.accounts.is_registered(name)

    asked, now = Asked(), [0.0]
    quotas = UserQuotas(Everything(), asked, RequestRate(AttemptCounts(server.redis)), lambda: now[0])
    for second in range(120):
        now[0] = float(second)
        await quotas.count(alice.name, server.now + second)
    assert asked.times == 2
