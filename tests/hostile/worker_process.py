"""A real worker in its own process, so that its memory can be measured: `python -m tests.hostile.worker_process`.

The argument is the URL of a Redis. Only the limits are shorter than in production, and names resolve as in `Names`.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import mf2py  # noqa: F401 - read when the first page comes, and not what that page costs

from microsub.base.urls import host_of
from microsub.fetch import Fetcher, FetchRequest, FetchResult, FetchSettings
from microsub.parsing.pool import ParsePool
from microsub.redis.connect import connect
from microsub.server.parsers import TASKS
from tests.support.polling import world

CERTIFICATES = Path(__file__).parent / "certificates"
BRIEF, SPINS = "brief-", "spins-"
"""Prefixes of hosts whose polls, or documents, end by a time limit. All others have enough time on a busy machine."""

LIMITS = {"total": 2, "idle": 0.6}
PARSE_SECONDS = 1.5
PATIENT = {"total": 600, "idle": 600}
PATIENT_PARSE_SECONDS = 60.0


class Fetchers:
    """One with short limits, and one with long ones."""

    def __init__(self, **options: Any) -> None:
        allowed = (ip_network("127.0.0.1/32"),)
        self._brief, self._patient = (
            Fetcher(FetchSettings(allow_private_networks=allowed, **limits), **options) for limits in (LIMITS, PATIENT)
        )

    async def fetch(self, request: FetchRequest) -> FetchResult:
        return await (self._brief if host_of(request.url).startswith(BRIEF) else self._patient).fetch(request)

    async def aclose(self) -> None:
        await self._brief.aclose()
        await self._patient.aclose()


class Parser(ParsePool):
    """The same for their documents, in the same processes."""

    def __init__(self) -> None:
        super().__init__(TASKS, seconds=PATIENT_PARSE_SECONDS)

    def _limit(self, job: Any) -> float:
        return min(
            super()._limit(job), PARSE_SECONDS if host_of(job.where).startswith(SPINS) else PATIENT_PARSE_SECONDS
        )


class Names:
    """The name service: everything is at 127.0.0.1, the only allowed address, except for the hostile names."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self._asked[host] += 1
        if host.endswith("private.test"):
            return ["10.0.0.1"]
        if host.endswith("mapped.test"):
            return ["::ffff:192.168.0.1"]
        if host.endswith("rebind.test"):
            return ["127.0.0.1" if self._asked[host] % 2 else "169.254.169.254"]
        if host.endswith("nowhere.test"):
            raise OSError("no such name")
        if host.endswith("silent.test"):
            await asyncio.Event().wait()
        if host.endswith("junk.test"):
            return ["localhost", "", "999.1.1.1"]
        if host.endswith("crowd.test"):
            return [f"10.0.{number >> 8}.{number & 255}" for number in range(20_000)]
        return ["127.0.0.1"]


def trust() -> ssl.SSLContext:
    """The certificates that this test trusts: two, one of which has expired."""
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "trusted.pem"))
    context.load_verify_locations(str(CERTIFICATES / "expired.pem"))
    return context


async def main(url: str) -> None:
    """Polls until SIGTERM."""
    redis = await connect(url)
    async with world(redis) as it:
        it.fetcher = Fetchers(resolver=Names(), ssl_context=trust())  # type: ignore[assignment]
        it.parser = Parser()
        worker = it.make_worker(hosts_at_once=250, tick=0.01)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run(grace=0.1)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
