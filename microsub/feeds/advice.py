"""Advice for users on feeds that can't be read."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from microsub.base.texts import N_
from microsub.base.urls import without_credentials
from microsub.feeds.record import FeedRecord

_NO_FEED = re.compile(
    r"this page has|there is no feed|this looks like XML|this is JSON|the document isn't a feed|it is a page now"
)
_STATUS = re.compile(r"the server answered (\d{3})")
_BY_STATUS = {
    "401": N_("It asks for a user name and a password. Give them in its settings, under “Sign-in of this feed”."),
    "403": N_(
        "Its publisher refuses this server. If it needs a user name and a password, give them in its settings; "
        "otherwise another introduction may help there. Or ask its publisher to admit feed readers."
    ),
    "404": N_(
        "There is nothing at its address any more. Look on its site for the new address, and give it in its settings, "
        "under “Address”."
    ),
    "429": N_("Its publisher gets too many requests from this server, which now asks less often."),
}
_BY_REASON = {
    "blocked": N_("Its address is in a private network. The admin of this server can allow that."),
    "connect": N_("Its server can’t be reached. It is tried again by itself; nothing needs to be done."),
    "too_large": N_("Its publisher has to shorten it."),
    "redirects": N_(
        "Its address leads in a circle. Look on its site for another address, and give it in its settings, under "
        "“Address”."
    ),
    "private": N_("Its host has no address. If that lasts, the site has moved or ended."),
    "timeout": N_("Its server doesn’t answer in time. It is tried again by itself; nothing needs to be done."),
    "dns": N_("Its host has no address. If that lasts, the site has moved or ended."),
    "sign_in": N_(
        "What this server signed in with can’t be read any more. Give the user name and the password, or the headers, "
        "in its settings again."
    ),
    "tls": N_("Its server has no valid certificate. Its publisher has to renew it."),
}
_OTHER_DOCUMENT = N_(
    "There is something else than a feed at its address. If that lasts, look on its site for the feed’s address, and "
    "give it in its settings, under “Address”."
)
_REFUSED = N_("The user name and the password, or the headers, were refused. Give them in its settings again.")
ADVICE_IN_SETTINGS = {
    _BY_STATUS["404"]: (
        "address",
        N_("There is nothing at its address any more. Look on its site for the new address, and give it below."),
    ),
    _BY_REASON["redirects"]: (
        "address",
        N_("Its address leads in a circle. Look on its site for another address, and give it below."),
    ),
    _OTHER_DOCUMENT: (
        "address",
        N_(
            "There is something else than a feed at its address. If that lasts, look on its site for the feed’s "
            "address, and give it below."
        ),
    ),
    _BY_STATUS["401"]: (
        "sign-in",
        N_("It asks for a user name and a password. Give them below, under “Sign-in of this feed”."),
    ),
    _BY_STATUS["403"]: (
        "sign-in",
        N_(
            "Its publisher refuses this server. If it needs a user name and a password, give them below; otherwise "
            "another introduction may help. Or ask its publisher to admit feed readers."
        ),
    ),
    _BY_REASON["sign_in"]: (
        "sign-in",
        N_(
            "What this server signed in with can’t be read any more. Give the user name and the password, or the "
            "headers, again below."
        ),
    ),
    _REFUSED: ("sign-in", N_("The user name and the password, or the headers, were refused. Give them again below.")),
}
"""Advice that names a feed's settings: the part of that page with its form, and the words there."""


def site_of(record: FeedRecord) -> str:
    """The address of a feed's site, that of the feed's host if the feed was never read; '' if it isn't known."""
    is_guessed = record.last_success is None and not record.is_internal and not record.home
    return urljoin(without_credentials(record.url), "/") if is_guessed else record.home or ""


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
    if reason == "parse" and _NO_FEED.match(detail) and "moves there" not in detail:
        return _OTHER_DOCUMENT
    return _BY_STATUS[status[1]] if status is not None else _BY_REASON.get(reason, "")
