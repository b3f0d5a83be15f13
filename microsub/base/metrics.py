"""All counters, gauges and histograms of the server (docs/reference/metrics.md).

They are in the client library's own registry, which can add up several processes (`PROMETHEUS_MULTIPROC_DIR`). A
process that has started another one adds the other's metrics to its own (`added`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_others: list[Path] = []

POLLS = Counter("microsub_polls", "Polls of feeds by outcome", ["outcome"])
"""`outcome`: changed, unchanged, not_modified, moved (from a page to its feed), written (by programs
only: its address is no feed), a reason of `fetch.REASONS`, `parse`,
or `internal` for a bug.
"""

ITEMS_NEW = Counter("microsub_items_new", "Items stored for the first time")
ITEMS_UPDATED = Counter("microsub_items_updated", "Stored items that an edit changed")
ITEMS_DELIVERED = Counter("microsub_items_delivered", "Items put into timelines by delivery")

FETCH_SECONDS = Histogram(
    "microsub_fetch_seconds",
    "Time from the start of a fetch to the last byte or the failure",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30),
)
FEED_CACHE_ANSWERS = Counter(
    "microsub_feed_cache_answers",
    "Answers of the feed cache: without a request (fresh, paused, offline), from another caller's request (coalesced), "
    "or after a request (fetched; revalidated: 304; stale: it failed, so the copy was returned; failed)",
    ["answer"],
)
"""`answer`: see `cache.shared_copies.Answer`."""
PARSE_SECONDS = Histogram(
    "microsub_parse_seconds",
    "Time to parse one document, including the wait for a process",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
)
POLL_DELAY = Histogram(
    "microsub_poll_delay_seconds",
    "Time from when a feed was due to its poll",
    buckets=(0.5, 1, 5, 15, 60, 300, 1800, 7200, 86400),
)
HOSTS_IN_FLIGHT = Gauge(
    "microsub_hosts_in_flight", "Hosts to which this process has an open request", multiprocess_mode="livesum"
)
EVENT_STREAMS = Gauge("microsub_event_streams", "Open event streams of apps", multiprocess_mode="livesum")
REDIS = Gauge(
    "microsub_redis",
    "1 while Redis is in that state, otherwise 0: reachable (every server of it replies), writable (it accepts "
    "changes, and enough replicas confirm them), full (it refuses writes: its memory or disk is full, or it is "
    "read-only)",
    ["state"],
    multiprocess_mode="mostrecent",
)
WORKERS = Gauge(
    "microsub_workers",
    "Workers with a recent heartbeat; NaN while Redis can't be asked",
    multiprocess_mode="mostrecent",
)
FEEDS = Gauge(
    "microsub_feeds",
    "Followed feeds by state: ok, failing (the last poll failed), gone (410), new (not polled yet), "
    "written (by programs only)",
    ["state"],
    multiprocess_mode="mostrecent",
)
FOLLOWERS = Gauge("microsub_followers", "Followers of all feeds, added up", multiprocess_mode="mostrecent")
USERS = Gauge("microsub_users", "Users who aren't disabled", multiprocess_mode="mostrecent")

SEARCH_POSTS = Gauge(
    "microsub_search_posts", "Posts in this machine's index; 0 while it can't be read", multiprocess_mode="mostrecent"
)
SEARCH_BYTES = Gauge("microsub_search_bytes", "Size of this machine's index of posts", multiprocess_mode="mostrecent")
SEARCH_BEHIND = Gauge(
    "microsub_search_behind_seconds",
    "Age of the oldest change that is missing from this machine's index of posts",
    multiprocess_mode="mostrecent",
)

BACKEND_REFUSED = Gauge(
    "microsub_backend_refused",
    "1 while backend.json is invalid and the previous configuration stays active, otherwise 0",
    multiprocess_mode="max",
)

STAGE_MESSAGES = Counter("microsub_stage_messages", "Messages of the pipeline by stage and result", ["stage", "end"])
"""`end`: done, failed (retried), store (Redis failed; retried), or dead (moved to the dead letters)."""
STAGE_SECONDS = Histogram(
    "microsub_stage_seconds",
    "Time to handle one message of the pipeline",
    ["stage"],
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30),
)
STAGE_BACKLOG = Gauge(
    "microsub_stage_backlog",
    "Messages that are waiting in a stream of the pipeline",
    ["stage"],
    multiprocess_mode="mostrecent",
)
DEAD_LETTERS = Gauge(
    "microsub_dead_letters",
    "Messages whose attempts all failed, kept until an admin retries or drops them (`microsub deadletter`)",
    multiprocess_mode="mostrecent",
)

WEBSUB_REQUESTS = Counter(
    "microsub_websub_requests",
    "Requests to WebSub hubs by mode (subscribe, unsubscribe) and result: accepted, refused, or put_off (sent later)",
    ["mode", "end"],
)
WEBSUB_VERIFICATIONS = Counter(
    "microsub_websub_verifications",
    "Verification requests of hubs to callbacks: subscribed, unsubscribed, denied, or refused (nothing of the kind was "
    "requested)",
    ["end"],
)
WEBSUB_DELIVERIES = Counter(
    "microsub_websub_deliveries",
    "Deliveries of hubs by result: on arrival accepted, refused (gone, unsigned, coded, too_large, limited, full) or "
    "ignored (forged); then stored, unchanged (nothing new), repeated, unreadable, unfollowed or no_room (all "
    "followers have reached their quota)",
    ["end"],
)
WEBSUB_POSTS = Counter("microsub_websub_posts", "New posts delivered by hubs")
WEBSUB_MISSED = Counter("microsub_websub_missed", "New posts that a poll found before the feed's hub delivered them")
HUB_VERIFICATIONS = Counter(
    "microsub_hub_verifications",
    "Requests to our own hub by result: verified, unverified, ended, or denied (the topic has ended)",
    ["end"],
)
HUB_DELIVERIES = Counter(
    "microsub_hub_deliveries",
    "Deliveries of our own hub by result: delivered, failed (retried), given_up (until the topic changes again), or "
    "gone (the callback has ended the subscription)",
    ["end"],
)
DEVICE_MESSAGES = Counter(
    "microsub_device_messages",
    "Messages about new posts to devices by result: delivered, failed (retried), gone (the browser has unsubscribed), "
    "or given_up (the device is removed)",
    ["end"],
)
WEBSUB_FEEDS = Gauge(
    "microsub_websub_feeds",
    "Followed feeds that name a hub, by state: pushed, subscribed (the hub has yet to deliver, or was slower than a "
    "poll), or polled (there is no subscription)",
    ["state"],
    multiprocess_mode="mostrecent",
)

WEBMENTIONS = Counter(
    "microsub_webmentions",
    "Webmentions by result: on arrival accepted, limited, or blocked (dropped silently); then shown, held (for "
    "approval), deleted (the source is gone, or has no such link), put_off (the source can't be fetched now), failed",
    ["end"],
)

TOKEN_CHECKS = Counter(
    "microsub_token_checks",
    "Checks of tokens with users' own providers by outcome: after a request (valid; invalid; somebody_else; grace: it "
    "failed, so an earlier answer was used; unavailable: it failed), or without one (remembered: refused a moment ago; "
    "limited: too many unknown tokens)",
    ["outcome"],
)
"""Tokens that are remembered as valid aren't counted: they cost nothing."""

SIGN_INS = Counter(
    "microsub_sign_ins",
    "Sign-ins to the pages with the user's own provider by outcome: `begun`, `local` (the provider is this server), "
    "`arrived`, `unknown` (confirmed, but without an account), `failed`",
    ["outcome"],
)
LOCAL_SIGN_INS = Counter(
    "microsub_local_sign_ins",
    "Attempts to sign in or to confirm a sign-in on the server's own pages, by way (password, passkey) and outcome "
    "(right; wrong; paused: too many earlier attempts)",
    ["way", "outcome"],
)
GRANTS = Counter("microsub_grants", "What our own IndieAuth server granted to apps, refused or revoked", ["what"])
"""`what`: consent, denial, profile, tokens, renewal; again (the same within seconds); refused; misused (a code or
refresh token was used twice, so its grant was revoked); revoked.
"""

REGISTRATIONS = Counter("microsub_registrations", "Accounts that people created by signing in")

REQUESTS = Counter("microsub_requests", "Requests of readers by action and status", ["action", "status"])
REQUEST_SECONDS = Histogram(
    "microsub_request_seconds",
    "Time to answer a reader's request",
    ["action"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)


def exposition(published: Mapping[str, float]) -> tuple[bytes, str]:
    """All metrics of all processes in Prometheus' text format, and its Content-Type.

    `published` has the sums of the `counts` of processes elsewhere.
    """
    registry = CollectorRegistry()
    registry.register(_Sums(published))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def counts() -> dict[str, float]:
    """This process' samples of counters and histograms, by JSON of name and labels."""
    return {
        json.dumps([sample.name, sample.labels], sort_keys=True): sample.value
        for family in REGISTRY.collect()
        if family.name.startswith("microsub_") and family.type in {"counter", "histogram"}
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@contextlib.contextmanager
def added(folder: Path) -> Iterator[Path]:
    """Within the block, add the metrics that other processes write to a folder to ours.

    Yields `folder`, or the one that the environment names for all processes, which is added anyway.
    """
    if common := os.environ.get(FOLDER_VARIABLE):
        yield Path(common)
        return
    _others.append(folder)
    try:
        yield folder
    finally:
        _others.remove(folder)


def forget(pid: int, folder: Path) -> None:
    """Drop the gauges of a process that has ended; its counters in `folder` stay."""
    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


class _Sums(Collector):
    """Our own metrics, with those of other processes added by name and labels."""

    def __init__(self, published: Mapping[str, float]) -> None:
        self._published = published

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        found: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
        for metric in self._all():
            found.setdefault(metric.name, metric)
            sums = values.setdefault(metric.name, {})
            for sample in metric.samples:
                key = sample.name, frozenset(sample.labels.items())
                before = sums.get(key)
                sums[key] = sample if before is None else before._replace(value=before.value + sample.value)
        for text, value in self._published.items():
            name, labels = json.loads(text)
            for family in (one for one in found if name.startswith(f"{one}_")):
                key = name, frozenset(labels.items())
                before = values[family].get(key, Sample(name, labels, 0.0))
                values[family][key] = before._replace(value=before.value + value)
        for name, metric in found.items():
            total = Metric(metric.name, metric.documentation, metric.type)
            total.samples = list(values[name].values())
            yield total

    def _all(self) -> Iterator[Metric]:
        if common := os.environ.get(FOLDER_VARIABLE):
            yield from MultiProcessCollector(None, common).collect()  # type: ignore[no-untyped-call]
            return
        yield from REGISTRY.collect()
        for folder in _others:
            yield from MultiProcessCollector(None, str(folder)).collect()  # type: ignore[no-untyped-call]
