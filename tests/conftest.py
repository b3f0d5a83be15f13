"""Fixtures for all tests. Each worker process has one embedded Redis in a temporary folder, stopped at the end."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

# Set before structlog is imported, for this process and all processes that it starts.
os.environ["PYTHONPATH"] = str(Path(__file__).parent / "support" / "absent")
sys.path.insert(0, os.environ["PYTHONPATH"])

import certifi
import pytest
import redis as redis_py
import starlette.routing
import structlog
from hypothesis import HealthCheck, settings

from microsub.redis.embedded.server import EmbeddedEngine, start_embedded
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis
from tests.support import EXPLORES, THOROUGH
from tests.support.cluster import Cluster, running_cluster
from tests.support.compiled_templates import FOLDER, keep_compiled
from tests.support.invariants import assert_no_stray_keys
from tests.support.one_reader import OneReader
from tests.support.parsing import forked_parsers
from tests.support.process import none_left
from tests.support.readers import Reader, instance
from tests.support.redis_wrappers import ClientRedis, WholeCluster
from tests.support.run_folder import use_run_folder
from tests.support.waiting import wait_until as wait_until_
from tests.support.web import Publisher, publisher
from tests.support.world import World
from tests.support.world import world as running_world

EXTERNAL = os.environ.get("TEST_REDIS_URL")
"""A Redis of your own for the tests, such as redis://127.0.0.1:6390; its databases 1 to 14 are emptied."""

# The tests start hundreds of processes. These write bytecode next to the modules, which is Python's default; otherwise
# each process would compile the whole product, a quarter of its start-up cost.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No test connects to the internet. Loading the usual certificate authorities takes 60 ms of CPU time for each of
# thousands of clients and fetchers; these processes trust only one certificate of the tests.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "hostile" / "certificates" / "trusted.pem")
certifi.where = lambda: os.environ["SSL_CERT_FILE"]  # for clients that ignore the environment variable

# The duration of an example depends on the load of the machine. The same commit always gets the same examples, so that
# a failure comes from a change; `TEST_TIMES` and `make test-matrix` search for new ones.
settings.register_profile(
    "untimed", deadline=None, derandomize=not EXPLORES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# The tests ignore the settings of a server that is installed on this machine.
os.environ["MICROSUB_ENV_FILE"] = os.devnull

use_run_folder()
if FOLDER not in os.environ:  # set for the processes that this one starts
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="templates-")
keep_compiled()
starlette.routing.compile_path = functools.cache(starlette.routing.compile_path)  # the same routes each time

# A script that runs the tests in its background makes them and their child processes ignore SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONGEST_FIRST = (
    "chaos",
    "flows",
    "fuzz",
    "browser",
    "hostile",
    "conformance",
    "cache",
    "timelines",
    "outputs",
    "ekster",
    "parsing",
)
"""Folders with slow modules, in starting order: short modules fill the gap at the end between the test processes."""

_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

# Test processes that share a Redis divide its 14 databases among them.
_EACH = 14 // _PROCESSES
_FIRST = 1 + _EACH * _PROCESS
_databases = itertools.cycle(range(_FIRST, _FIRST + _EACH))


class Begun:
    """Prints the name of each file when its first test begins: the dots of slow files say little for minutes."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._files: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = nodeid.partition("::")[0]
        if file not in self._files:
            self._files.add(file)
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{file} begins, {len(self._files)}. file", bold=True)


def pytest_xdist_auto_num_workers() -> int:
    """Tests spend a part of their time waiting, so there are more processes than cores; each one collects all tests,
    which takes five seconds of processor time.
    """
    return min(3 * (os.cpu_count() or 1), 7)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print file names if TEST_FILES is set, as `make test` does."""
    config = session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("TEST_FILES") and terminal is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(Begun(terminal))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exempts the loaded modules from garbage collection, because they never become garbage."""
    gc.disable()
    _load_share(session)
    collected = yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # tests make little garbage in cycles
    gc.enable()
    return collected


def _load_share(session: pytest.Session) -> None:
    """Load this process's share of the modules first, so that the other processes find their bytecode."""
    if _PROCESSES == 1 or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    root = Path(__file__).parent
    for path in sorted(root.rglob("test_*.py"))[_PROCESS::_PROCESSES]:
        with contextlib.suppress(Exception):  # the collection reports the error
            importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest folders first."""
    items.sort(key=lambda item: _place(item.nodeid.removeprefix("tests/").partition("/")[0]))


@functools.cache
def _place(folder: str) -> int:
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


@pytest.fixture(scope="session", autouse=True)
def _none_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No process remains after the run, even if it is killed."""
    with none_left(tmp_path_factory.getbasetemp()), forked_parsers():
        yield


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Restores the library's default logging after a command under test has changed it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEngine]:
    """The real Redis of this worker process. Use `redis_url`, unless you keep the data of several tests apart."""
    server = start_embedded(tmp_path_factory.mktemp("redis"))
    yield server
    assert server.stop()


@pytest.fixture
def redis_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database on a real Redis: the one at `TEST_REDIS_URL`, or an embedded one."""
    base = EXTERNAL or request.getfixturevalue("redis_server").url
    url = f"{base}?db={next(_databases)}"
    with redis_py.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def second_redis_url(redis_url: str) -> str:
    """The URL of another empty database on the same server, for data from another installation."""
    url = f"{redis_url.partition('?')[0]}?db={next(_databases)}"
    with redis_py.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The Redis Cluster with three masters of this worker process. Use `cluster_url` instead."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), set_max_intset_entries=100_000) as cluster:
        yield cluster


@pytest.fixture
def cluster_url(redis_cluster: Cluster) -> str:
    """The URL of an empty Redis Cluster."""
    redis_cluster.empty()
    return redis_cluster.url


@pytest.fixture
async def real_redis(redis_url: str) -> AsyncIterator[Redis]:
    """A connection to an empty database on a real Redis. Fails the test on stray keys."""
    connection = Multiplexed(redis_url)
    yield connection
    await leave_redis(connection)


@pytest.fixture(params=["fake", "real", "cluster"] if THOROUGH else ["real"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """An empty Redis: a real one, and with `make test-matrix` also a fake one with Lua and a Redis Cluster.

    Fails the test on stray keys.
    """
    connection = open_redis(request)
    yield connection
    await leave_redis(connection)


def open_redis(request: pytest.FixtureRequest) -> Redis:
    """The Redis of the fixture's parameter: `fake`, `real` or `cluster`."""
    if request.param == "real":
        return Multiplexed(request.getfixturevalue("redis_url"))
    if request.param == "cluster":
        return WholeCluster(request.getfixturevalue("cluster_url"))
    return fake_redis()


def fake_redis() -> Redis:
    """An empty fake Redis with Lua."""
    import fakeredis
    from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

    ScriptingCommandsMixin._lua_redis_pcall = fake_pcall
    server = fakeredis.FakeServer(version=(6, 2))
    return ClientRedis(fakeredis.FakeAsyncRedis(server=server, protocol=2))


def fake_pcall(self: Any, lua: Any, names: set[Any], operation: bytes, *args: Any) -> Any:
    """The `redis.pcall` of scripts on the fake Redis: its own gives them an error that isn't a string of Lua."""
    try:
        return self._lua_redis_call(lua, names, operation, *args)
    except Exception as error:
        return lua.table_from({b"err": str(error).encode()})


@pytest.fixture
def wait_until() -> Callable[..., object]:
    """`await wait_until(condition)`; also importable from `tests.support.waiting`."""
    return wait_until_


async def leave_redis(connection: Redis) -> None:
    """Close the connection, and fail on stray keys."""
    try:
        await assert_no_stray_keys(connection)
    finally:
        await connection.aclose()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Disable logging: formatting dozens of tracebacks takes seconds."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
async def site() -> AsyncIterator[Publisher]:
    """A publisher that listens on loopback."""
    async with publisher() as found:
        yield found


@pytest.fixture
async def it(redis: Redis) -> AsyncIterator[World]:
    """Stores, pipeline and worker on an empty Redis."""
    async with running_world(redis) as found:
        yield found


@pytest.fixture
async def world(redis: Redis) -> OneReader:
    """The timelines of one reader."""
    made = OneReader(redis)
    await made.begin()
    return made


@pytest.fixture
async def server(redis: Redis) -> AsyncIterator[World]:
    """The application on empty stores."""
    async with instance(redis) as made:
        yield made


@pytest.fixture
async def alice(server: World) -> Reader:
    """A reader with the channels `home` and `later`."""
    return await server.reader("alice", "home", "later")


@pytest.fixture
async def bob(server: World) -> Reader:
    """Another reader, with channels of the same names."""
    return await server.reader("bob", "home", "later")
