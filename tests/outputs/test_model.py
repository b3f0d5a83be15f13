"""Any sequence of events of an output feed, against a model; and documents with any content."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from microsub.configuration.model import OutputConfig
from microsub.feeds import PostVersion
from microsub.formats.documents import FORMATS
from microsub.formats.documents.values import FeedDocument
from microsub.formats.parse import parse
from microsub.model.jf2 import Card, Content, Enclosure, Entry
from microsub.outputs import OutputFeeds
from microsub.outputs.store import HELD
from microsub.redis import keys
from tests.conftest import fake_redis
from tests.formats.test_documents import ADDRESSES, RULES
from tests.support import examples

MOST = 3
ITEMS = tuple("12345")
ACTIONS = ("add", "publish", "offer", "edit", "note", "remove", "drop")

_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ACTIONS), st.sampled_from(ITEMS)),
        st.tuples(st.just("reserve"), st.just("")),
        st.tuples(st.sampled_from(["shown", "begun", "broken"]), st.sampled_from("01234567")),
        st.tuples(st.just("wait"), st.sampled_from(["1", str(HELD + 1)])),
        st.tuples(st.just("reword"), st.sampled_from(ITEMS)),
    ),
    max_size=60,
)


@dataclass
class Model:
    """An output feed as defined in the glossary."""

    state: dict[str, str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    edition: dict[str, int] = field(default_factory=dict)
    published_hash: dict[str, str] = field(default_factory=dict)
    hash: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ITEMS, "0"))
    held: list[tuple[str, float, dict[str, int]]] = field(default_factory=list)
    editions: int = 0

    def publish(self, item: str) -> None:
        self.editions += 1
        self.state[item], self.count[item], self.edition[item] = "published", 0, self.editions
        self.published_hash[item] = self.hash[item]

    def act(self, action: str, item: str) -> None:
        inside = self.state.get(item) in {"published", "imported"}
        match action:
            case "add" if not inside:
                self.publish(item)
            case "publish":
                self.publish(item)
            case "offer" if item not in self.state:
                self.publish(item)
            case "edit" if inside and self.hash[item] != self.published_hash[item]:
                self.publish(item)
            case "remove" if inside:
                self.state[item] = "removed"
            case "note" if inside:
                self.published_hash[item] = self.hash[item]
            case "drop":
                self.state.pop(item, None)
                self.count.pop(item, None)

    def free(self, item: str, now: float) -> bool:
        sending = sum(until > now and shown.get(item) == self.edition[item] for _, until, shown in self.held)
        return self.state.get(item) == "published" and self.count[item] + sending < MOST

    def shown(self, now: float) -> set[str]:
        return {item for item in self.state if self.free(item, now)}

    def settle(self, place: int, now: float, shown: set[str], *, ends: bool) -> bool:
        """Count the items that are sent; whether the reservation was valid."""
        reservation, until, items = self.held[place]
        if until <= now or not items:
            return False
        for item in shown & items.keys():
            if self.state.get(item) == "published" and self.edition[item] == items[item]:
                self.count[item] += 1
                if self.count[item] == MOST:
                    self.state[item] = "imported"
        rest = {} if ends else {item: edition for item, edition in items.items() if item not in shown}
        self.held[place] = (reservation, until, rest)
        return True


async def _history(steps: list[tuple[str, str]]) -> None:
    redis, model, now = fake_redis(), Model(), 1_000.0
    await redis.command("HSET", keys.user("ann"), "me", "")
    store = OutputFeeds(redis)
    feed = await store.create("ann", "picks", OutputConfig(max_impressions=MOST), now)
    for step, value in steps:
        now += 0.01
        if step in ACTIONS:
            model.act(step, value)
            await store.edit(feed, step, {value: PostVersion(model.hash[value], "o")}, now)
        elif step == "reword":
            model.hash[value] = str(int(model.hash[value]) + 1)
        elif step == "wait":
            now += float(value)
        elif step == "reserve":
            reservation, reserved = await store.reserve(feed, await store.rows(feed, now), now)
            assert reserved == model.shown(now)
            model.held.append((reservation, now + HELD, {item: model.edition[item] for item in reserved}))
        elif int(value) < len(model.held) and model.held[int(value)][2]:
            reservation, _, items = model.held[int(value)]
            shown = {"shown": set(items), "begun": set(sorted(items)[:1]), "broken": set[str]()}[step]
            wanted = model.settle(int(value), now, shown, ends=step == "broken")
            assert await store.settle(feed, reservation, now, shown=shown) == wanted
            if shown:  # it counts once
                await store.settle(feed, reservation, now, shown=shown)
        assert {row.item for row in await store.rows(feed, now)} == model.shown(now)
        versions = {row.item: row.version for row in await store.rows(feed, now)} | await store.imported(feed, 100)
        assert {item: version.shown for item, version in versions.items()}.items() <= model.published_hash.items()
        listed = {item.id: (item.state, item.impressions) for item in await store.items(feed, 100)}
        assert listed == {item: (state, model.count[item]) for item, state in model.state.items()}
        assert all(count <= MOST for count in model.count.values())
    await redis.aclose()


@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(_steps)
def test_any_history_ends_as_the_model_does(steps: list[tuple[str, str]]) -> None:
    """Complete, broken and lost replies between edits of all kinds: shown items and counts match the model."""
    asyncio.run(_history(steps))


_text = st.text(max_size=30)
_urls = st.sampled_from(
    ["https://a.example/", "https://a.example/?a=1&b=2", "https://b.example/ü", "https://a.example/'\""]
)
_entries = st.builds(
    Entry,
    guid=st.uuids().map(lambda made: f"urn:uuid:{made}"),
    url=st.none() | _urls,
    name=st.none() | _text,
    summary=st.none() | _text,
    content=st.none() | st.builds(Content, html=_text, text=_text),
    published=st.none() | st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    author=st.none() | st.builds(Card, name=st.none() | _text, url=st.none() | _urls),
    category=st.lists(_text, max_size=2).map(tuple),
    enclosure=st.lists(
        st.builds(Enclosure, _urls, st.none() | st.sampled_from(["audio/mpeg", "a/b"]), st.none() | st.integers(0, 9)),
        max_size=3,
        unique_by=lambda one: one.url,
    ).map(tuple),
)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.lists(_entries, max_size=3), _text)
def test_documents_are_valid_for_any_post(entries: list[Entry], title: str) -> None:
    """Control characters, lone surrogates, markup and empty texts give well-formed documents with every entry."""
    identity = "urn:uuid:9f2c6f2e-6f0f-4c62-9d0c-000000000001"
    made = FeedDocument(identity, f"Picks {title}", ADDRESSES, datetime.now(UTC), entries)
    for form, rules in RULES.items():
        written = FORMATS[form].write(made)
        rules(written)
        if form != "html":
            assert len(parse(written, ADDRESSES[form], FORMATS[form].content_type).entries) == len(entries)
