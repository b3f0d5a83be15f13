"""The cost of one parse: `formats.parse` on feeds of about 27 KB, in this process, without a network."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from microsub.formats.parse import parse
from microsub_demo.cast import BY_SLUG, posts
from microsub_demo.documents import WRITERS

FEED_BYTES = 27_000
NOW = 1_780_000_000.0
BASE = "http://blog.example"
SLUGS = {"rss": "salt-and-ladders", "atom": "orrery", "jsonfeed": "kestrel-kettle"}


def feed(format_name: str) -> tuple[bytes, str, int]:
    """A feed of about `FEED_BYTES`, its content type, and its number of entries."""
    write, content_type = WRITERS[format_name]
    blog = BY_SLUG[SLUGS[format_name]]
    window = 1
    while len(body := write(blog, posts(replace(blog, window=window), NOW), BASE)) < FEED_BYTES:
        window += 1
    return body, content_type, window


def parse_costs(repeats: int) -> dict[str, tuple[int, int, float]]:
    """Per format: bytes, entries, and the median time of one parse in milliseconds."""
    costs = {}
    for format_name in SLUGS:
        body, content_type, entries = feed(format_name)
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            parsed = parse(body, f"{BASE}/feed", content_type)
            times.append(time.perf_counter() - began)
        if len(parsed.entries) != entries:
            raise RuntimeError(f"{format_name}: {len(parsed.entries)} of {entries} entries were found")
        costs[format_name] = (len(body), entries, median(times) * 1000)
    return costs
