"""Costs, predictions and measurements as Markdown tables, which read well in a terminal too. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from benchmarks.report import aligned
from benchmarks.scale.costs import Costs, Work
from benchmarks.scale.filling import SYNCING
from benchmarks.scale.model import DAY, GIB, KINDS, Habits, Keeping, Machines, Prediction, Stock, limit, memory, predict
from benchmarks.scale.observing import Observed
from microsub.timelines.pages import NEWEST

USERS = (1, 1_000, 10_000, 100_000)
MEGABIT = 1e6 / 8
QUIET = tuple(replace(kind, share=kind.share / 0.87) for kind in KINDS if kind.posts < 10)
"""Publishers without the 13 % that post most often."""


def cost_tables(costs: Costs) -> str:
    """The table of unit costs."""
    held, poll, read = costs.memory, costs.polling, costs.reading
    bytes_rows = [
        ("of Redis' memory", "bytes"),
        ("a feed: record, address, schedule, first follower", f"{held.feed:,.0f}"),
        ("a post, without its JSON", f"{held.item:,.0f}"),
        ("the same, of a feed with more than 128 posts", f"{held.item_long:,.0f}"),
        ("a follow, both sides", f"{held.subscription:,.0f}"),
        ("an id in a set of more than 128", f"{held.id_long:,.0f}"),
        ("an id in a shorter one", f"{held.id_short:,.0f}"),
        ("an id that is unread, or has left a timeline", f"{held.id_number:,.1f}"),
        ("the time when a post was read", f"{held.id_read:,.1f}"),
        (
            "a post in a long timeline: unread, read",
            f"{held.id_long + held.id_number:,.0f}, {held.id_long + held.id_read:,.0f}",
        ),
        ("a channel", f"{held.channel:,.0f}"),
        ("a user with a token", f"{held.user:,.0f}"),
    ]
    works = [
        ("a poll: 304", poll.not_modified, poll.not_modified_bytes),
        ("a poll: 200, the same bytes", poll.unchanged, poll.head_bytes + Habits().document_bytes),
        ("a poll: 200, one post is new, one follower", poll.news, poll.head_bytes + Habits().document_bytes),
        ("each further new post: stored", poll.item, None),
        ("TLS, for each poll", poll.handshake, poll.handshake_bytes),
        ("one post for one more timeline", costs.delivery, None),
        ("a timeline page of 20 posts that the process knows", read.page, read.page_bytes),
        ("each post of it that it doesn't know", read.miss, None),
        ("the list of channels", read.channels, read.channels_bytes),
        ("mark a post as read", read.mark, read.mark_bytes),
        ("repair of all follows, per follow", costs.upkeep.repair, None),
        ("plan of retention, per channel", costs.upkeep.plan, None),
        ("a check of a due channel", costs.upkeep.clean, None),
        ("a sweep of the store, per post in a timeline", costs.upkeep.sweep, None),
        ("a check for stuck posts, per feed", costs.upkeep.remind, None),
    ]
    rows = [("of time and network", "our process, µs", "Redis, µs", "network, bytes")]
    for name, work, size in works:
        rows.append((name, _short(work.ours), _short(work.redis), "" if size is None else f"{size:,.0f}"))
    return f"{aligned(bytes_rows)}\n\n{aligned(rows)}"


def model_table(
    costs: Costs, habits: Habits, keeping: Keeping, machines: Machines, users: Sequence[int] = USERS
) -> str:
    """The table of the resources for that many users."""
    found = [predict(number, costs, habits, keeping, machines) for number in users]
    rows: list[tuple[str, Callable[[Prediction], str]]] = [
        ("distinct feeds", lambda one: f"{one.stock.feeds:,.0f}"),
        ("posts stored", lambda one: _many(one.stock.items)),
        ("ids in timelines and left from them", lambda one: _many(one.stock.ids)),
        *((f"Redis, MB: {name}", _part(name)) for name in found[0].memory),
        ("**Redis' memory**", lambda one: f"**{size_text(one.bytes)}**"),
        ("polls a day", lambda one: _many(one.day.polls)),
        ("deliveries a day", lambda one: _many(one.day.deliveries)),
        ("requests of readers a day", lambda one: _many(one.day.pages + one.day.lists + one.day.marks)),
        ("processor s a day: polling, storing", lambda one: _seconds(one.polling)),
        ("processor s a day: delivering", lambda one: _seconds(one.delivering)),
        ("processor s a day: reading", lambda one: _seconds(one.reading)),
        ("processor s a day: retention, follows", lambda one: _seconds(one.upkeep)),
        ("processor s a day: sweeping the store", lambda one: _seconds(one.sweep)),
        ("processor s a day: stuck posts, each worker", lambda one: _seconds(one.reminding)),
        ("busiest hour, one Redis: share of a processor", lambda one: f"{one.redis_share:.1%}"),
        ("busiest hour, publishers, Mbit/s", lambda one: _rate(one.publishers_bytes, habits)),
        ("busiest hour, readers, Mbit/s", lambda one: _rate(one.readers_bytes, habits)),
        ("**worker processes**", lambda one: f"**{_up(one.workers)}**"),
        ("**web processes**", lambda one: f"**{_up(one.web)}**"),
        (f"**Redis nodes** of {machines.node / GIB:.0f} GiB", lambda one: f"**{_up(one.nodes)}**"),
    ]
    head = ("users", *(f"{number:,}" for number in users))
    return aligned([head, *((name, *(tell(one) for one in found)) for name, tell in rows)])


def limits_table(costs: Costs, habits: Habits, keeping: Keeping, machines: Machines) -> str:
    """The number of users that each part can serve, the scarcest part first."""

    def at(number: float) -> Prediction:
        return predict(number, costs, habits, keeping, machines)

    parts: list[tuple[str, str, Callable[[float], bool]]] = [
        (
            f"memory of one Redis, {machines.node / GIB:.0f} GiB",
            "a bigger machine; keep less (`max_items`, `keep_unread_days`); a cluster",
            lambda number: at(number).bytes * machines.headroom <= machines.node,
        ),
        (
            "processor of one Redis",
            "a cluster",
            lambda number: at(number).redis_share <= machines.redis,
        ),
        (
            "one worker process: all it does",
            "another worker",
            lambda number: at(number).workers <= 1,
        ),
        (
            "one worker process: its upkeep alone, half of its time",
            "more workers: they share it, except for the check for stuck posts",
            lambda number: at(number).upkeep_share <= 0.5,
        ),
        ("one web process", "another web process", lambda number: at(number).web <= 1),
        (
            "100 Mbit/s to publishers",
            "another machine for workers",
            lambda number: at(number).publishers_bytes / DAY * habits.peak <= 100 * MEGABIT,
        ),
        (
            "1 Gbit/s to readers",
            "compression by the load balancer; another machine",
            lambda number: at(number).readers_bytes / DAY * habits.peak <= 1000 * MEGABIT,
        ),
    ]
    found = sorted(((limit(holds), name, remedy) for name, remedy, holds in parts), key=lambda one: one[0])
    rows = [f"| {name} | {_round(most):,} | {remedy} |" for most, name, remedy in found]
    return "\n".join(["| what is full | at about so many users | what to add |", "|---|--:|---|", *rows])


def levers_table(costs: Costs, habits: Habits, keeping: Keeping, machines: Machines) -> str:
    """The effect of shorter retention, or of other habits, on Redis' memory."""
    cases = [
        ("as above", habits, keeping),
        ("`max_items` 500 instead of 2,000", habits, replace(keeping, timeline=500)),
        ("`keep_unread_days` 30 instead of 180", habits, replace(keeping, unread_days=30)),
        ("`keep_unread_days` 14", habits, replace(keeping, unread_days=14)),
        ("`keep_per_feed` 50 instead of 300", habits, replace(keeping, per_feed=50)),
        ("all three: 500, 14, 50", habits, replace(keeping, timeline=500, unread_days=14, per_feed=50)),
        ("the first month of the server", replace(habits, age=30), keeping),
        ("30 feeds per reader instead of 100", replace(habits, feeds=30), keeping),
        ("everybody syncs with a native app", replace(habits, syncing=1.0), keeping),
        ("nobody follows news sites and lively feeds", replace(habits, kinds=QUIET), keeping),
    ]
    rows = [("Redis' memory", *(f"{number:,} users" for number in USERS[:3]), "users of one node")]
    for name, people, kept in cases:
        sizes = [predict(number, costs, people, kept, machines).bytes for number in USERS[:3]]

        def fits(number: float, people: Habits = people, kept: Keeping = kept) -> bool:
            return predict(number, costs, people, kept, machines).bytes * machines.headroom <= machines.node

        rows.append((name, *map(size_text, sizes), f"{_round(limit(fits)):,}"))
    return aligned(rows)


def check_table(found: Observed, costs: Costs) -> str:
    """The measurements of a large population, next to the prediction from the costs of a small one."""
    size, read = found.size, found.reading
    rows = [("", "measured", "model", "deviation")]

    def add(name: str, measured: float, predicted: float, tell: Callable[[float], str]) -> None:
        rows.append((name, tell(measured), tell(predicted), f"{measured / predicted - 1:+.0%}" if predicted else "–"))

    for name, measured, predicted in _memories(found, costs):
        add(f"memory, {name}", measured, predicted, size_text)
    cold = costs.reading.page + costs.reading.miss * read.misses
    delivered = [
        (f"a new post for {one.followers:,.0f} followers", one.work, _delivered(found, one.followers, costs))
        for one in (found.median, found.popular, found.most)
    ]
    works = [
        (f"a page, {read.misses:.1f} of 20 posts unknown", read.cold, cold),
        ("a page, all posts known", read.page, costs.reading.page),
        ("the list of channels", read.channels, costs.reading.channels),
        ("mark a post as read", read.mark, costs.reading.mark),
        *delivered,
    ]
    for name, spent, wanted in works:
        add(f"{name}: our process", spent.ours, wanted.ours, _micros)
        add(f"{name}: Redis", spent.redis, wanted.redis, _micros)
    for name, spent_at_all, each, number in (
        ("repair of all follows", found.upkeep.repair, costs.upkeep.repair, size.subscriptions),
        ("a plan of retention", found.upkeep.plan, costs.upkeep.plan, size.all_channels),
        ("a check of every channel", found.upkeep.clean, costs.upkeep.clean, size.all_channels),
        ("a sweep", found.upkeep.sweep, costs.upkeep.sweep, found.upkeep.ids),
        ("a check for stuck posts", found.upkeep.remind, costs.upkeep.remind, size.feeds),
    ):
        add(f"{name}: our process", spent_at_all.ours * 1e6, each.ours * number, _micros)
        add(f"{name}: Redis", spent_at_all.redis * 1e6, each.redis * number, _micros)
    return aligned(rows)


def check_line(found: Observed) -> str:
    """The loaded population, and the elapsed times."""
    size = found.size
    kept = found.upkeep
    return (
        f"{size.users:,} users with {size.per_user} of {size.feeds:,} feeds each, {size.items} posts per feed: "
        f"{size.subscriptions:,} follows, {size.subscriptions * size.items:,} places in timelines, loaded in "
        f"{found.fill_seconds:.0f} s. {found.engine} used {size_text(found.used)}, the system gave it "
        f"{size_text(found.resident)}. A new post reached {found.most.followers:,.0f} timelines "
        f"{found.most.seconds * 1000:,.0f} ms after it was found, and {found.median.followers:,.0f} after "
        f"{found.median.seconds * 1000:,.0f} ms, by the clock. Repair of all follows took "
        f"{kept.repair.seconds:,.0f} s, a check of every channel {kept.clean.seconds:,.0f} s, a sweep "
        f"{kept.sweep.seconds:,.0f} s."
    )


def stock_of(found: Observed) -> Stock:
    """A population in the terms of the model."""
    size = found.size
    channels = size.users * size.channels
    length = size.subscriptions * size.items / channels
    read = len(range(2, size.items, 3)) / size.items
    arrivals = (len(range(0, size.users, SYNCING)), size.channels * length)
    unread, seen = (channels, length * (1 - read)), (channels, length * read)
    items, of_feeds = float(size.feeds * size.items), (size.feeds, size.subscriptions)
    sets = ((channels, length), arrivals)
    stock = Stock(size.users, channels, *of_feeds, items, 0.0, found.json, sets)
    return replace(stock, numbers=(unread,), read=seen, newest=(channels, min(NEWEST, unread[1])))


def document(costs: Costs, found: Observed) -> dict[str, object]:
    """All figures, for programs; `predicted` has bytes of Redis by the number of users."""
    predicted = {str(users): {"bytes": sum(predict(users, costs).memory.values())} for users in USERS}
    return {"engine": found.engine, "predicted": predicted, "costs": document_of(costs), "observed": asdict(found)}


def document_of(costs: Costs) -> dict[str, object]:
    """The costs, for programs."""
    return asdict(costs)


def _memories(found: Observed, costs: Costs) -> list[tuple[str, float, float]]:
    predicted = memory(stock_of(found), replace(costs.memory, id_short=found.id_short, id_long=found.id_long))
    grown = found.memory
    names: dict[str, tuple[str, ...]] = {"posts": ("posts",), "timelines": ("timelines", "newest unread posts")}
    names |= {"follows": ("subscriptions",), "feeds": ("feeds",), "users and channels": ("users", "channels")}
    rows = [(name, sum(grown[step] for step in steps), predicted[name]) for name, steps in names.items()]
    return [*rows, ("all of it", sum(row[1] for row in rows), sum(row[2] for row in rows))]


def _delivered(found: Observed, followers: float, costs: Costs) -> Work:
    """The cost of one post: as measured for few followers, plus a delivery for each further one."""
    return found.few.work + costs.delivery * (followers - found.few.followers)


def _part(name: str) -> Callable[[Prediction], str]:
    return lambda one: f"{one.memory[name] / 1e6:,.1f}"


def size_text(size: float) -> str:
    """A number of bytes, for people."""
    for unit, least in (("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:,.2f} {unit}"
    return f"{size / 1e3:,.1f} KB"


def _micros(value: float) -> str:
    for unit, least in (("s", 1e6), ("ms", 1e4)):
        if value >= least:
            return f"{value / (1e3 if unit == 'ms' else 1e6):,.1f} {unit}"
    return f"{value:,.0f} µs"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _many(value: float) -> str:
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else f"{value:,.0f}"


def _seconds(work: Work) -> str:
    return f"{_few(work.ours)} + {_few(work.redis)}"


def _few(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:,.2f}"


def _rate(size: float, habits: Habits) -> str:
    rate = size / DAY * habits.peak / MEGABIT
    return f"{rate:,.1f}" if rate >= 1 else f"{rate:.3f}"


def _up(value: float) -> int:
    return -int(-value // 1)


def _round(value: float) -> int:
    """A number rounded to two digits."""
    digits = len(str(int(value)))
    return int(round(value, -(digits - 2))) if digits > 2 else int(value)
