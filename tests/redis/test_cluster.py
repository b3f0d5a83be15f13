"""A Redis Cluster whose layout changes: which commands are repeated, on which node, and which aren't."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from redis.exceptions import ResponseError

from microsub.admin.health import Health
from microsub.base.errors import ConfigError, StoreError, StoreIncomplete, StoreSilent, StoreUnavailable, StoreUnreached
from microsub.posts.items import Items
from microsub.redis import keys
from microsub.redis.cluster import ClusterRedis, look_up, slot_of
from microsub.redis.connect import connect, doubts
from microsub.redis.multiplexer import Acknowledged, Multiplexed
from microsub.redis.presence import Presence
from microsub.redis.protocol import Script
from microsub.redis.tracking import Tracker
from microsub.timelines.item_cache import ItemCache
from tests.support.cluster import Cluster, FakeCluster, Node, running_cluster
from tests.support.waiting import wait_until

GET = Script("get", "return redis.call('GET', KEYS[1])")
SET = Script("set", "return redis.call('SET', KEYS[1], ARGV[1])")
OK = b"+OK\r\n"


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters with one replica each, without automatic failover."""
    with running_cluster(tmp_path_factory.mktemp("replicated"), replicas=1) as cluster:
        yield cluster


@pytest.fixture
async def redis(replicated: Cluster) -> AsyncIterator[ClusterRedis]:
    replicated.empty()
    connection = ClusterRedis(replicated.url, look_every=0.05)
    yield connection
    await connection.aclose()


# --- slots that move ---------------------------------------------------------------------------------------------


def set_slot(nodes: Sequence[Node], slot: int, *state: str) -> None:
    for node in nodes:
        with node.client() as client:
            client.execute_command("CLUSTER SETSLOT", slot, *state)


async def test_a_slot_that_moves_is_followed(redis: ClusterRedis, replicated: Cluster) -> None:
    """Single calls and batches work, reading and writing, before, during (ASK) and after the move (MOVED)."""
    key, other = "{moving}a", "{moving}b"
    old = replicated.first_master_of(key)
    new = next(node for node in replicated.nodes[:3] if node is not old)
    slot = slot_of(key)
    await redis.command("SET", key, "1")

    async def works(value: str) -> None:
        assert await redis.command("SET", key, value) == b"OK"
        assert await redis.script((GET, [key], [])) == value.encode()
        assert await redis.script((SET, [other], [value])) == b"OK"
        assert await redis.pipeline([("GET", key), ("SET", "elsewhere", value), ("GET", other)]) == [
            *(value.encode(), b"OK", value.encode())
        ]
        calls = [(GET, [key], []), (SET, ["{elsewhere}", "{elsewhere}"], [value]), (SET, [other], [value])]
        assert await redis.scripts(calls) == [value.encode(), b"OK", b"OK"]

    await works("before")
    set_slot([new], slot, "IMPORTING", old.id)
    set_slot([old], slot, "MIGRATING", new.id)
    with old.client() as client:
        client.execute_command("MIGRATE", "127.0.0.1", new.port, "", 0, 5000, "KEYS", key, other)
    try:
        await works("moved, but nobody knows")
    finally:
        set_slot([new, old], slot, "NODE", new.id)
    await works("moved")
    set_slot([old], slot, "IMPORTING", new.id)
    set_slot([new], slot, "MIGRATING", old.id)
    with new.client() as client:
        client.execute_command("MIGRATE", "127.0.0.1", old.port, "", 0, 5000, "KEYS", key, other)
    set_slot([old, new], slot, "NODE", old.id)
    await works("back")


async def test_our_own_bugs_are_raised(redis: ClusterRedis) -> None:
    """A command with keys of two slots, and a wrong type, raise Redis' error; the rest of the batch has run."""
    with pytest.raises(ResponseError, match="same slot"):
        await redis.command("DEL", "a", "b")
    with pytest.raises(ResponseError, match="not an integer"):
        await redis.pipeline([("SET", "text", "x"), ("INCR", "text"), ("SET", "c", "y")])
    assert await redis.command("GET", "c") == b"y"
    assert await redis.pipeline([]) == await redis.scripts([]) == []


async def test_scans_and_checks_cover_all_masters(redis: ClusterRedis) -> None:
    """A scan returns each key once, whichever master has it, and a warning about one master is reported."""
    names = [f"k{number}".encode() for number in range(300)]
    await redis.pipeline([("SET", name, 1) for name in names])
    found = [name async for batch in redis.scan(50) for name in batch]
    assert sorted(found) == sorted(names)
    assert len(await redis.masters()) == 3
    assert await doubts(redis) == [
        "Redis may lose the latest writes when it stops: set its appendonly to yes",
        "Redis needs twice the memory for posts: its hash-max-ziplist-value is 64, set it to 4096",
        "Redis needs ten times the memory for the ids of posts that have left timelines after its next start: its "
        "set-max-intset-entries was 512, set it to 100000 in its configuration",
    ]


# --- replicas ------------------------------------------------------------------------------------------------------


async def test_a_write_that_no_replica_has_is_not_acknowledged(redis: ClusterRedis, replicated: Cluster) -> None:
    """Reads, and writes on other masters, continue. Writes on this one succeed again once the replica responds."""
    master = replicated.first_master_of("key")
    replica = replicated.replica_of(master).process
    assert replica is not None
    await redis.command("SET", "key", "1")
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="only 0 of 1 replicas"):
            await redis.script((SET, ["key"], ["2"]))
        assert await redis.command("GET", "key") == b"2"
        elsewhere = next(name for name in "abcdef" if replicated.first_master_of(name) is not master)
        assert await redis.command("SET", elsewhere, "2") == b"OK"
    finally:
        os.kill(replica.pid, signal.SIGCONT)

    async def written() -> bool:
        try:
            return bool(await redis.command("SET", "key", "3"))
        except StoreUnavailable:
            return False

    await wait_until(written)


async def test_replicas_are_optional_unless_required(redis: ClusterRedis, replicated: Cluster) -> None:
    """By default a replica that is down isn't waited for; a fixed number of replicas can be required."""
    master = replicated.first_master_of("key")
    replica = replicated.replica_of(master)
    await redis.command("SET", "key", "1")
    replica.stop(signal.SIGKILL)
    strict = Acknowledged(f"redis://127.0.0.1:{master.port}", 1)
    try:
        assert await redis.command("SET", "key", "2") == b"OK"
        assert await redis.scripts([(SET, ["key"], ["3"])]) == [b"OK"]
        with pytest.raises(StoreUnavailable, match="only 0 of 1 replicas"):
            await strict.command("SET", "key", "4")
        assert await strict.pipeline([("GET", "key")]) == [b"4"]
        with pytest.raises(ResponseError):  # nothing was written, so no replica is waited for
            await strict.command("INCR", "key", "x")
    finally:
        await strict.aclose()
        replica.start()
        replicated.wait()

    def waits() -> int:
        with master.client() as client:
            return int(client.info("commandstats").get("cmdstat_wait", {}).get("calls", 0))

    before = waits()

    async def waited_for() -> bool:
        await redis.command("SET", "key", "5")
        return waits() > before

    await wait_until(waited_for)


# --- temporary errors ----------------------------------------------------------------------------------------------


class Telling:
    """A server with prepared replies: first the temporary ones, then always the same one."""

    def __init__(self, *passing: bytes | None, then: bytes = OK) -> None:
        self.passing = list(passing)
        self.then = then

    async def __call__(self, command: Sequence[bytes]) -> bytes | None:
        return b"*0\r\n" if command[0] == b"ROLE" else self.passing.pop(0) if self.passing else self.then


@pytest.mark.parametrize(
    "refusal",
    [
        b"-CLUSTERDOWN The cluster is down\r\n",
        b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        b"-MASTERDOWN Link with MASTER is down\r\n",
        b"-LOADING Redis is loading the dataset in memory\r\n",
    ],
)
async def test_refused_commands_are_sent_again(refusal: bytes) -> None:
    """This includes writes, and single commands of a batch."""
    fake = FakeCluster()
    async with fake.node(Telling(refusal, refusal)) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0)
        assert await redis.command("SET", "a", "1") == b"OK"
        assert fake.heard(b"SET a") == 3
        await redis.aclose()
    async with fake.node(Telling(OK, refusal, OK)) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0)
        assert await redis.pipeline([("SET", "x", "1"), ("SET", "y", "1")]) == [b"OK", b"OK"]
        assert fake.heard(b"SET y") == 2
        await redis.aclose()


async def test_lasting_refusals_are_errors() -> None:
    """The error is raised after a time limit; a circle of redirects is an error, too."""
    fake = FakeCluster()
    async with fake.node(Telling(then=b"-CLUSTERDOWN The cluster is down\r\n")) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0, patience=0.1)
        with pytest.raises(StoreUnreached, match="The cluster is down"):
            await redis.command("SET", "a", "1")
        await redis.aclose()
    circle = Telling()
    async with fake.node(circle) as port:
        circle.then = b"-MOVED %d 127.0.0.1:%d\r\n" % (slot_of("a"), port)
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0, patience=0.1)
        with pytest.raises(StoreUnavailable, match="keeps redirecting"):
            await redis.command("SET", "a", "1")
        await redis.aclose()


async def test_only_reads_are_repeated_after_a_lost_connection() -> None:
    """Nobody knows whether the write ran, and only the caller knows whether it may run twice."""
    fake = FakeCluster()
    telling = Telling()
    async with fake.node(telling) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0)
        telling.passing = [None, b"$1\r\nx\r\n"]
        assert await redis.command("GET", "a") == b"x"
        telling.passing = [None, b"$1\r\ny\r\n"]
        assert await redis.script((GET, ["a"], [])) == b"y"
        telling.passing = [None]
        with pytest.raises(StoreUnavailable):
            await redis.command("SET", "a", "1")
        telling.passing = [None]
        with pytest.raises(StoreUnavailable):
            await redis.script((SET, ["b"], ["1"]))
        telling.passing = [None]
        with pytest.raises(StoreUnavailable):
            await redis.pipeline([("GET", "a"), ("SET", "c", "1")])
        assert fake.heard(b"SET") == 1
        await redis.aclose()


async def test_a_silent_masters_successor_answers() -> None:
    """The new master answers reads, and writes fail, without waiting until the silent master is down."""
    fake = FakeCluster()

    async def silent(command: Sequence[bytes]) -> bytes | None:
        await asyncio.Event().wait()
        return None

    async with fake.node(silent) as old, fake.node(Telling(then=b"$1\r\nx\r\n")) as new:
        fake.masters = [old]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{new}", replicas=0, look_every=0.02)
        reading = asyncio.create_task(redis.command("GET", "a"))
        writing = asyncio.create_task(redis.command("SET", "a", "1"))
        await wait_until(lambda: fake.heard(b"GET a"))
        fake.masters = [new]
        assert await reading == b"x"
        with pytest.raises(StoreUnavailable):
            await writing
        await redis.aclose()


async def test_a_master_that_stays_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches have the replies of the others; its own calls fail at once, without being sent, until it is back."""
    monkeypatch.setattr("microsub.redis.cluster.BACK_EVERY", 0.02)
    fake, there = FakeCluster(), asyncio.Event()

    async def gone(command: Sequence[bytes]) -> bytes | None:
        return OK if there.is_set() else None

    first, last = "a", next(name for name in "bcdefgh" if slot_of(name) < 8192)
    assert slot_of(first) >= 8192
    async with fake.node(gone) as away, fake.node(Telling()) as port:
        fake.masters = [away, port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0, patience=0.05)
        batch = [("GET", first), ("GET", last)]
        with pytest.raises(StoreIncomplete) as caught:
            await redis.pipeline(batch)
        assert caught.value.replies[0] == b"OK"
        heard = fake.heard(b"GET")
        for _ in range(3):
            with pytest.raises(StoreUnreached, match=f"the master 127.0.0.1:{away} is away"):
                await redis.command("GET", last)
        assert await redis.command("GET", first) == b"OK"
        assert fake.heard(b"GET") == heard + 1
        there.set()

        async def is_back() -> bool:
            try:
                return await redis.pipeline(batch) == [b"OK", b"OK"]
            except StoreUnavailable:
                return False

        await wait_until(is_back)
        await redis.aclose()


async def test_a_silent_master_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it counts as away: no caller waits for a second reply, and later ones don't wait at all."""
    monkeypatch.setitem(Multiplexed.__init__.__kwdefaults__, "reply_timeout", 0.1)
    fake = FakeCluster()

    async def silent(command: Sequence[bytes]) -> bytes | None:
        await asyncio.Event().wait()
        return None

    async with fake.node(silent) as away, fake.node(Telling()) as port:
        fake.masters = [away, port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0, patience=3600)
        await redis.masters()
        with pytest.raises(StoreSilent, match="no reply"):
            await redis.command("GET", "b")
        for _ in range(3):
            with pytest.raises(StoreUnreached, match="is away"):
                await redis.command("GET", "b")
        assert fake.heard(b"GET b") == 1
        await redis.aclose()


async def test_calls_share_one_look() -> None:
    """Many callers that start or are redirected at the same time load the layout once, even if some are cancelled."""
    fake = FakeCluster()
    async with fake.node(Telling()) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0)
        tasks = [asyncio.create_task(redis.command("SET", str(number), 1)) for number in range(20)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == [b"OK"] * 19
        await redis.aclose()
        await redis.aclose()
        with pytest.raises(StoreError, match="closed"):
            await redis.command("GET", "a")
        with pytest.raises(StoreError, match="closed"):
            await redis.scripts([(GET, ["a"], [])])


# --- the nodes of the URL ------------------------------------------------------------------------------------------


async def test_one_node_of_several_is_enough(replicated: Cluster) -> None:
    """Nodes of the URL that are down are skipped."""
    redis = await connect(f"redis+cluster://127.0.0.1:1,127.0.0.1:{replicated.nodes[0].port}")
    assert await redis.command("SET", "a", 1) == b"OK"
    await redis.aclose()


async def test_a_node_of_a_cluster_is_not_all_of_redis(replicated: Cluster) -> None:
    """A URL without `+cluster` fails at the start, not only with every second key."""
    with pytest.raises(ConfigError, match=r"a node of a Redis Cluster, expected redis\+cluster"):
        await connect(f"redis://127.0.0.1:{replicated.nodes[0].port}")


async def test_a_single_server_is_no_cluster() -> None:
    """The error names the right kind of URL. A node that knows no master counts as not ready."""
    fake = FakeCluster()
    async with fake.node(Telling()) as port:
        with pytest.raises(StoreUnreached, match="knows no master"):
            await connect(f"redis+cluster://127.0.0.1:{port}")
        fake._slots = lambda: b"-ERR This instance has cluster support disabled\r\n"  # type: ignore[method-assign]
        with pytest.raises(ConfigError, match="redis:// for a single server"):
            await connect(f"redis+cluster://127.0.0.1:{port}")


async def test_edits_on_every_master_reach_the_cache(cluster_url: str) -> None:
    """The cache listens on one connection per master."""
    cluster = await connect(cluster_url)
    ids = [str(number) for number in range(20)]
    await cluster.pipeline([("HSET", keys.item(item_id), "Data", '{"n":"old"}') for item_id in ids])
    cache = ItemCache(Items(cluster), Tracker(cluster_url, keys.ITEM_PREFIX, retry_every=0.01), 100_000)
    await cache.get(ids)
    await wait_until(lambda: cache._flush_at is None)
    assert await cache.get(ids) == [b'"n":"old"}'] * 20
    await cluster.pipeline([("HSET", keys.item(item_id), "Data", '{"n":"new"}') for item_id in ids])
    await wait_until(lambda: not cache._kept)
    assert await cache.get(ids) == [b'"n":"new"}'] * 20
    await cache.aclose()
    await cluster.aclose()


async def test_a_server_that_left_the_cluster_counts_as_unreachable() -> None:
    """That is no error of the configuration any more; other nodes are asked as well, and /health says so."""
    fake = FakeCluster()
    async with fake.node(Telling(then=b"-CLUSTERDOWN The cluster is down\r\n")) as port:
        fake.masters = [port]
        redis = ClusterRedis(f"redis+cluster://127.0.0.1:{port}", replicas=0, patience=0.05)
        await redis.masters()
        fake._slots = lambda: b"-ERR This instance has cluster support disabled\r\n"  # type: ignore[method-assign]
        with pytest.raises(StoreUnreached, match="isn't part of a cluster"):
            await redis._look()
        report = await Health(Presence(redis)).check(0.0)
        assert (report.redis, report.status) == ("unreachable", "failing")
        whole = FakeCluster()
        async with whole.node(Telling()) as other:
            whole.masters = [other]
            layout = await look_up(f"redis://127.0.0.1:{port}", [("127.0.0.1", port), ("127.0.0.1", other)])
            assert layout.masters == {("127.0.0.1", other)}
        await redis.aclose()
