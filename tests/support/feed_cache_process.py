"""A process of its own that uses the feed cache: `python feed_cache_process.py KIND FOLDER REDIS_URL TASK URL…`.

It says `ready`, waits for a line on standard input, works, and prints what came. Tasks: `fetch` prints the source of
each URL; `write` stores two documents in turns until it is killed; `die` is killed when the new file stands beside
the old one.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from ipaddress import ip_network
from pathlib import Path

from microsub.cache import Fetcher, FetchError, FetchSettings
from tests.support.feed_cache import Place, site


def main(kind: str, folder: str, redis_url: str, task: str, *urls: str) -> None:
    place = Place(kind, Path(folder), redis_url)
    print("ready", flush=True)
    sys.stdin.readline()
    if task == "fetch":
        settings = FetchSettings("tests/1", "", allow_private_networks=(ip_network("127.0.0.0/8"),))
        with place.blocking(fetcher=Fetcher(settings)) as cache:
            print("asking", flush=True)
            for url in urls:
                try:
                    print(cache.fetch(url).source, flush=True)
                except FetchError as error:
                    print(error.reason, flush=True)
    elif task == "write":
        web = site()
        with place.blocking(fetcher=web) as cache:
            for number in itertools.count():
                web.serve(documents()[number % 2], etag=f'"{number}"')
                cache.fetch(urls[0], force=True)
                print(number, flush=True)
    elif task == "die":
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        web = site()
        web.serve(documents()[1], etag='"2"')
        with place.blocking(fetcher=web) as cache:
            cache.fetch(urls[0], force=True)


def documents() -> tuple[bytes, bytes]:
    """Two feeds that can be told apart at any byte, large enough to be written in several pieces."""
    from tests.support.feed_cache import document

    noise = "".join(f"{n * 2654435761 % 2**32:08x}" for n in range(40_000)).encode()
    return tuple(  # type: ignore[return-value]
        document(count).replace(b"</channel>", b"<!--" + noise[count:] + b"--></channel>") for count in (2, 3)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
