"""A Redis Cluster of two masters on loopback, for what must hold across slots and nodes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis as redis_py

from microsub.store.program import programs

_SLOTS = 16384


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """The URL of the cluster; its servers end with the block."""
    ports = [_free_port() for _ in range(2)]
    children = [_start(folder / str(port), port) for port in ports]
    try:
        nodes = [redis_py.Redis(port=port) for port in ports]
        for place, node in enumerate(nodes):
            _until(node.ping)
            first = place * _SLOTS // 2
            node.execute_command("CLUSTER ADDSLOTS", *range(first, first + _SLOTS // 2))
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", place + 1)
        nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", ports[1])
        for node in nodes:
            _until(lambda node=node: node.cluster("INFO")["cluster_state"] == "ok" and _size(node) == 2)
            node.close()
        yield f"redis+cluster://127.0.0.1:{ports[0]}"
    finally:
        for child in children:
            child.terminate()
            child.wait()


def _size(node: redis_py.Redis) -> int:
    return int(node.cluster("INFO")["cluster_size"])


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    options = {
        "port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "save": "", "dir": folder, "logfile": "log",
    }  # fmt: skip
    args = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    return subprocess.Popen([str(programs()[0].path), *args])


def _free_port() -> int:
    """The cluster's own port is 10,000 higher and must exist too."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = int(server.getsockname()[1])
        if port < 55000:
            return port


def _until(condition: object, seconds: float = 20.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except redis_py.RedisError:
            pass
        assert time.monotonic() < deadline, "the cluster did not come up"
        time.sleep(0.01)
