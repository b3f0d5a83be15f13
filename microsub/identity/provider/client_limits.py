"""Who has apps asked what they say of themselves, and how many may be asked for them: in a minute, and at once.

An app's address is the choice of whoever opens a page, so this server could be made to ask somebody who never asked for
it, or to wait for many slow ones. Counted within the process, by the client's network, the person and the app's host.
People who are signed in have a budget that strangers can't use up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from microsub.errors import TooManyRequests
from microsub.identity.local.attempts import network_of, site_of
from microsub.identity.sign_in.limits import is_public
from microsub.kit.rate_limits import FixedWindow

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Asker:
    """Who opens the page: a client's address as the server sees it, and who is signed in, empty for strangers."""

    address: str
    user: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """What is counted for them: all addresses of one customer are one, and one person's are too.

        An address that isn't of the internet may be that of a proxy that doesn't tell whom it speaks for: people who
        are signed in don't share a budget for that.
        """
        network = f"network {network_of(self.address)}"
        if not self.user:
            return (network,)
        return (network, f"user {self.user}") if is_public(self.address) else (f"user {self.user}",)

    @property
    def share(self) -> str:
        """Whose share of look-ups of names is used: the person's, a stranger's network's, or nobody's where all
        strangers may come by one address.
        """
        if self.user:
            return f"user {self.user}"
        return f"network {site_of(self.address) or network_of(self.address)}" if is_public(self.address) else ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Requests in a minute for one asker and to one host; and at once for one asker, to one host, and in all."""

    of_asker: int
    to_host: int
    at_once_of_asker: int
    at_once_to_host: int
    at_once: int


OF_STRANGERS = Bounds(of_asker=20, to_host=12, at_once_of_asker=2, at_once_to_host=2, at_once=4)
OF_PEOPLE = Bounds(of_asker=90, to_host=60, at_once_of_asker=4, at_once_to_host=4, at_once=12)


class Crowd:
    """Lets requests to apps begin within `bounds`. `clock` gives seconds. Belongs to one event loop."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._askers = FixedWindow(bounds.of_asker, MINUTE)
        self._hosts = FixedWindow(bounds.to_host, MINUTE)
        self._busy: Counter[str] = Counter()

    def enter(self, asker: Asker, host: str) -> Callable[[], None]:
        """Take a place for a request to `host`, and return what gives it back. Raises TooManyRequests."""
        most = dict.fromkeys(asker.subjects, self._bounds.at_once_of_asker)
        most[f"host {host}"] = self._bounds.at_once_to_host
        most["all"] = self._bounds.at_once
        if any(self._busy[subject] >= limit for subject, limit in most.items()):
            raise TooManyRequests("Too many apps are being asked about themselves just now. Wait a few seconds.", 5)
        now = self._clock()
        within = all(self._askers.allows(subject, now) for subject in asker.subjects)
        # What is refused for its asker doesn't count for the host, which isn't asked.
        if not within or not self._hosts.allows(host, now):
            raise TooManyRequests("Too many apps were asked about themselves within a minute. Wait a minute.", 60)
        self._busy.update(most.keys())
        return lambda: self._leave(tuple(most))

    def _leave(self, subjects: tuple[str, ...]) -> None:
        for subject in subjects:
            self._busy[subject] -= 1
            if not self._busy[subject]:
                del self._busy[subject]
