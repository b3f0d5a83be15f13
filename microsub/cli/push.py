"""`microsub push`: pushed feeds and their hubs."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from microsub import hub, server, websub
from microsub.base.errors import NotFound
from microsub.base.plaintext import counted, escaped, on_one_line
from microsub.base.settings import Settings
from microsub.base.urls import host_of, mask_credentials
from microsub.cli.groups import Group
from microsub.cli.options import as_instant, as_push, json_flag, on_stores, print_json, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from microsub.feeds import FeedRecord, PushHealth
    from microsub.hub import CallbackHealth
    from microsub.server.stores import Stores

    _Feeds = Sequence[tuple[FeedRecord, PushHealth]]


@click.group(cls=Group)
def push() -> None:
    """Show pushed feeds and the state of their WebSub hubs."""


_TALLIES = {
    "asked": "asked",
    "verified": "verified",
    "unverified": "unverified",
    "refused": "refused",
    "denied": "denied",
    "ended": "ended",
    "delivered": "deliveries",
    "posts": "new posts",
    "forged": "wrong signatures",
    "missed": "posts that polls found first",
    "failed": "failures",
    "given_up": "given up",
    "gone": "gone",
}
"""The counts of a hub or a callback host, in display order, with their labels."""


@push.command("status")
@click.argument("feed", metavar="[FEED]", required=False)
@json_flag
@on_stores("base_url")
async def push_status(settings: Settings, stores: Stores, feed: str | None, as_json: bool) -> None:
    """Show which feeds are pushed or polled, and the state of hubs.

    Lists all followed feeds that name a hub, or the one at the URL FEED. If a feed is polled, the list says why. A feed
    is pushed if its hub has delivered, the lease hasn't expired, and polls don't find posts before the hub; it is then
    polled once a day. Callbacks are subscribers of this server's own hub, listed by host; failed deliveries are
    retried. No requests are sent: the command prints what is stored. Counts cover 90 days at most.

    \b
    Examples:
      microsub push status
      microsub push status https://blog.example/feed.xml --json
    """
    only = None if feed is None else await _followed(stores, feed)
    feeds, hubs = await websub.status_of(stores.feeds, websub.SubscriptionStore(stores.redis), time.time(), only)
    callbacks = await hub.hub_status(stores.redis, time.time()) if only is None else {}
    if as_json:
        print_json({**_as_json(feeds, hubs), "callbacks": {host: asdict(one) for host, one in callbacks.items()}})
        return
    if settings.base_url is None:
        say("MICROSUB_BASE_URL isn't set here; a server without it doesn't subscribe to hubs", err=True)
    for one, health in feeds:
        say(_feed_line(one.url, health))
    for host, counts in sorted(hubs.items()):
        say(_hub_line(host, _of_hub(feeds, host), counts))
    for host, callback in callbacks.items():
        say(_callbacks_line(host, callback))
    if not feeds:
        say("no followed feed names a hub", err=True)


@push.command("topic")
@click.argument("user")
@click.argument("channel")
@click.option("--renew", "action", flag_value="renew", help="Give it a new address; subscriptions end.")
@click.option("--revoke", "action", flag_value="revoke", help="Revoke its address; subscriptions end.")
@on_stores("base_url")
async def push_topic(settings: Settings, stores: Stores, user: str, channel: str, action: str | None) -> None:
    """Print the address at which programs subscribe to a channel.

    Anybody who has the address can read the channel's newest items. The first call creates it. The hub is at `/hub`.

    Example: microsub push topic alice home
    """
    await server.backend.require_user(settings, stores, user)
    if settings.base_url is None:
        raise NotFound(
            "MICROSUB_BASE_URL isn't set here; set it to the server's public URL: a server without it has no hub"
        )
    address = await hub.ChannelTopics(stores.redis, settings.base_url).address(user, channel, action or "create")
    say(address or f"the address of the topic '{channel}' is revoked", err=address is None)


async def _followed(stores: Stores, url: str) -> str:
    """The id of the feed at a URL. Raises NotFound if nobody follows it."""
    found = await stores.feeds.find(url)
    if found is None or not await stores.feeds.subscribers(found):
        raise NotFound(f"nobody follows {mask_credentials(url)}")
    return found


def _of_hub(feeds: _Feeds, host: str) -> list[PushHealth]:
    """The health of all the hub's feeds."""
    return [health for feed, health in feeds if host_of(feed.hub or "") == host]


def _as_json(feeds: _Feeds, hubs: Mapping[str, Mapping[str, int]]) -> dict[str, object]:
    listed = [
        {"id": feed.id, "url": mask_credentials(feed.url), "hub": mask_credentials(feed.hub or ""), **as_push(health)}
        for feed, health in feeds
    ]
    summed = {}
    for host, counts in hubs.items():
        of = _of_hub(feeds, host)
        summed[host] = {"feeds": len(of), "pushed": sum(one.pushed for one in of), "counts": dict(counts)}
    return {"feeds": listed, "hubs": summed}


def _feed_line(url: str, health: PushHealth) -> str:
    parts = ["pushed" if health.pushed else "polled", mask_credentials(url), on_one_line(health.why)]
    if health.lease_until is not None:
        parts.append(f"lease until {as_instant(health.lease_until)}")
    if health.last_delivery is not None:
        parts.append(f"last delivery {as_instant(health.last_delivery)}")
    if health.posts_pushed or health.posts_polled:
        parts.append(f"{counted(health.posts_pushed, 'post')} pushed, {health.posts_polled} polled")
    return escaped("  ".join(parts))


def _hub_line(host: str, feeds: list[PushHealth], counts: Mapping[str, int]) -> str:
    pushed = sum(one.pushed for one in feeds)
    return escaped(f"hub {host}: {counted(len(feeds), 'feed')}, {pushed} pushed{_tallies(counts)}")


def _callbacks_line(host: str, health: CallbackHealth) -> str:
    subscriptions = counted(health.subscriptions, "subscription")
    return escaped(f"callbacks {host}: {subscriptions}, {health.failing} failing{_tallies(health.counts)}")


def _tallies(counts: Mapping[str, int]) -> str:
    done = ", ".join(f"{words} {counts[name]}" for name, words in _TALLIES.items() if counts.get(name))
    return f"; {done}" if done else ""
