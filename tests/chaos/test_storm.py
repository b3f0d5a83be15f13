"""The short form of the storm; `make chaos` runs the long one."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.chaos.storm import storm
from tests.chaos.verdict import verdict
from tests.support.cluster import Node, running_server
from tests.support.process import Installation

KILLS = int(os.environ.get("CHAOS_KILLS", "16"))
PACE = float(os.environ.get("CHAOS_PACE", "0.05"))
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
APPENDFSYNC = ("always", "everysec")[SEED % 2]
"""If only Redis dies, neither setting loses data: the kernel already has all acknowledged writes."""


@pytest.mark.timeout(600 + KILLS * 10)
async def test_random_deaths_lose_and_double_nothing(tmp_path: Path) -> None:
    """Workers, web processes and Redis die at any moment, and frozen workers return after others have taken over.
    Afterwards all is as if nothing had happened, and as the publishers have it.
    """
    print(f"CHAOS_SEED={SEED}")
    with running_server(tmp_path / "redis", appendonly="yes", appendfsync=APPENDFSYNC) as server:
        await _storm(server, tmp_path)


async def _storm(server: Node, tmp_path: Path) -> None:
    async with storm(server, tmp_path, SEED) as raging:
        await raging.rage(KILLS, PACE)
        await raging.calm()
        wrong = await verdict(raging)  # before any rebuild but Dave's: a rebuild would hide errors of delivery
        await raging.rebuild()
        await raging.calm()
        wrong += [f"{one}, after a rebuild" for one in await verdict(raging)]
        await raging.sweep()
        wrong += [f"{one}, after a sweep" for one in await verdict(raging)]
        redis_url = raging.redis_url
        posts, marks, kills = raging.posts, len(raging.marked), raging.kills
        timelines = [len(await raging.it.rows(user, uid, 5000)) for user, uid in raging.places]
        edits, frozen, rebuilds, repacked = raging.edits, raging.frozen, raging.rebuilds, raging.repacked
        pushed, sent = raging.delivered, raging.sent
    print(
        f"{posts} posts, {pushed} of them pushed, {sent} sent, {edits} edits, timelines of {timelines}, {marks} marks, "
        f"{frozen} frozen, {rebuilds} rebuilds, {repacked} packed again, "
        f"kills: {dict(kills)}",
        file=sys.stderr,
    )
    assert not wrong, f"{len(wrong)} things are wrong: {wrong[:100]}"
    installed = Installation(tmp_path, {"MICROSUB_REDIS_URL": redis_url})
    code, out, err = await installed.run("check", "--json")
    assert code == 0, f"{out}{err}"
