"""Train a dictionary for packed posts (`microsub.posts.packing`): `python scripts/dictionary.py NUMBER [FEED…]`.

It learns from posts that were invented for this project: the blogs of the demo, and the documents of the tests. A
dictionary contains pieces of what it learnt from, so nobody else's posts may be among them; FEEDs, files of real feeds,
are only packed for comparison. An existing dictionary is never overwritten: posts that were packed with it need it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from microsub.formats.parse import parse
from microsub.formats.wire import dump, identified, to_wire
from microsub.posts import packing
from microsub_demo import documents

ROOT = Path(__file__).resolve().parent.parent
SIZE = 8 * 1024
"""Bytes. Twice as much makes posts of real feeds a little larger, not smaller."""
_DAYS = range(0, 60, 20)
_AT = 1_790_000_000.0


def posts_of(body: bytes, content_type: str, url: str) -> list[bytes]:
    """The JSON of a document's posts, without ids."""
    return [dump(to_wire(one)) for one in parse(body, content_type, url).entries]


def invented() -> list[bytes]:
    """The posts of the demo's blogs in all formats on three days, and those expected from the tests' documents."""
    base, found = "https://blog.example", dict[bytes, None]()
    for path in documents.feed_paths():
        for day in _DAYS:
            there = documents.document(path, _AT + day * 86_400, base)
            if there is not None:
                found |= dict.fromkeys(posts_of(there.body, there.content_type, base + path))
    for file in sorted((ROOT / "tests/data/formats").glob("*.jf2.json")):
        for one in orjson.loads(file.read_bytes()).get("items", ()):
            # Names in parentheses are what the tests expect besides.
            found[dump({name: value for name, value in one.items() if not name.startswith("(")})] = None
    return [identified(one, str(100_003 * (place + 1)), str(37 * place)) for place, one in enumerate(found)]


def train(number: int) -> bytes:
    """A dictionary with that number."""
    content = bytearray(packing.zstd.train_dict(invented(), SIZE).dict_content)
    content[4:8] = number.to_bytes(4, "little")  # RFC 8878, section 5
    return bytes(content)


def main(number: int, feeds: list[Path]) -> None:
    """Write the dictionary if there is none of that number, and print how small it makes the posts of feeds."""
    path = ROOT / f"microsub/posts/dictionaries/{number}.zdict"
    if not path.exists():
        path.write_bytes(train(number))
    chosen = packing.zstd.ZstdDict(path.read_bytes())
    for file in feeds:
        posts = posts_of(file.read_bytes(), "application/xml", "https://feed.example/")
        after = sum(len(packing.zstd.compress(one, packing.LEVEL, zstd_dict=chosen)) for one in posts)
        print(f"{file.name}: {len(posts)} posts, {after / sum(map(len, posts)):.3f} of their size")


if __name__ == "__main__":
    main(int(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
