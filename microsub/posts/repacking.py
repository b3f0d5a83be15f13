"""Packing of the posts that an earlier version stored, by and by, while they are read and edited.

In layout 8 their JSON was plain, they stored a longer digest that they share with duplicates, in a set of its own, and
fields that are the same as others (`thin`).
Ids are visited in order, and the next one is kept in Redis, so that a process that takes over goes on there. Each post
is packed only if its JSON is still the one that was read: an edit in between is packed already. Repeating it changes
nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace

import structlog

from microsub.posts import duplicates
from microsub.posts.garbage import newest_id
from microsub.posts.items import PIECE, within
from microsub.posts.packing import packed
from microsub.posts.thin import scripted
from microsub.redis import keys
from microsub.redis.lease import leased
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import load

_PACK, _THIN, _CHANGED_IF = load("item_pack"), load("item_thin"), load("compare_and_set")
_BATCH = 50
"""Posts at once: Redis writes them in about two milliseconds, and answers others then."""
_REST = 4.0
"""The pause after a batch, in durations of the batch, so that packing takes a fifth of a processor at most."""
_SET = 100
"""Bytes by which a member in the set of its link's host is smaller than a set of its own."""
_SAMPLE = 5000
"""Number of ids that a dry run visits, evenly spread over all."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RepackingReport:
    """The result: the number of packed `posts`, and their bytes `before` and `after`; `shortened` of them had longer
    digests, and `thinned` ones fields that were the same as others, whose bytes are counted as well.

    With `dry_run` nothing was changed: this is what would be packed, or an estimate of it if there are more ids than
    were looked at (`estimated`). `left`: another process is packing posts, and this one has left them to it.
    """

    posts: int = 0
    shortened: int = 0
    thinned: int = 0
    before: int = 0
    after: int = 0
    dry_run: bool = False
    estimated: bool = False
    left: bool = False

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "freed": self.before - self.after}

    def as_text(self) -> str:
        """For people."""
        if self.left:
            return "another process is packing the posts"
        some = "about " if self.estimated else ""
        did = "would be packed" if self.dry_run else "were packed"
        freed = "would free" if self.dry_run else "freed"
        sizes = f"{_megabytes(self.before - self.after)} of {_megabytes(self.before)}"
        what = f"{self.posts} posts, {self.shortened} digests and fields of {self.thinned} posts"
        return f"{some}{what} {did}, which {freed} {some}{sizes}"


@dataclass(eq=False, repr=False)
class Repacking:
    """Packs the plain posts of a store that was migrated. Any number of workers may call it; one works."""

    redis: Redis
    _: KW_ONLY
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, _now: float = 0) -> RepackingReport:
        """Pack all posts that are still plain, with pauses. Raises StoreError; the next call goes on from there."""
        report = RepackingReport()
        if await self.redis.command("GET", keys.packing()) is None:
            return report
        async with leased(self.redis, "packing") as lease:
            if lease is None:
                return RepackingReport(left=True)
            while (first := await self.redis.command("GET", keys.packing())) is not None:
                began = time.monotonic()
                ids = range(int(first), min(int(first) + _BATCH, await newest_id(self.redis) + 1))
                if not ids:
                    await self.redis.command("DEL", keys.packing())
                    log.info("all posts are packed", **report.as_dict())
                    break
                report = await self._batch(ids, report)
                await self.redis.command("SET", keys.packing(), ids.stop, "XX")
                await self.pause(_REST * (time.monotonic() - began))
        return report

    async def foresee(self) -> RepackingReport:
        """The result that `run` would have; nothing is changed."""
        first, last = int(await self.redis.command("GET", keys.packing()) or 1), await newest_id(self.redis)
        step = max(1, (last + 1 - first) // _SAMPLE)
        report = RepackingReport(dry_run=True, estimated=step > 1)
        ids = range(first, last + 1, step)
        for start in range(0, len(ids), _BATCH):
            report = await self._batch(ids[start : start + _BATCH], report)
        sums = {name: getattr(report, name) * step for name in ("posts", "shortened", "thinned", "before", "after")}
        return replace(report, **sums)

    async def _batch(self, ids: Sequence[int], report: RepackingReport) -> RepackingReport:
        """Pack the plain ones of these posts, a few megabytes at a time, unless it is a dry run."""
        texts = list(map(str, ids))
        report = await self._thin(texts, await self._digests(texts, report))
        stored = await self.redis.pipeline([("HSTRLEN", keys.item(one), "Data") for one in texts])
        left = [(one, size) for one, size in zip(texts, stored, strict=True) if size]
        while left:
            count = within((size for _, size in left), PIECE)
            some, left = [one for one, _ in left[:count]], left[count:]
            # Items without a score are about to be deleted, or those of another server.
            rows = await self.redis.pipeline([("HMGET", keys.item(one), "Data", "score") for one in some])
            plain = {one: data for one, (data, score) in zip(some, rows, strict=True) if data and score is not None}
            found = await asyncio.to_thread(_packed, plain)
            done = list(found)
            if not report.dry_run and found:
                calls = [_PACK(one, plain=plain[one], packed=data) for one, data in found.items()]
                replies = await self.redis.scripts(calls)
                done = [one for one, reply in zip(found, replies, strict=True) if reply]
            report = replace(
                report,
                posts=report.posts + len(done),
                before=report.before + sum(len(plain[one]) for one in done),
                after=report.after + sum(len(found[one]) for one in done),
            )
        return report

    async def _thin(self, ids: Sequence[str], report: RepackingReport) -> RepackingReport:
        """Delete fields of these posts that are the same as others, unless it is a dry run."""
        how = "count" if report.dry_run else "thin"
        sizes = await self.redis.scripts([_THIN(one, how=how, rest=scripted()) for one in ids])
        thinned = report.thinned + sum(size > 0 for size in sizes)
        return replace(report, thinned=thinned, before=report.before + sum(sizes))

    async def _digests(self, ids: Sequence[str], report: RepackingReport) -> RepackingReport:
        """Shorten the digests of these posts and move the sets of their duplicates, unless it is a dry run."""
        rows = await self.redis.pipeline([("HGET", keys.item(one), "twin") for one in ids])
        former = {one: text(row) for one, row in zip(ids, rows, strict=True) if row and duplicates.is_former(text(row))}
        if not former:
            return report
        if not report.dry_run:
            await duplicates.renew(self.redis, dict.fromkeys(former.values()), time.time())
            changes = {one: ("twin", identity, duplicates.short(identity)) for one, identity in former.items()}
            await self.redis.scripts([_CHANGED_IF(record=keys.item(one), fields=what) for one, what in changes.items()])
        before, after = (sum(map(len, each)) for each in (former.values(), map(duplicates.short, former.values())))
        return replace(
            report,
            shortened=report.shortened + len(former),
            before=report.before + before + _SET * len(former),
            after=report.after + after,
        )


def _packed(plain: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of the posts that packing makes smaller."""
    found = {one: packed(data) for one, data in plain.items() if data.startswith(b"{")}
    return {one: data for one, data in found.items() if len(data) < len(plain[one])}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
