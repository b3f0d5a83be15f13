"""The cost of polls: our worker polls a publisher on loopback, and a TLS connection is made in memory."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.refresh.feeds import ENTRIES
from benchmarks.refresh.lines import Child, child
from benchmarks.refresh.processes import children, processor_seconds
from benchmarks.scale.costs import Work

FEEDS = 200
REPEATS = 5
HANDSHAKES = 200
CHAIN_BYTES = 2_500
"""Bytes by which the certificates of a public site are larger than the one generated here."""
PACKET_BYTES = 900
"""Bytes of packet headers of a connection with one request."""
_HOST = "blog.example"


@dataclass(frozen=True, slots=True)
class Polled:
    """The cost of a poll by its result; bytes of request and reply without the document."""

    not_modified: Work
    unchanged: Work
    news: Work
    not_modified_bytes: float
    head_bytes: float


@dataclass(frozen=True, slots=True)
class Handshake:
    """A TLS connection: processor time of the client, and bytes in both directions.

    `measured` is False if no certificate could be generated; then the figures are estimates.
    """

    work: Work
    bytes: float
    measured: bool = True


def polled(folder: Path, repeats: int = REPEATS) -> Polled:
    """Let the worker poll `FEEDS` feeds, each on its own host, with 20 posts in 27 KB."""
    data = folder / "data"
    data.mkdir(parents=True)
    with (
        child(
            [sys.executable, "-m", "benchmarks.refresh.publisher", str(FEEDS)], folder / "publisher.log"
        ) as publisher,
        child([sys.executable, "-m", "benchmarks.refresh.ours", str(data)], folder / "ours.log") as ours,
    ):
        redis = ours.ask("redis")["pid"]
        _mode(publisher, "validators")
        ours.ask("follow", urls=publisher.ask("urls")["urls"])
        ours.ask("refresh")
        _mode(publisher, "validators")
        same = _refreshed(ours, redis, repeats)
        _served(publisher, 304, repeats)
        same_bytes = publisher.ask("traffic")["bytes"]
        _mode(publisher, "bare")
        unchanged = _refreshed(ours, redis, repeats)
        _served(publisher, 200, repeats)
        _mode(publisher, "news")
        news = _refreshed(ours, redis, 1)
        _served(publisher, 200, 1)
        state = ours.ask("state")
        if state != {"feeds": FEEDS, "entries": FEEDS * (ENTRIES + 1)}:
            raise RuntimeError(f"not all news have come: {state}")
    each = same_bytes / FEEDS / repeats
    # The reply with a document has two more fields, its type and its length.
    return Polled(same, unchanged, news, each, each + 70)


def _mode(publisher: Child, name: str) -> None:
    publisher.ask("mode", name=name)


def _served(publisher: Child, status: int, repeats: int) -> None:
    served = publisher.ask("served")
    if served != {str(status): FEEDS * repeats}:
        raise RuntimeError(f"the publisher was asked otherwise than planned: {served}")


def _refreshed(ours: Child, redis: int, repeats: int) -> Work:
    own, store = _spent(ours, redis)
    for _ in range(repeats):
        ours.ask("refresh")
    own_after, store_after = _spent(ours, redis)
    return Work(own_after - own, store_after - store) * (1e6 / FEEDS / repeats)


def _spent(ours: Child, redis: int) -> tuple[float, float]:
    parsers = [pid for pid in children(ours.pid) if pid != redis]
    return processor_seconds(ours.pid, *parsers), processor_seconds(redis)


def handshake(folder: Path) -> Handshake:
    """Measure connections to a server with a self-signed certificate, without a network."""
    program = shutil.which("openssl")
    if program is None:
        return Handshake(Work(ours=1_000), 4_000 + CHAIN_BYTES + PACKET_BYTES, measured=False)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={_HOST}"]
    command += ["-addext", f"subjectAltName=DNS:{_HOST}"]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    spent, size = 0.0, 0
    for _ in range(HANDSHAKES):
        seconds, size = _shake(client, server)
        spent += seconds
    return Handshake(Work(ours=spent / HANDSHAKES * 1e6), size + CHAIN_BYTES + PACKET_BYTES)


def _shake(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[float, int]:
    """Seconds of the client's processor time, and bytes in both directions."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    passive = server.wrap_bio(there, back, server_side=True)
    seconds, size = 0.0, 0
    began = time.thread_time()
    active = client.wrap_bio(incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname=_HOST)
    seconds += time.thread_time() - began
    done = False
    while not done:
        began = time.thread_time()
        done = _step(active)
        seconds += time.thread_time() - began
        size += there.write(outgoing.read())
        _step(passive)
        size += incoming.write(back.read())
    return seconds, size


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
