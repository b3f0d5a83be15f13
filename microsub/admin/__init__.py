"""Periodic jobs of a worker other than polling: the sweep, repair of follows, figures."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.admin.backup import Facts, restore, save
    from microsub.admin.check.command import CheckReport, check_store
    from microsub.admin.figures import Figures
    from microsub.admin.follow_repair import FollowRepair
    from microsub.admin.health import Health, HealthReport
    from microsub.admin.hours import HourFigures, Hours
    from microsub.admin.overview import ServerState, server_state, unless_away
    from microsub.admin.post_bytes import PostBytes
    from microsub.admin.survey import STATES, Survey, followed_feeds
    from microsub.admin.sweep import Sweeping
else:
    __getattr__ = lazy_exports(__name__, __file__)
