"""A process that writes an index until it is killed: `python -m tests.search.index_writer REDIS_URL FOLDER`."""

import asyncio
import sys
from pathlib import Path

from microsub.backend_file import Applied
from microsub.feeds.events import Events
from microsub.posts.items import Items
from microsub.redis.multiplexer import Multiplexed
from microsub.search.index_follower import FollowTiming, IndexFollower
from microsub.search.replica import IndexFolder


async def main(url: str, path: str) -> None:
    redis = Multiplexed(url)
    timing = FollowTiming(pause=0.001, busy=0.001, compare=0.01, attempt=0.01, failure=0.01)
    folder = IndexFolder(Path(path))
    follower = IndexFollower(redis, Items(redis), Events(redis), folder, Applied(redis).instance, timing=timing)
    print("begun", flush=True)
    await follower.run_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
