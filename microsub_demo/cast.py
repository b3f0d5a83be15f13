"""The demo's blogs: authors, times, formats and words; and their posts at an instant.

All people and places are invented here. A blog's `lines` are sentences with slots: `{thing}` is filled from
`words["thing"]`. Post `n` appears `n * every + offset` seconds after `BEGINNING`, and takes its sentences and fillings
from a generator seeded with the blog's name and `n`. So nothing is stored, and two processes agree. A blog with edits
shows revision `r` of a post once the post is `edits[r-1]` seconds old. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

Format = Literal["rss", "rss091", "rdf", "atom", "jsonfeed", "h-feed"]


@dataclass(frozen=True, slots=True)
class Blog:
    """One invented blog.

    `every` is the time between two posts in seconds, `offset` shifts it relative to other blogs. `kinds` are used in
    turn by post number. `edits` are ages in seconds at which a post is changed. `window` is how many posts the feed
    lists.
    """

    slug: str
    title: str
    author: str
    about: str
    format: Format
    every: int
    offset: int
    titles: tuple[str, ...]
    lines: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("article",)
    edits: tuple[int, ...] = ()
    encoding: str = "utf-8"
    language: str = "en"
    window: int = 20
    colours: tuple[str, str] = field(default=("#27445c", "#e9b44c"))


BLOGS: tuple[Blog, ...] = (
    Blog(
        slug="salt-and-ladders",
        title="Salt & Ladders",
        author="Ida Venn",
        about="Vegetables on a flat roof, nine metres above the tram.",
        format="rss",
        every=17,
        offset=0,
        titles=(
            "{crop} in box {number}",
            "What the {weather} left",
            "A ladder, {crop} & patience",
            "Roof diary, {weather}",
        ),
        lines=(
            "The {crop} on the north side came through the {weather} better than I did.",
            "I moved box {number} under the rail, because the tram shakes the {crop} awake at five.",
            "A neighbour asked what one does with that much {crop}; one learns to cook, I said.",
            "Note to myself: salt the steps *after* carrying the {crop} up, not before.",
            "Everything that I know of {crop} I learned by losing box {number} of it.",
        ),
        words={
            "crop": ("chard", "broad beans", "sorrel", "celeriac", "purple kale", "salsify", "lovage"),
            "weather": ("hail", "east wind", "long drizzle", "first frost", "heat"),
            "number": ("2", "3", "5", "8", "11", "14"),
        },
        tags=("roof garden", "beans & co.", "weather"),
        colours=("#3f6b3a", "#d9e4a8"),
    ),
    Blog(
        slug="slow-lathe",
        title="The Slow Lathe",
        author="Bertil Oake",
        about="Bowls, mostly. Some of them round.",
        format="rss091",
        every=43,
        offset=4,
        titles=("{wood}, turned {way}", "Bowl no. {number}", "The trouble with {wood}"),
        lines=(
            "Bowl no. {number} is {wood}, turned {way}, and finished with nothing but oil.",
            "{wood} wants a sharp gouge and a patient radio; today I had one of the two.",
            "A crack {way} is not a fault if you meant it, and by the evening I meant it.",
            "The shavings of {wood} smell of a school that I never went to.",
        ),
        words={
            "wood": ("Plum", "Elm", "Rowan", "Walnut", "Hornbeam", "Pear"),
            "way": ("wet", "against the grain", "in two sittings", "by ear", "far too thin"),
            "number": ("114", "115", "121", "130", "138", "140"),
        },
        window=15,
        colours=("#6d4327", "#e8c9a0"),
    ),
    Blog(
        slug="harbour-log",
        title="Harbour Log of Little Quay",
        author="The Harbour Office",
        about="Arrivals, departures and the height of the water.",
        format="rdf",
        every=29,
        offset=7,
        titles=("{boat} {move}", "High water {height} m", "{boat}: {cargo}"),
        lines=(
            "The {boat} {move} at high water, {height} m on the gauge, with {cargo}.",
            "Berth 3 stays closed while the {boat} is unloading {cargo}.",
            "The gauge read {height} m, and the harbour cat agreed.",
        ),
        words={
            "boat": ("Marguerite", "Second Wind", "Old Arithmetic", "Petrel", "Good Intention"),
            "move": ("came in", "left", "was turned round", "tied up"),
            "height": ("2.1", "2.4", "2.75", "3.0", "3.2"),
            "cargo": ("gravel", "eleven pianos", "seed potatoes", "a lighthouse lens", "nothing at all"),
        },
        tags=("arrivals", "water"),
        colours=("#1d4e6f", "#b7dbe8"),
    ),
    Blog(
        slug="orrery",
        title="Orrery Notes",
        author="Noor Aldemar",
        about="Building clockwork planets, one tooth at a time.",
        format="atom",
        every=23,
        offset=2,
        titles=("The wheel for {planet}", "{teeth} teeth", "Why {planet} is late", "<{planet}> & friends"),
        lines=(
            "The train for {planet} has {teeth} teeth now, one more than the drawing & one fewer than it needs.",
            "Seen from the bench {planet} runs backwards for eleven days, which is right: so does the real one.",
            "I filed {teeth} teeth today; {planet} moved by the width of a hair, but it moved < smoothly >.",
            "A visitor asked where the people are. Under {planet}, I said, filing.",
        ),
        words={
            "planet": ("Mercury", "Venus", "Mars", "Jupiter", "Saturn", "Neptune"),
            "teeth": ("47", "59", "83", "118", "191", "235"),
        },
        tags=("clockwork", "brass", "planets"),
        colours=("#2a2350", "#f2d388"),
    ),
    Blog(
        slug="kestrel-kettle",
        title="Kestrel & Kettle",
        author="Wim Tarrow",
        about="Birds seen from a kitchen window, with the tea that went cold meanwhile.",
        format="jsonfeed",
        every=19,
        offset=9,
        titles=("A {bird} at the {place}", "{tea}, unfinished", "Two minutes of {bird}"),
        lines=(
            "A {bird} sat on the {place} for exactly as long as a pot of {tea} needs.",
            "I wrote «{bird}» in the book, then crossed it out, then wrote it again.",
            "The {place} is theirs until seven; afterwards the pigeons hold a meeting.",
            "Cold {tea} is the price of a {bird}, and I would pay it twice.",
        ),
        words={
            "bird": ("kestrel", "wryneck", "siskin", "grey wagtail", "jackdaw", "goldcrest"),
            "place": ("gutter", "lamp post", "fig tree", "aerial", "garage roof"),
            "tea": ("assam", "nettle tea", "smoked tea", "oolong", "builder's tea"),
        },
        tags=("birds", "tea"),
        kinds=("article", "photo"),
        colours=("#5c6b73", "#f3e9d2"),
    ),
    Blog(
        slug="mo",
        title="Mo's Margin",
        author="Mo Ferrant",
        about="A site that posts everything that a site can post.",
        format="h-feed",
        every=11,
        offset=1,
        titles=("On {thing}, at length", "In praise of {thing}", "What {thing} taught me"),
        lines=(
            "Thinking about {thing} {when}.",
            "{thing} would be a good name for a boat, if one had a boat {when}.",
            "Somebody left {thing} on the night bus, and {when} it was still there.",
            "There are two sorts of {thing}, and I own both of the third sort.",
        ),
        words={
            "thing": ("a loose margin", "the small hours", "a borrowed umbrella", "rhubarb", "semicolons", "an atlas"),
            "when": ("again", "before breakfast", "on the way to the quay", "after the rain", "for no reason"),
        },
        tags=("notes", "indieweb", "margins"),
        kinds=("note", "photo", "reply", "like", "article", "bookmark", "checkin", "event", "rsvp"),
        window=27,
        colours=("#7a2e4d", "#f6c5af"),
    ),
    Blog(
        slug="nine-minutes-of-fog",
        title="Nine Minutes of Fog",
        author="Signe & Paul",
        about="A podcast that is recorded outdoors, whatever comes.",
        format="rss",
        every=61,
        offset=13,
        titles=("Episode from {spot}", "{sound}, near {spot}"),
        lines=(
            "Recorded at {spot}: first {sound}, then a long piece of nothing.",
            "If you listen for {sound}, wear headphones; {spot} is quieter than it looks.",
            "Paul forgot the microphone's hat, so you hear {sound} and the wind having an argument.",
        ),
        words={
            "spot": ("the eel weir", "platform 2", "the upper meadow", "Little Quay", "the old tannery"),
            "sound": ("a foghorn", "geese", "a gate that needs oil", "somebody's radio", "ice"),
        },
        tags=("Field recordings",),
        kinds=("episode",),
        window=10,
        colours=("#39424e", "#cfd8dc"),
    ),
    Blog(
        slug="second-thoughts",
        title="Second Thoughts",
        author="Ilse Amberg",
        about="A column whose author can't leave a text alone.",
        format="atom",
        every=37,
        offset=17,
        titles=("{subject} is overrated", "A plan for {subject}", "Against {subject}"),
        lines=(
            "Everybody praises {subject}; few have tried it {limit}.",
            "I propose to do without {subject} {limit}, and to see who notices.",
            "My sister defends {subject}, but only {limit}.",
        ),
        words={
            "subject": ("punctuality", "the open plan", "brunch", "small talk", "tidying", "the long weekend"),
            "limit": ("on a Tuesday", "for a month", "without telling anyone", "in company", "until spring"),
        },
        tags=("column",),
        edits=(15, 40, 90),
        colours=("#8c3b2e", "#f0e0c8"),
    ),
    Blog(
        slug="cafe-desuet",
        title="Café désuet",
        author="Hélène Marçais",
        about="Carnet d'un café où l'on note tout, même l'été.",
        format="rss",
        every=31,
        offset=21,
        titles=("{plat} du jour", "Un {client} à la table {numero}", "« {plat} », disait-il"),
        lines=(
            "Un {client} a commandé {plat}, puis s'est ravisé : trop salé, paraît-il.",
            "À la table {numero}, on a fêté un anniversaire sans gâteau mais avec {plat}.",
            "Le {client} a oublié sa clé ; elle dort derrière le comptoir, près du sucre.",
            "Il a plu dès l'aube, et {plat} a coûté 3 £ de moins : ça, c'était l'idée du {client}.",
        ),
        words={
            "plat": ("une crème brûlée", "le pâté en croûte", "un œuf à la coque", "la purée de céleri", "une gaufre"),
            "client": ("maçon", "évêque à la retraite", "élève pressé", "garçon coiffeur", "géomètre"),
            "numero": ("4", "7", "9", "12"),
        },
        tags=("café", "à table"),
        encoding="iso-8859-1",
        language="fr",
        colours=("#4b3832", "#e6ccb2"),
    ),
    Blog(
        slug="dry-watercolour",
        title="Сухая акварель",
        author="Варя Лунёва",
        about="Заметки о красках, бумаге и терпении.",
        format="rss",
        every=41,
        offset=26,
        titles=("{paint} и вода", "Лист номер {number}", "Ещё раз о бумаге: {paint}"),
        lines=(
            "Сегодня {paint} легла ровно, а лист номер {number} всё равно пошёл волной.",
            "Если долго ждать, {paint} высыхает светлее; если не ждать — не высыхает вовсе.",
            "Кошка прошла по листу {number}, и теперь там есть перспектива.",
            "Соседка спросила, почему {paint} такая грустная. Просто мало воды, ответила я.",
        ),
        words={
            "paint": ("охра", "умбра", "лазурь", "сепия", "киноварь"),
            "number": ("12", "17", "23", "31", "46"),
        },
        tags=("акварель", "бумага"),
        encoding="windows-1251",
        language="ru",
        colours=("#35536b", "#e3c7a6"),
    ),
)

BY_SLUG: Mapping[str, Blog] = {blog.slug: blog for blog in BLOGS}


SEED = 20
"""The default seed; another one gives other texts at the same times."""

BEGINNING = 1_767_225_600
"""The time of post 0 of every blog: 2026-01-01, in Unix seconds. Older posts have negative numbers."""

PLACES = (
    ("Little Quay", "54.3270", "-2.7460"),
    ("The Eel Weir", "54.3301", "-2.7522"),
    ("Tram Depot Café", "54.3255", "-2.7391"),
)

REPLIES = ("Agreed, and I'd go further.", "This made my morning.", "Is that so? I always did it the other way round.")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a checkin; coordinates in decimal degrees."""

    name: str
    latitude: str
    longitude: str


@dataclass(frozen=True, slots=True)
class InventedPost:
    """A post at an instant; `target`: the URL that it replies to, likes or bookmarks."""

    blog: Blog
    number: int
    kind: str
    published: datetime
    updated: datetime
    title: str | None
    paragraphs: tuple[str, ...]
    tags: tuple[str, ...]
    revision: int = 0
    place: Place | None = None
    starts: datetime | None = None
    ends: datetime | None = None
    target: tuple[Blog, int] | None = None

    @property
    def path(self) -> str:
        """The permalink's path."""
        return path_of(self.blog, self.number)

    @property
    def has_photo(self) -> bool:
        """Whether it has a picture."""
        return self.kind == "photo"


def path_of(blog: Blog, number: int) -> str:
    """The path of a post's permalink."""
    return f"/{blog.slug}/{number}"


def newest_number(blog: Blog, now: float) -> int:
    """The number of the newest post at `now` (Unix seconds)."""
    return int((now - BEGINNING - blog.offset) // blog.every)


def time_of(blog: Blog, number: int) -> int:
    """The time of a post's publication, in Unix seconds."""
    return BEGINNING + number * blog.every + blog.offset


def posts(blog: Blog, now: float, seed: int = SEED) -> tuple[InventedPost, ...]:
    """The posts that the blog's feed lists at `now` (Unix seconds), newest first."""
    newest = newest_number(blog, now)
    return tuple(post(blog, number, now, seed) for number in range(newest, newest - blog.window, -1))


def post(blog: Blog, number: int, now: float, seed: int = SEED) -> InventedPost:
    """One post at `now` (Unix seconds), which must not be before its publication."""
    chance = random.Random(f"{seed}/{blog.slug}/{number}")  # noqa: S311 - invented texts, no secret
    published = datetime.fromtimestamp(time_of(blog, number), UTC)
    due = [timedelta(seconds=age) for age in blog.edits if published.timestamp() + age <= now]
    kind = blog.kinds[number % len(blog.kinds)]
    paragraphs = _paragraphs(blog, kind, chance)
    title = _title(blog, kind, number, chance)
    for revision in range(1, len(due) + 1):
        paragraphs = (*paragraphs, f"Correction {revision}: {_fill(chance.choice(blog.lines), blog, chance)}")
    return InventedPost(
        blog=blog,
        number=number,
        kind=kind,
        published=published,
        updated=published + (due[-1] if due else timedelta()),
        title=f"{title} (revised {len(due)}×)" if title and due else title,
        paragraphs=paragraphs,
        tags=tuple(sorted(chance.sample(blog.tags, min(len(blog.tags), 2)))) if kind not in _TERSE else (),
        revision=len(due),
        place=Place(*chance.choice(PLACES)) if kind in {"checkin", "event"} else None,
        starts=published + timedelta(days=7) if kind == "event" else None,
        ends=published + timedelta(days=7, hours=2) if kind == "event" else None,
        target=_target(blog, kind, number, chance),
    )


_TERSE = frozenset({"like", "rsvp"})
_TITLED = frozenset({"article", "episode"})
_ANSWERS = frozenset({"reply", "like", "bookmark"})


def _fill(line: str, blog: Blog, chance: random.Random) -> str:
    filled = line.format(**{slot: chance.choice(words) for slot, words in blog.words.items()})
    return filled[0].upper() + filled[1:]


def _title(blog: Blog, kind: str, number: int, chance: random.Random) -> str | None:
    if kind == "event":
        return f"An evening of {chance.choice(blog.words['thing'])}, no. {number}"
    if kind in _TITLED or blog.format == "jsonfeed":
        return _fill(chance.choice(blog.titles), blog, chance)
    return None


def _paragraphs(blog: Blog, kind: str, chance: random.Random) -> tuple[str, ...]:
    if kind in _TERSE:
        return ()
    if kind == "reply":
        return (chance.choice(REPLIES),)
    wanted = 3 if kind in _TITLED else 1
    picked: Sequence[str] = chance.sample(blog.lines, min(wanted, len(blog.lines)))
    return tuple(_fill(line, blog, chance) for line in picked)


def _target(blog: Blog, kind: str, number: int, chance: random.Random) -> tuple[Blog, int] | None:
    if kind == "rsvp":
        return blog, number - 1
    if kind not in _ANSWERS:
        return None
    other = chance.choice([one for one in BLOGS if one is not blog])
    return other, newest_number(other, time_of(blog, number))
