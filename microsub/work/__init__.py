"""Durable work: what must happen even if the process that began it dies.

There are two forms, and one loop that does the work of both.

- A **queue** (`Stream`, `Stage`) hands each message to one worker, in the order of arrival. A message stays in its
  stream until its handler has had all its effects. If it fails five times, it becomes a dead letter.
- A **calendar** (`Calendar`, `CalendarWork`) hands each member to one worker when it is due, and the work returns when
  it is due again. A member that is planned during its work is done again.

**Claims.** A process that takes work has a claim on it, which lasts only as long as it sends heartbeats. A process
that dies sends none, so another one takes its work over; one that stops hands its claims back at once. A process that
was presumed dead may still be working: its work is cancelled with its next heartbeat, and its end of the claim is
refused. So work is done at least once, and hardly ever by two at a time. It must be idempotent, and end its claim last.

**The loop** (`Loop`) claims as much as there is room for, sends heartbeats for all claims at once, cancels the work of
lost ones, waits until it is woken or time has passed, survives an outage of Redis, and drains. Another kind of
claim is a subclass with five methods: `take`, `keep`, `do`, `hand_back` and `pause`.

**Differences that are kept**, because a guarantee or a round trip depends on them:

- Failures of a message are counted, because a message that kills every worker must stop; failures of Redis aren't.
  Members of a calendar are put off instead, because the next visit starts from the state that it finds.
- Upkeep runs in rounds (`visit`), which are left out after a jump of the clock: at a wrong time, posts look old. The
  hub and the polls run a loop of their own, because they must begin within a second.
- A host ends its claim with `release`, which ignores what was planned meanwhile and reports it: the feeds of a host are
  in another slot, so when the host is due must be computed again there.

To add work, write a handler in your feature's folder, and add one line to `server/worker.py`; see
docs/contributing.md.
"""

from microsub.work.calendar import SHARDS, Calendar, CalendarWork, Claim, calendar_of, run_daily
from microsub.work.dead_letters import DeadLetter, DeadLetters, is_letter_id
from microsub.work.lanes import Lanes
from microsub.work.loop import HAND_BACK_SECONDS, Loop
from microsub.work.queue import Handler, Patience, Stage
from microsub.work.stream import Backlog, Bounds, Message, Stream, backlogs, message_of, size_of

__all__ = [
    "HAND_BACK_SECONDS",
    "SHARDS",
    "Backlog",
    "Bounds",
    "Calendar",
    "CalendarWork",
    "Claim",
    "DeadLetter",
    "DeadLetters",
    "Handler",
    "Lanes",
    "Loop",
    "Message",
    "Patience",
    "Stage",
    "Stream",
    "backlogs",
    "calendar_of",
    "is_letter_id",
    "message_of",
    "run_daily",
    "size_of",
]
