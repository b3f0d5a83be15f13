"""`microsub check`: examines all invariants while the store is in use, and repairs them.

Between two commands of a poll or a follow, the store is in a state that a check may see, though no user does. So a
finding of one look counts only if two later looks find it again: two, since a store may be busy with the same thing
twice. A repair repeats look and remedy, because repaired damage may have hidden other damage.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from microsub.admin.check.findings import Finding, InTimeline
from microsub.admin.check.look import look
from microsub.admin.follow_repair import FollowRepair
from microsub.base.plaintext import escaped
from microsub.model.reader import Reason
from microsub.redis.protocol import Redis
from microsub.redis.scan import in_batches
from microsub.timelines import Leaving, distinct, repair_arrivals, repair_items, settle, take_out

BETWEEN_LOOKS = 1.0
"""Seconds between a look with findings and the next look, which must confirm them."""

_AGAIN = 2

_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of a check: `repaired` ones are corrected, `left` ones aren't.

    `examined` counts what the last look has read.
    """

    left: tuple[Finding, ...]
    repaired: tuple[Finding, ...] = ()
    examined: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.left

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "clean": self.is_clean,
            "examined": dict(self.examined),
            "findings": [_as_dict(one, repaired=False) for one in self.left],
            "repaired": [_as_dict(one, repaired=True) for one in self.repaired],
        }

    def as_text(self) -> str:
        """For people: a line per finding, then what was examined, then the result."""
        lines = [f"repaired  {one.area}: {one.subject}: {one.what}" for one in self.repaired]
        lines += [f"found   {one.area}: {one.subject}: {one.what}" for one in self.left]
        lines.append("examined: " + ", ".join(f"{name} {count}" for name, count in self.examined.items() if count))
        left = len(self.left)
        if left:
            repairable = sum(one.remedy is not None for one in self.left)
            result = f"{left} {'finding' if left == 1 else 'findings'}, {repairable} of which --repair can repair"
        else:
            result = f"all is well{' now' if self.repaired else ''}"
        return "\n".join(map(escaped, [*lines, result]))


async def check_store(
    redis: Redis,
    follow_repair: FollowRepair,
    *,
    repair: bool = False,
    clock: Callable[[], float] = time.time,
    pause: float = BETWEEN_LOOKS,
) -> CheckReport:
    """Examine a store while any number of processes work on it, and repair what can be repaired if requested."""
    found, examined = await _confirmed(redis, clock, pause)
    first: dict[Finding, None] = {}
    for _ in range(_ROUNDS if repair else 0):
        remediable = [one for one in found if one.remedy is not None]
        first |= dict.fromkeys(found)
        if not remediable:
            break
        await apply(redis, remediable, clock())
        if any(one.remedy == "derive" for one in remediable):
            await follow_repair.run(clock())
        found, examined = await _confirmed(redis, clock, pause)
    left = set(found)
    return CheckReport(tuple(found), tuple(one for one in first if one not in left), examined)


async def _confirmed(
    redis: Redis, clock: Callable[[], float], pause: float
) -> tuple[Sequence[Finding], Mapping[str, int]]:
    """The findings that all looks have in common, each once; only one look if the first finds nothing."""
    latest, examined = await look(redis, clock())
    found = list(dict.fromkeys(latest))
    for _ in range(_AGAIN):
        if not found:
            break
        await asyncio.sleep(pause)
        latest, examined = await look(redis, clock())
        before = set(found)
        found = list(dict.fromkeys(one for one in latest if one in before))
    return found, examined


def _as_dict(finding: Finding, *, repaired: bool) -> dict[str, object]:
    values = asdict(finding)
    return {
        "area": values["area"],
        "subject": values["subject"],
        "what": values["what"],
        "repairable": repaired or finding.remedy is not None,
    }


# --- remedies: they do no harm if their finding no longer exists ------------------------------------------------------


async def apply(redis: Redis, findings: Iterable[Finding], now: float) -> None:
    """Repair what can be repaired here; `admin.follow_repair` handles "derive".

    `now` is Unix time in seconds.
    """
    remedies = [finding.remedy for finding in findings]
    plain = [command for one in remedies if isinstance(one, tuple) for command in one]
    await in_batches(redis, plain)
    by_channel: defaultdict[tuple[str, str | None], list[InTimeline]] = defaultdict(list)
    for one in remedies:
        if isinstance(one, InTimeline):
            by_channel[one.user, one.uid].append(one)
    # Orders of arrival last, since they follow what the channels show.
    for (user, uid), several in sorted(by_channel.items(), key=lambda entry: entry[0][1] is None):
        if uid is None:
            await repair_arrivals(redis, user, sorted({one.item for one in several}, key=int), now)
            continue
        await repair_items(redis, user, uid, distinct(one.item for one in several), now)
        missing = distinct(one.item for one in several if one.missing)
        if missing:
            await take_out(redis, user, uid, missing, Leaving(Reason.SWEPT), now)
        await settle(redis, user, uid, [one.ruled for one in several if one.ruled is not None], now)
