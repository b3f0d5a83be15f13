"""Advice for users on feeds that can't be read."""

from __future__ import annotations

import re

from microsub.base.texts import N_
from microsub.base.urls import without_credentials
from microsub.feeds.condition import FeedCondition
from microsub.feeds.record import FeedRecord

_STATUS = re.compile(r"the server answered (\d{3})")
_BY_STATUS = {
    "401": N_("It asks for a user name and a password. Give them in its settings, under “Sign-in of this feed”."),
    "403": N_(
        "Its publisher refuses this server. If it needs a user name and a password, give them in its settings; "
        "otherwise another introduction may help there. Or ask its publisher to admit feed readers."
    ),
    "404": N_("There is nothing at its address any more. Look on its site for the new address, and follow that."),
    "429": N_("Its publisher gets too many requests from this server, which now asks less often."),
}
_BY_REASON = {
    "blocked": N_("Its address is in a private network. The admin of this server can allow that."),
    "connect": N_("Its server can’t be reached. It is tried again by itself; nothing needs to be done."),
    "too_large": N_("Its publisher has to shorten it."),
    "redirects": N_("Its address leads in a circle. Look on its site for another address, and follow that."),
    "private": N_("Its host has no address. If that lasts, the site has moved or ended."),
    "timeout": N_("Its server doesn’t answer in time. It is tried again by itself; nothing needs to be done."),
    "dns": N_("Its host has no address. If that lasts, the site has moved or ended."),
    "sign_in": N_(
        "What this server signed in with can’t be read any more. Give the user name and the password, or the headers, "
        "in its settings again."
    ),
    "tls": N_("Its server has no valid certificate. Its publisher has to renew it."),
}
_REFUSED = N_("The user name and the password, or the headers, were refused. Give them in its settings again.")
ADVICE_IN_SETTINGS = {
    _BY_STATUS["401"]: N_("It asks for a user name and a password. Give them below, under “Sign-in of this feed”."),
    _BY_STATUS["403"]: N_(
        "Its publisher refuses this server. If it needs a user name and a password, give them below; otherwise another "
        "introduction may help. Or ask its publisher to admit feed readers."
    ),
    _BY_REASON["sign_in"]: N_(
        "What this server signed in with can’t be read any more. Give the user name and the password, or the headers, "
        "again below."
    ),
    _REFUSED: N_("The user name and the password, or the headers, were refused. Give them again below."),
}
"""Advice that names a feed's settings, and its words on that page, which has the form for the sign-in."""


ENDED = N_("The publisher says this feed is permanently gone, so it is no longer checked.")


def trouble_with(record: FeedRecord, now: float) -> tuple[str, ...]:
    """Why a feed can't be read, and what a user can do, in words to translate; nothing if it can be read."""
    found = FeedCondition.of(record, now)
    why = ENDED if record.gone else found.error
    return (why, advice_on(record)) if found.needs_attention else ()


def advice_on(record: FeedRecord) -> str:
    """What a user can do about a feed that can't be read, in words to translate; '' if there is nothing to say."""
    if record.gone or not record.failures:
        return ""
    error = record.last_error or ""
    reason, _, detail = error.partition(": ")
    status = _STATUS.search(detail)
    if status is not None and status[1] not in _BY_STATUS:
        return N_("Its server has a problem. It is tried again by itself.") if status[1] >= "500" else ""
    if status is not None and status[1] == "401" and without_credentials(record.url) != record.url:
        return _REFUSED
    return _BY_STATUS[status[1]] if status is not None else _BY_REASON.get(reason, "")
