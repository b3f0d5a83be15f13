"""The way from a stored post to timelines: streams, stages, look-ups, dead letters."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.delivery.delivery import Delivered, Delivery
    from microsub.delivery.look_ups import Completing, retry_look_ups
    from microsub.delivery.rebuilding import Rebuilding
    from microsub.delivery.reminding import Reminder
    from microsub.delivery.stage import Stages, retry
else:
    __getattr__ = lazy_exports(__name__, __file__)
