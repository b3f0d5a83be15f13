"""A Redis Cluster on loopback: three masters, optionally with replicas. Its servers end with the tests."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import hiredis
import redis as redis_py

from microsub.redis.cluster import SLOTS, slot_of
from microsub.redis.embedded.programs import programs

MASTERS = 3
_BUS = 10_000
"""The distance between a node's port and its cluster bus port."""


@dataclass
class Node:
    """One `redis-server` of the cluster."""

    id: str
    port: int
    folder: Path
    first: int = -1
    last: int = -1
    master: str = "-"
    options: dict[str, object] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    guard: subprocess.Popen[bytes] | None = None

    def client(self) -> redis_py.Redis:
        return redis_py.Redis(port=self.port, socket_timeout=60)

    def has_joined(self) -> bool:
        """Whether the node sees a complete cluster, and is in sync with its master."""
        with self.client() as client:
            whole = bool(client.cluster("INFO")["cluster_state"] == "ok")
            return whole and (self.master == "-" or client.info("replication")["master_link_status"] == "up")

    def start(self) -> None:
        """Start the node, with its earlier data if it was killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "port": self.port, "bind": "127.0.0.1", "cluster-enabled": "yes", "cluster-config-file": "nodes.conf",
            "save": "", "dir": self.folder, "logfile": "log", "cluster-replica-validity-factor": 0,
            "repl-diskless-sync-delay": 0,
        }  # fmt: skip
        args = [str(part) for name, value in (options | self.options).items() for part in (f"--{name}", value)]
        self.process = subprocess.Popen([str(next(iter(programs()))), *args])
        # The guard's standard input ends with this process, however that ends.
        guard = ["sh", "-c", f"read _; kill -9 {self.process.pid} 2>/dev/null"]
        self.guard = subprocess.Popen(guard, stdin=subprocess.PIPE)

    def send(self, number: int) -> None:
        """Send a signal to the node."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the node and wait until it has ended."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(number)
                self.process.send_signal(signal.SIGCONT)
            # The guard ends first: until the server has been waited for, its process id can't be reused.
            if self.guard is not None:
                self.guard.kill()
                self.guard.communicate()
            self.process.wait(60)

    def line(self, epoch: int) -> str:
        """The node's line in `nodes.conf`."""
        role = "slave" if self.master != "-" else "master"
        slots = f" {self.first}-{self.last}" if self.first >= 0 else ""
        return f"{self.id} 127.0.0.1:{self.port}@{self.port + _BUS} {role} {self.master} 0 0 {epoch} connected{slots}"


@dataclass
class Cluster:
    """The cluster; `nodes` are the masters, followed by the replicas, in the initial configuration."""

    nodes: list[Node]

    @property
    def url(self) -> str:
        """A URL with only the first node."""
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    @property
    def whole_url(self) -> str:
        """A URL with all nodes."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def first_master_of(self, key: str) -> Node:
        """The node that initially served the key's slot."""
        return next(node for node in self.nodes if node.first <= slot_of(key) <= node.last)

    def replica_of(self, master: Node) -> Node:
        return next(node for node in self.nodes if node.master == master.id)

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def wait(self) -> None:
        """Wait until all nodes see a complete cluster and the replicas are in sync."""
        for node in self.nodes:
            until(node.has_joined)
        for node in self.nodes[:MASTERS]:
            until(partial(self._has_its_replicas, node))

    def _has_its_replicas(self, master: Node) -> bool:
        with master.client() as client:
            return len(client.execute_command("ROLE")[2]) == sum(node.master == master.id for node in self.nodes)

    def empty(self) -> None:
        """Delete all keys."""
        for node in self.nodes[:MASTERS]:
            with node.client() as client:
                client.flushall()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop(signal.SIGKILL)


@contextmanager
def running_cluster(folder: Path, *, replicas: int = 0, **options: object) -> Iterator[Cluster]:
    """A cluster of three masters, each with this many replicas; `options` are those of its servers.

    Its servers end with the block, and also if this process is killed.
    """
    # Tests find failures themselves; a short timeout would report false ones under load.
    settings = {"cluster-node-timeout": 15_000} | {name.replace("_", "-"): value for name, value in options.items()}
    ports = free_ports(MASTERS * (1 + replicas))
    ids = [secrets.token_hex(20) for _ in ports]
    nodes = []
    for place, (port, id_) in enumerate(zip(ports, ids, strict=True)):
        node = Node(id_, port, folder / str(port), options=settings)
        if place < MASTERS:
            node.first, node.last = place * SLOTS // MASTERS, (place + 1) * SLOTS // MASTERS - 1
        else:
            node.master = ids[place % MASTERS]
        nodes.append(node)
    for node in nodes:
        node.folder.mkdir(parents=True)
        lines = [other.line(epoch=1 + place % MASTERS) for place, other in enumerate(nodes)]
        lines[nodes.index(node)] = lines[nodes.index(node)].replace(" master ", " myself,master ", 1)
        lines[nodes.index(node)] = lines[nodes.index(node)].replace(" slave ", " myself,slave ", 1)
        vars_ = f"vars currentEpoch {MASTERS} lastVoteEpoch 0"
        (node.folder / "nodes.conf").write_text("\n".join([*lines, vars_, ""]))
    cluster = Cluster(nodes)
    try:
        cluster.start()
        cluster.wait()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def running_server(folder: Path, **options: object) -> Iterator[Node]:
    """A single server without a cluster. It ends with the block, and also if this process is killed."""
    settings: dict[str, object] = {"cluster-enabled": "no"}
    settings |= {name.replace("_", "-"): value for name, value in options.items()}
    node = Node("", free_ports(1)[0], folder, options=settings)
    node.start()
    try:
        with node.client() as client:
            until(client.ping)
        yield node
    finally:
        node.stop(signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Free ports whose cluster bus ports are free too, outside the range of automatically assigned ports."""
    found: list[int] = []
    choice = random.Random(os.getpid() * 1_000_003 + time.monotonic_ns())
    while len(found) < count:
        port = choice.randrange(11_000, 22_700)
        if port not in found and _is_free(port) and _is_free(port + _BUS):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for the condition; servers that don't answer yet aren't an error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except redis_py.RedisError:
            pass
        assert time.monotonic() < deadline, "the cluster did not get so far"
        time.sleep(0.01)


Answer = Callable[[Sequence[bytes]], Awaitable[bytes | None]]
"""Maps a command to the bytes of its reply; None closes the connection."""


class FakeCluster:
    """`masters` are the ports of the nodes with slots, in equal parts; `asked` are the commands that the nodes
    received.
    """

    def __init__(self) -> None:
        self.masters: list[int] = []
        self.asked: list[tuple[int, bytes]] = []

    @asynccontextmanager
    async def node(self, answer: Answer) -> AsyncIterator[int]:
        """The port of a node that answers with `answer`, except questions about slots."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            parser = hiredis.Reader()
            writers.append(writer)
            try:
                while data := await reader.read(65536):
                    parser.feed(data)
                    while (command := parser.gets()) is not False:
                        if command[0] == b"CLUSTER":
                            reply: bytes | None = self._slots()
                        else:
                            self.asked.append((port, b" ".join(command[:2])))
                            reply = await answer(command)
                        if reply is None:
                            return
                        writer.write(reply)
            except ConnectionError:
                return
            finally:
                writer.close()

        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        try:
            yield port
        finally:
            server.close()
            for writer in writers:
                writer.close()

    def heard(self, command: bytes) -> int:
        """The number of commands that began with this text."""
        return sum(text.startswith(command) for _, text in self.asked)

    def _slots(self) -> bytes:
        reply = b"*%d\r\n" % len(self.masters)
        size = 16384 // max(1, len(self.masters))
        for place, port in enumerate(self.masters):
            last = 16383 if place + 1 == len(self.masters) else (place + 1) * size - 1
            reply += b"*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\nx\r\n" % (place * size, last, port)
        return reply


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[str]:
    """The URL of a server that runs `behaviour` for each connection, and then closes it."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await behaviour(reader, writer)
        except ConnectionError:
            return
        finally:
            writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        server = await asyncio.start_unix_server(connected, path)
        try:
            yield f"unix://{path}"
        finally:
            server.close()
            for writer in writers:
                writer.close()
