"""The short form of the storm; `make chaos` runs the long one."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.chaos.storm import storm
from tests.support.process import Installation

KILLS = int(os.environ.get("CHAOS_KILLS", "24"))
PACE = float(os.environ.get("CHAOS_PACE", "0.05"))
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.timeout(240 + KILLS * 10)
async def test_nothing_is_lost_doubled_or_forgotten(redis_url: str, tmp_path: Path) -> None:
    """Workers and web processes die by SIGKILL at any moment; afterwards everything is as if they hadn't."""
    print(f"CHAOS_SEED={SEED}")
    async with storm(redis_url, tmp_path, SEED) as raging:
        await raging.rage(KILLS, PACE)
        await raging.calm()
        wrong = await raging.verdict()
        posts, marks, kills = raging.posts, len(raging.marked), raging.kills
        timelines = [len(await raging.it.rows(user, uid, 5000)) for user, uid in raging.places]
    print(f"{posts} posts, timelines of {timelines}, {marks} marks, kills: {dict(kills)}", file=sys.stderr)
    assert wrong == []
    installed = Installation(tmp_path, {"MICROSUB_REDIS_URL": redis_url})
    code, out, err = await installed.run("check", "--json")
    assert code == 0, f"{out}{err}"
