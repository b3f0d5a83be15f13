"""Readers with timelines of a given length, written straight into the stores.

A shelf is one user with `CHANNELS` channels; one of them, `home`, has the wanted number of items, each of the others
`OTHER_ITEMS`. Every third item is read. All items have ids and scores; only the items on requested pages (the newest,
and some in the middle) have item hashes, because no request reads the others, and a million hashes would be 2 GB.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress

from benchmarks.readings import pieces
from microsub.accounts.foreign import ForeignTokens, Vouched
from microsub.accounts.store import Accounts, User
from microsub.feeds.record import Feeds
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Card, Content, Entry
from microsub.model.reader import Cursor
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import score_text
from microsub.timelines import Channels

HOME = "home"
CHANNELS = 50
OTHER_ITEMS = 200
PAGE = 20
REAL = 150
"""Consecutive items that have a hash, at the top and in the middle."""
SPACING = 60
"""Seconds between two items."""
ITEM_BYTES = 1_800
_LETTERS = "eeeeeetttttaaaaooooiiinnnsssrrrhhdllucmfywgpbvk"
MOST_MARKED = 100_000
CHUNK = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """A filled timeline: ids and score texts of `home` by position, 0 being the newest. `token` is one of this server,
    `foreign` one of the user's own provider with a cached successful check.
    """

    size: int
    user: str
    token: str
    foreign: str
    ids: tuple[str, ...]
    scores: tuple[str, ...]

    @property
    def middle(self) -> int:
        """The position of the first item in the middle that has a hash."""
        return self.size // 2

    def cursor(self, position: int) -> str:
        """The `after` of the page that begins behind the item at `position`."""
        return Cursor(self.scores[position], self.ids[position]).encode()

    def to_mark(self) -> list[str]:
        """Unread items that are on none of the requested pages."""
        asked = {*range(REAL), *range(self.middle, self.middle + REAL)}
        positions = (at for at in range(self.size) if not is_read(at) and at not in asked)
        return [self.ids[at] for at, _ in zip(positions, range(MOST_MARKED), strict=False)]


def is_read(position: int) -> bool:
    """Whether the item at this position is read initially."""
    return position % 3 == 0


def entry(number: int, published: float) -> Entry:
    """A generated post whose wire form has about `ITEM_BYTES`: an article with a picture and some categories."""
    chance = random.Random(number)
    words = ["margin", "kettle", "lathe", "harbour", "ladder", "orrery", "fog", "chard", "brass", "gauge"]
    # Packed as small as real posts: few words occur often, and many once.
    text = " ".join(chance.choice(words) if chance.random() < 0.2 else _word(chance) for _ in range(84))
    link = f"https://blog.example/posts/{number}"
    return Entry(
        post_type="article",
        guid=link,
        uid=link,
        url=link,
        name=f"Post number {number} about a {chance.choice(words)}",
        summary=text[:120],
        content=Content(html=f'<p>{text[:300]}</p><p><a href="{link}#more">{text[300:]}</a></p>', text=text),
        published=datetime.fromtimestamp(published, UTC),
        author=Card(name="Ida Venn", url="https://blog.example/", photo="https://blog.example/ida.png"),
        category=("roof garden", "weather", chance.choice(words)),
        photo=(f"https://blog.example/media/{number}.jpg",),
    )


def _word(chance: random.Random) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(chance.randint(4, 8)))


async def fill(redis: Redis, size: int, now: float) -> Shelf:
    """Create a user with a timeline of `size` items; `now` is the time of the newest, in Unix seconds."""
    user = f"reader{size}"
    accounts, channels, feeds, items = Accounts(redis), Channels(redis), Feeds(redis), Items(redis)
    await accounts.add_user(user, f"https://{user}.example/", now)
    token = await accounts.create_token(user, ["read", "follow"], "benchmarks", now)
    foreign = await _remembered(redis, User(user, f"https://{user}.example/"), now)
    feed = await feeds.ensure(f"https://{user}.example/feed", now)
    await channels.create(user, "Home", now, HOME)
    await channels.follow(user, HOME, feed.id, feed.url, now)

    newest = float(int(now))
    scores = [score_text(newest - at * SPACING) for at in range(size)]
    real = sorted({*range(min(REAL, size)), *range(size // 2, min(size // 2 + REAL, size))})
    first = await redis.command("INCRBY", keys.item_ids(), size) - size
    # Newer items have higher ids, as when feeds are polled.
    ids = [str(first + size - at) for at in range(size)]
    candidates = [
        ItemToStore(f"{user}/{at}", dump(to_wire(entry(at, newest - at * SPACING))), "-", newest - at * SPACING)
        for at in real
    ]
    stored = await PostWriter(redis).write(feed, candidates, now)
    await items.done(feed.id, [item.id for item in stored.new])
    for at, item in zip(real, stored.new, strict=True):
        ids[at] = item.id

    await _place(redis, user, HOME, ids, scores, now)
    for number in range(CHANNELS - 3):  # in addition to `home`, `notifications` and `saved`
        channel = await channels.create(user, f"Channel {number}", now)
        # Posts of its own: a mark of one that 48 channels have would change all of them.
        above = await redis.command("INCRBY", keys.item_ids(), OTHER_ITEMS) - OTHER_ITEMS
        own = [str(above + OTHER_ITEMS - at) for at in range(OTHER_ITEMS)]
        await _place(
            redis, user, channel.uid, own, [score_text(newest - at * SPACING) for at in range(OTHER_ITEMS)], now
        )
    return Shelf(size, user, token, foreign, tuple(ids), tuple(scores))


async def _remembered(redis: Redis, who: User, now: float) -> str:
    """A token of another provider, as if it had just been checked."""
    token = secrets.token_urlsafe(32)
    digest = hashlib.sha256(token.encode()).hexdigest()
    vouched = Vouched(frozenset({"read", "follow"}), "https://app.example/", now)
    kept = await ForeignTokens(redis).remember(who, digest, vouched, until=now + 86_400, grace=0)
    assert kept
    return token


async def _place(redis: Redis, user: str, uid: str, ids: Sequence[str], scores: Sequence[str], now: float) -> None:
    places = list(zip(scores, ids, range(len(ids)), strict=True))
    for begin in range(0, len(places), CHUNK * 4):
        await redis.pipeline(list(_placing(user, uid, places[begin : begin + CHUNK * 4])))
    read = pieces((int(item), now) for item in compress(ids, map(is_read, range(len(ids)))))
    await redis.pipeline([("HSET", keys.read(user, uid), at, piece) for at, piece in read.items()])


def _placing(user: str, uid: str, places: Sequence[tuple[str, str, int]]) -> Iterator[Command]:
    for begin in range(0, len(places), CHUNK):
        chunk = places[begin : begin + CHUNK]
        unread = [item for _, item, at in chunk if not is_read(at)]
        yield ("ZADD", keys.posts(user, uid), *(part for score, item, _ in chunk for part in (score, item)))
        if unread:
            yield ("SADD", keys.unread(user, uid), *unread)
