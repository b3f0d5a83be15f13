"""One connection for many callers: order, cancellation, lost connections, errors. On a real Redis, or a broken one."""

import asyncio
import ssl
import subprocess

import pytest
import redis as redis_py
from redis.exceptions import OutOfMemoryError, ResponseError
from structlog.testing import capture_logs

from microsub.base.errors import ConfigError, StoreFull, StoreUnavailable, StoreUnusable
from microsub.redis import multiplexer
from microsub.redis.connect import connect
from microsub.redis.multiplexer import AT_ONCE, SILENT, Multiplexed, translate
from microsub.redis.protocol import Script
from tests.support.cluster import free_ports, serving
from tests.support.waiting import wait_until

ECHO = Script("echo", "return {KEYS[1], ARGV[1]}")


@pytest.fixture
async def redis(redis_url):
    connection = Multiplexed(redis_url)
    yield connection
    await connection.aclose()


@pytest.fixture
def outside(redis_url):
    """A separate connection, for commands that the tested one must not send."""
    with redis_py.Redis.from_url(redis_url) as client:
        yield client


async def test_replies_are_as_redis_sends_them(redis):
    """Bytes, integers, None and lists of these, for every command."""
    assert await redis.command("SET", "a", "x") == b"OK"
    assert await redis.command("GET", "a") == b"x"
    assert await redis.command("GET", "none") is None
    assert await redis.command("HSET", "h", "ä", 1.5) == 1
    assert await redis.command("HGETALL", "h") == ["ä".encode(), b"1.5"]
    assert await redis.command("ZADD", "z", 1.25, b"m") == 1
    assert await redis.command("ZRANGE", "z", 0, -1, "WITHSCORES") == [b"m", b"1.25"]
    assert await redis.command("SMEMBERS", "none") == []
    assert await redis.command("EVAL", "return {1, {'two', false}}", 0) == [1, [b"two", None]]


async def test_a_connection_that_reports_changes(redis, outside, reports_all):
    """Each key once after it was read, before the reply to a later call; its replies are those of other connections."""
    changed = []
    reporting = redis.reporting(changed.append)
    outside.hset("h", mapping={"a": "1", "b": "2"})
    outside.zadd("z", {"x": 1.5, "y": 1700011800123456, "w": float("inf")})
    outside.sadd("s", "m")
    outside.xadd("x", {"f": "v"}, "1-1")
    both = Script("both", "return {redis.call('HGETALL', KEYS[1]), redis.call('ZSCORE', KEYS[2], 'x'), false}")
    for command in (
        ("HGETALL", "h"),
        ("HMGET", "h", "a", "none"),
        ("ZRANGE", "z", 0, -1, "WITHSCORES"),
        ("ZRANGE", "z", 0, -1),
        ("ZREVRANGEBYSCORE", "z", "+inf", "-inf", "WITHSCORES", "LIMIT", 0, 1),
        ("ZMSCORE", "z", "y", "none"),
        ("ZSCORE", "z", "x"),
        ("SMEMBERS", "s"),
        ("SMISMEMBER", "s", "m", "n"),
        ("XRANGE", "x", "-", "+"),
        ("EXISTS", "none"),
        ("GET", "none"),
    ):
        assert await reporting.command(*command) == await redis.command(*command), command
    assert await reporting.script((both, ["h", "z"], [])) == await redis.script((both, ["h", "z"], []))
    unnamed = Script("unnamed", "return redis.call('GET', ARGV[1])")
    assert await reporting.script((unnamed, ["h"], ["unnamed"])) is None
    assert changed == []
    outside.hset("h", "a", "2")
    outside.hset("h", "a", "3")
    outside.set("none", "1")
    outside.set("unnamed", "1")
    assert await reporting.pipeline([("PING",)]) == [b"PONG"]
    assert changed == [[b"h"], [b"none"], [b"unnamed"]]
    outside.client_kill_filter(_id=await reporting.command("CLIENT", "ID"))
    await wait_until(lambda: changed[-1] is None)
    assert await reporting.command("GET", "none") == b"1"
    await reporting.aclose()


async def test_a_server_that_reports_no_changes(redis, outside):
    """A rented one may forbid it. This says so, and goes on without."""
    outside.acl_setuser("rented", enabled=True, nopass=True, categories=["+@all"], commands=["-client"], keys=["*"])
    changes = {"username": "rented", "password": "any"}
    reporting = Multiplexed(redis._url, changed=lambda _: None, **changes)
    with pytest.raises(StoreUnusable, match="refuses to report changes"):
        await reporting.command("GET", "a")
    await reporting.aclose()
    outside.acl_deluser("rented")


async def test_an_engine_that_reports_only_some_changes(redis, monkeypatch):
    """Before 7.2, Redis reports the keys that a script was called with, not those that it read."""
    monkeypatch.setattr(multiplexer, "_REPORTS_ALL", (99, 0))
    reporting = redis.reporting(lambda _: None)
    with pytest.raises(StoreUnusable, match=r"only some changes before version 7\.2"):
        await reporting.command("GET", "a")
    await reporting.aclose()


async def test_every_caller_gets_their_own_reply(redis):
    """A thousand callers mix single commands, pipelines and scripts on one connection."""

    async def caller(number: int) -> None:
        key = f"k{number}"
        assert await redis.command("SET", key, number) == b"OK"
        if number % 3 == 0:
            assert await redis.pipeline([("GET", key), ("STRLEN", key)]) == [b"%d" % number, len(str(number))]
        elif number % 3 == 1:
            assert await redis.script((ECHO, [key], [number])) == [key.encode(), b"%d" % number]
        else:
            assert await redis.command("GET", key) == b"%d" % number

    await asyncio.gather(*(caller(number) for number in range(1000)))


async def test_all_callers_share_one_connection(redis, outside):
    """The number of calls in flight doesn't matter."""
    before = int(outside.info("stats")["total_connections_received"])
    await asyncio.gather(*(redis.command("INCR", "n") for _ in range(200)))
    assert int(outside.info("stats")["total_connections_received"]) == before + 1


async def test_many_calls_of_one_turn_are_written_together(redis, outside):
    """While Redis has enough work, the calls of one turn of the event loop are sent in one write."""
    await redis.command("PING")

    def reads() -> int:
        return int(outside.info("stats")["total_reads_processed"])

    before = reads()
    await asyncio.gather(*(redis.command("INCR", "n") for _ in range(100)))
    assert reads() - before < AT_ONCE + 5


async def test_a_large_value_passes_both_ways(redis):
    """A value of some megabytes doesn't disturb other calls at the same time."""
    large = b"\r\n$" * 2_000_000
    results = await asyncio.gather(
        redis.command("SET", "large", large), *(redis.command("INCR", "n") for _ in range(50))
    )
    assert results[1:] == list(range(1, 51))
    assert await redis.command("GET", "large") == large


async def test_a_cancelled_call_shifts_no_reply(redis):
    """Cancelled before or after the write, the call's own reply is dropped and all other replies arrive."""
    await redis.command("PING")
    for turns in range(4):
        tasks = [asyncio.create_task(redis.command("ECHO", str(number))) for number in range(100)]
        batches = [asyncio.create_task(redis.pipeline([("ECHO", "x"), ("ECHO", str(n))])) for n in range(20)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in [*tasks[::2], *batches[::2]]:
            task.cancel()
        kept = await asyncio.gather(*tasks[1::2])
        assert kept == [b"%d" % number for number in range(1, 100, 2)]
        assert [reply[1] for reply in await asyncio.gather(*batches[1::2])] == [b"%d" % n for n in range(1, 20, 2)]
        await asyncio.gather(*tasks, *batches, return_exceptions=True)
    assert await redis.command("ECHO", "still in step") == b"still in step"


async def test_a_cancelled_caller_does_not_take_the_connection_away(redis_url):
    """The caller that starts to connect may be cancelled; the others still get the connection."""
    redis = Multiplexed(redis_url)
    first = asyncio.create_task(redis.command("PING"))
    others = [asyncio.create_task(redis.command("ECHO", str(number))) for number in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.gather(*others) == [b"0", b"1", b"2"]
    await redis.aclose()


async def test_an_error_reaches_only_its_caller(redis):
    """A single call raises it. A pipeline raises the first error after all commands have run."""
    await redis.command("SET", "text", "x")
    good, bad = await asyncio.gather(
        redis.command("GET", "text"), redis.command("INCR", "text"), return_exceptions=True
    )
    assert good == b"x"
    assert isinstance(bad, ResponseError)
    with pytest.raises(ResponseError, match="not an integer"):
        await redis.pipeline([("SET", "a", 1), ("INCR", "text"), ("LPUSH", "text", 1), ("SET", "b", 2)])
    assert await redis.pipeline([("GET", "a"), ("GET", "b")]) == [b"1", b"2"]
    assert await redis.pipeline([]) == await redis.scripts([]) == []


async def test_an_unknown_script_is_loaded(redis):
    """This includes scripts that the server has forgotten, and several scripts at once."""
    other = Script("other", "return ARGV[1]")
    assert await redis.script((ECHO, ["k"], [1])) == [b"k", b"1"]
    await redis.command("SCRIPT", "FLUSH")
    calls = [(ECHO, ["a"], [1]), (other, [], ["two"]), (ECHO, ["b"], ["3"])]
    assert await redis.scripts(calls) == [[b"a", b"1"], b"two", [b"b", b"3"]]
    await redis.command("SCRIPT", "FLUSH")
    assert await asyncio.gather(*(redis.script((ECHO, ["k"], [n])) for n in range(20))) == [
        [b"k", b"%d" % n] for n in range(20)
    ]


async def test_a_script_error_is_a_bug_and_stays_one(redis):
    """One call and several calls raise Redis' own error."""
    broken = Script("broken", "return redis.call('INCR', 'text')")
    await redis.command("SET", "text", "x")
    with pytest.raises(ResponseError, match="not an integer"):
        await redis.script((broken, [], []))
    with pytest.raises(ResponseError, match="not an integer"):
        await redis.scripts([(ECHO, ["a"], [1]), (broken, [], [])])


async def test_a_full_redis_refuses_with_a_clear_error(redis, outside):
    """At `maxmemory`, every kind of write raises StoreFull; reads continue, and nothing is written in part."""
    write = Script("write", "redis.call('SET', KEYS[1], 'x') redis.call('SET', KEYS[2], 'x')")
    await redis.command("SET", "before", "x")
    outside.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreFull, match="refuses writes"):
            await redis.command("SET", "a", "x")
        with pytest.raises(StoreFull):
            await redis.pipeline([("GET", "before"), ("SET", "a", "x")])
        with pytest.raises(StoreFull):
            await redis.script((write, ["{a}1", "{a}2"], []))
        with pytest.raises(StoreFull):
            await redis.scripts([(write, ["{a}1", "{a}2"], [])])
        assert await redis.command("GET", "before") == b"x"
        assert await redis.command("EXISTS", "a", "{a}1", "{a}2") == 0
    finally:
        outside.config_set("maxmemory", 0)
    assert await redis.command("SET", "a", "x") == b"OK"


async def test_a_lost_connection_fails_outstanding_calls_only(redis, outside):
    """All waiting calls fail at once; the next call connects again."""
    identity = await redis.command("CLIENT", "ID")
    waiting = [asyncio.create_task(redis.command("BLPOP", "never", 0)) for _ in range(3)]
    batch = asyncio.create_task(redis.pipeline([("GET", "a"), ("GET", "b")]))

    def blocked() -> bool:
        return "cmd=blpop" in "".join(str(client) for client in outside.client_list()).replace("'", "").replace(
            ": ", "="
        )

    await wait_until(blocked)
    outside.client_kill_filter(_id=identity)
    for outcome in await asyncio.gather(*waiting, batch, return_exceptions=True):
        assert isinstance(outcome, StoreUnavailable)
    assert await redis.command("CLIENT", "ID") != identity


async def test_a_connection_lost_while_idle_is_noticed(redis, outside):
    """The next call doesn't fail because of it."""
    identity = await redis.command("CLIENT", "ID")
    outside.client_kill_filter(_id=identity)
    await wait_until(lambda: redis._link.lost)
    assert await redis.command("ECHO", "x") == b"x"


async def test_a_missing_server_is_an_error(tmp_path):
    """Each caller gets StoreUnavailable, and so does the next."""
    redis = Multiplexed(f"unix://{tmp_path}/none.sock")
    outcomes = await asyncio.gather(*(redis.command("PING") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    with pytest.raises(StoreUnavailable):
        await redis.scripts([(ECHO, ["a"], [1])])
    await redis.aclose()


async def test_a_closed_connection_fails_every_call(redis_url):
    """Outstanding calls and all later ones fail; closing twice is harmless."""
    redis = Multiplexed(redis_url)
    await redis.command("PING")
    waiting = asyncio.create_task(redis.command("BLPOP", "never", 0))
    await asyncio.sleep(0)
    await redis.aclose()
    await redis.aclose()
    with pytest.raises(StoreUnavailable):
        await waiting
    with pytest.raises(StoreUnavailable, match="closed"):
        await redis.command("PING")


async def test_closing_while_connecting():
    """No caller waits forever."""

    async def silent(reader, writer):
        await reader.read()

    async with serving(silent) as url:
        redis = Multiplexed(f"{url}?db=3")  # selecting a database needs a reply, which never comes
        call = asyncio.create_task(redis.command("PING"))
        await wait_until(lambda: redis._connecting is not None)
        await redis.aclose()
        with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
            await call


async def test_a_server_that_falls_silent_is_given_up():
    """After the time limit without any reply, all callers get an error, and the next call tries a new connection."""
    connections = []

    async def deaf(reader, writer):
        connections.append(1)
        await reader.read()

    async with serving(deaf) as url:
        redis = Multiplexed(url, reply_timeout=0.05)
        for attempt in (1, 2):
            with pytest.raises(StoreUnavailable, match="no reply"):
                await redis.command("PING")
            assert len(connections) == attempt
        await redis.aclose()


async def test_silence_of_redis_and_its_end_are_logged_once():
    """Long before callers get an error, and whether or not their connection is given up meanwhile."""
    awake = asyncio.Event()
    awake.set()

    async def sleeping(reader, writer):
        while await reader.read(1000):
            await awake.wait()
            writer.write(b"+PONG\r\n")

    async with serving(sleeping) as url:
        redis = Multiplexed(url, reply_timeout=0.4)
        await redis.command("PING")
        awake.clear()
        with capture_logs() as lines:
            with pytest.raises(StoreUnavailable):
                await redis.command("PING")
            second = asyncio.create_task(redis.command("PING"))
            await wait_until(lambda: redis._link and redis._link._waiting)
            awake.set()
            assert await second == b"PONG"
        assert [line["event"] for line in lines] == [SILENT, "Redis replies again"]
        await redis.aclose()


async def test_a_slow_server_is_not_given_up():
    """As long as each reply comes within the time limit, the connection stays."""

    turn = asyncio.Semaphore(0)

    async def slow(reader, writer):
        while data := await reader.read(1000):
            for _ in range(data.count(b"PING")):
                await turn.acquire()
                writer.write(b"+PONG\r\n")

    async with serving(slow) as url:
        redis = Multiplexed(url, reply_timeout=3600)
        calls = [asyncio.create_task(redis.command("PING")) for _ in range(12)]
        await wait_until(lambda: redis._link is not None and len(redis._link._waiting) == len(calls))
        link = redis._link
        for _ in calls:  # one more reply has come whenever the time limit ends
            before = link._replies
            turn.release()
            await wait_until(lambda before=before: link._replies > before)
            link._check(before)
        assert await asyncio.gather(*calls) == [b"PONG"] * 12
        assert redis._link is link
        await redis.aclose()


@pytest.mark.parametrize("reply", [b"+OK\r\n+OK\r\n", b"?what\r\n", b"-LOADING Redis is loading\r\n", b"$5\r\nab"])
async def test_a_server_that_breaks_the_protocol_is_left(reply):
    """After too many replies, an invalid one or half of one, callers get an error, never another caller's reply."""

    async def strange(reader, writer):
        await reader.read(1000)
        writer.write(reply)
        await writer.drain()

    async with serving(strange) as url:
        redis = Multiplexed(url)
        outcome = (await asyncio.gather(redis.command("PING"), return_exceptions=True))[0]
        assert outcome == b"OK" or isinstance(outcome, StoreUnavailable)
        await wait_until(lambda: redis._link.lost)
        await redis.aclose()


SHA = "1bcb3a5d" * 5
REASON = "command not allowed when used memory > 'maxmemory'."


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError(f"{REASON} script: {SHA}, on @user_script:9."),
        ResponseError(f"ERR Error running script (call to f_{SHA}): @user_script:9: @user_script: 9: -OOM {REASON} "),
        OutOfMemoryError(REASON),
        ResponseError(f"MISCONF {REASON}"),
    ],
)
def test_the_place_in_a_script_is_left_out(error: Exception) -> None:
    """Redis 7 and Redis 6 word it differently."""
    translated = translate(error)
    assert isinstance(translated, StoreFull)
    assert (
        str(translated).strip().removeprefix("Redis refuses writes: ").removeprefix("OOM ").removeprefix("MISCONF ")
        == REASON
    )


# --- URLs --------------------------------------------------------------------------------------------------------


async def test_the_database_of_the_url_counts(redis_server):
    """`?db=` of a unix socket selects the database, like `/n` of a TCP address."""
    first = await connect(f"{redis_server.url}?db=1")
    second = await connect(f"{redis_server.url}?db=2")
    await first.command("SET", "here", 1)
    assert await second.command("EXISTS", "here") == 0
    await first.command("DEL", "here")
    await first.aclose()
    await second.aclose()


@pytest.mark.parametrize("url", ["http://localhost", "localhost:6379", "redis+sentinel://a", ""])
async def test_other_urls_are_refused(url):
    """The error names the URL and the supported schemes."""
    with pytest.raises(ConfigError, match=r"rediss://.*redis\+cluster://"):
        await connect(url)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The URL and certificate of a Redis with TLS and a password on a TCP port; skips without TLS support."""

    from microsub.redis.embedded.programs import programs

    folder = tmp_path_factory.mktemp("tls")
    certificate = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"),
    ]
    try:
        subprocess.run(certificate, cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no openssl to make a certificate with")
    (port,) = free_ports(1)
    options = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1", "tls-cert-file": "cert.pem",
        "tls-key-file": "key.pem", "tls-ca-cert-file": "cert.pem", "tls-auth-clients": "no",
        "requirepass": "p@ss", "save": "", "dir": str(folder),
    }  # fmt: skip
    args = [part for name, value in options.items() for part in (f"--{name}", value)]
    child = subprocess.Popen([next(iter(programs())), *args], cwd=folder, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if "Ready to accept connections" in line:
            break
    else:
        pytest.skip("this redis-server was built without TLS")
    yield f"rediss://:p%40ss@127.0.0.1:{port}/1", str(folder / "cert.pem")
    child.terminate()
    child.communicate()


async def test_tls_and_password(secured):
    """`rediss://` verifies the server and signs in; a wrong password or unknown certificate prevents the connection."""
    url, certificate = secured
    redis = await connect(f"{url}?ssl_ca_certs={certificate}")
    assert await redis.command("SET", "a", 1) == b"OK"
    assert await redis.script((ECHO, ["k"], [1])) == [b"k", b"1"]
    await redis.aclose()
    with pytest.raises(StoreUnavailable):
        await connect(url.replace("p%40ss", "wrong") + f"?ssl_ca_certs={certificate}")
    with pytest.raises(StoreUnavailable):
        await connect(url)
    assert ssl.HAS_TLSv1_2
