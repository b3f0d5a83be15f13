"""Polling of feeds: the plan, one poll, moves, the worker."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.polling.move import Mover
    from microsub.polling.on_demand import PollNow, PollOnRequest, PollReport, free_again, waits_for_refresh
    from microsub.polling.plan import pushed_fields
    from microsub.polling.poll import Poller, PollResult
    from microsub.polling.worker import Turn, Worker, worker_name
else:
    __getattr__ = lazy_exports(__name__, __file__)
