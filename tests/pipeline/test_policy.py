"""From settings to manners."""

from __future__ import annotations

from microsub.configuration.model import FeedPolicy, HostPolicy, InstanceSettings, Polling
from microsub.polling.policy import host_manners, poll_policy

SETTINGS = InstanceSettings(
    polling=Polling(min_interval=600, max_interval=7200, host_interval=2, host_concurrency=1),
    hosts={"own.test": HostPolicy(interval=0, concurrency=8), "half.test": HostPolicy(concurrency=2)},
    feeds={"HTTP://Demo.Test:80/feed": FeedPolicy(interval=5), "http://ttl.test/": FeedPolicy(ttl=60)},
)


def test_hosts() -> None:
    """What a host's own setting leaves open, the instance's says."""
    assert [
        (manners.interval, manners.concurrency)
        for manners in (host_manners(SETTINGS, host) for host in ("own.test", "half.test", "other.test"))
    ] == [(0, 8), (2, 2), (2, 1)]


def test_feeds() -> None:
    """A feed's own manners are found under any spelling of its address; bounds are the instance's."""
    assert poll_policy(SETTINGS, "http://demo.test/feed").fixed == 5
    assert poll_policy(SETTINGS, "http://demo.test/feed").ttl is None
    own = poll_policy(SETTINGS, "http://ttl.test/")
    assert (own.least, own.most, own.fixed, own.ttl) == (600, 7200, None, 60)
    plain = poll_policy(SETTINGS, "http://else.test/")
    assert (plain.least, plain.most, plain.fixed, plain.ttl, plain.cap) == (600, 7200, None, None, 2 * 86400)
