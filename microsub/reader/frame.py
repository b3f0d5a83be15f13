"""What all pages of the web interface share: the limit on requests, the list of channels, the effects of changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import StoreError
from microsub.reader.channel_list import ChannelLinks, ChannelList
from microsub.web.display import Display
from microsub.web.routes import Handler, form
from microsub.web.visit import PageSite, PageVisit


class ReaderSite:
    """The site of the web interface.

    `changed` is called after a change of data that backend.json declares. `topics_changed` is called with a user whose
    follows or topics of the hub may have changed, and the time. `keep` keeps choices with a user's account, as texts by
    name; `revise` changes one of them as `Accounts.revise_setting` does.
    """

    def __init__(
        self,
        site: PageSite,
        quotas: UserQuotas,
        channels: ChannelList,
        changed: Callable[[], None],
        topics_changed: Callable[[str, float], Awaitable[object]],
        keep: Callable[[str, Mapping[str, str]], Awaitable[None]],
        revise: Callable[[str, str, str, Callable[[str], str]], Awaitable[None]],
    ) -> None:
        self.site = site
        self.links: Callable[[PageVisit], Awaitable[ChannelLinks]] = channels.links
        """Returns the list of channels next to a page."""
        self._quotas = quotas
        self._changed = changed
        self.topics_changed = topics_changed
        self.keep, self.revise = keep, revise

    async def user(self, visit: PageVisit) -> str:
        """The signed-in user; counts one request. Raises SignInNeeded and TooManyRequests.

        Display settings that only the browser has become those of the account.
        """
        session = visit.require_session()
        await self._quotas.count(session.user, visit.now)
        if not session.display and visit.display != Display():
            with suppress(StoreError):  # a Redis that takes no changes hides no page
                await self.keep(session.user, {"display": visit.display.stored()})
        return session.user

    def change(self, path: str, handler: Handler, again: Handler | None = None, *, is_slow: bool = False) -> Route:
        """A form that changes data declared in backend.json, or the content of the hub's topics.

        `is_slow`: its handler waits for other servers, and takes its `turn` itself to render a page.
        """

        async def handle(visit: PageVisit) -> Response:
            async with nullcontext() if is_slow else visit.turn():
                response = await handler(visit)
            self._changed()
            await self.topics_changed(visit.require_session().user, visit.now)
            return response

        return form(self.site, path, handle, again)
