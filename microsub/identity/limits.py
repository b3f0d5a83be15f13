"""Rate limits of identity, and lifetimes of what it caches. Lifetimes of sessions and tokens are in `accounts`.

Each process counts `RateLimit`s for itself; `GrowingPauses` are counted in Redis for all processes. Quotas and requests
per minute of users are in backend.json (`quotas`). "Network" is a client's IPv4 address, or its /64 of IPv6; private
addresses, which may be those of a proxy, are exempt from limits on starting a sign-in. Lifetimes are in seconds.
"""

from __future__ import annotations

from typing import NamedTuple

from microsub.base.clock import HOUR
from microsub.base.rate_limits import AT_ONCE, GrowingPauses, RateLimit

# Starting a sign-in needs no account, and makes this server fetch a page.

SIGN_INS_OF_NETWORK = RateLimit("sign-ins begun", "network", 20)
SIGN_INS_OF_WIDE_NETWORK = RateLimit("sign-ins begun", "/48 of IPv6", 200)
SIGN_INS_AT_SITE = RateLimit("sign-ins begun with addresses that are no user's", "site", 30)
SIGN_INS_IN_ALL = RateLimit("sign-ins begun", "users' addresses, and others'", 3000)
SIGN_IN_BYTES = RateLimit("bytes that strangers' sign-ins leave in Redis", "all together", 2 * 1024 * 1024)
"""They stay for 15 minutes: 30 MB. A sign-in takes about 700; a page can name addresses of 2,000 characters."""

WAITING_OF_PERSON = RateLimit("sign-ins that wait for another server", "person", 5, AT_ONCE)
WAITING_OF_NETWORK = RateLimit("sign-ins that wait for another server", "network", 5, AT_ONCE)
WAITING_OF_WIDE_NETWORK = RateLimit("sign-ins that wait for another server", "/48 of IPv6", 10, AT_ONCE)
WAITING_AT_SITE = RateLimit("sign-ins that wait for another server", "site of the page or provider", 20, AT_ONCE)
WAITING_IN_ALL = RateLimit("sign-ins that wait for another server", "users' addresses, and others'", 50, AT_ONCE)

# Passwords and passkeys of this server. No account is ever locked: networks have to wait, accounts don't.

PASSWORDS_OF_NETWORK = GrowingPauses("attempts to sign in here", "network", free=10, first=2, longest=900)
PASSWORDS_OF_WIDE_NETWORK = GrowingPauses("attempts to sign in here", "/48 of IPv6", free=100, first=1, longest=30)
PASSWORDS_OF_BROWSER = GrowingPauses("attempts to sign in here", "known browser", free=10, first=1, longest=300)
TURNS_OF_NETWORK = RateLimit("attempts to sign in here that are decided one after the other", "network", 100, AT_ONCE)
CHALLENGES = GrowingPauses("challenges for a passkey", "network", free=60, first=1, longest=1)
CHALLENGES_OF_WIDE_NETWORK = GrowingPauses("challenges for a passkey", "/48 of IPv6", free=600, first=0.1, longest=0.1)
"""Challenges and these counts are kept for five minutes."""
HASHES = RateLimit("right and new passwords", "account", 60)
"""Counted in Redis. Hashing takes time even for a right password."""
PASSWORDS_WAITING = RateLimit("passwords that wait to be checked", "all together", 500, AT_ONCE)
"""Half a minute of waiting, at 0.05 seconds each."""
TURN_OF_WIDE_NETWORK = 10
"""Number of attempts from one /48 that count as one when networks take turns in the queue of passwords."""


class ClientMetadataBounds(NamedTuple):
    """Limits on requests for apps' metadata: per minute for each asker and host; at once, also for all together."""

    of_asker: RateLimit
    to_host: RateLimit
    at_once_of_asker: RateLimit
    at_once_to_host: RateLimit
    at_once: RateLimit


_STRANGERS, _USERS = "apps asked about themselves for strangers", "apps asked about themselves for users"
METADATA_FOR_STRANGERS = ClientMetadataBounds(
    of_asker=RateLimit(_STRANGERS, "network", 20),
    to_host=RateLimit(_STRANGERS, "host", 12),
    at_once_of_asker=RateLimit(_STRANGERS, "network", 2, AT_ONCE),
    at_once_to_host=RateLimit(_STRANGERS, "host", 2, AT_ONCE),
    at_once=RateLimit(_STRANGERS, "all together", 4, AT_ONCE),
)
METADATA_FOR_USERS = ClientMetadataBounds(
    of_asker=RateLimit(_USERS, "user, and network", 90),
    to_host=RateLimit(_USERS, "host", 60),
    at_once_of_asker=RateLimit(_USERS, "user, and network", 4, AT_ONCE),
    at_once_to_host=RateLimit(_USERS, "host", 4, AT_ONCE),
    at_once=RateLimit(_USERS, "all together", 12, AT_ONCE),
)
CONSENTS = GrowingPauses("apps that send a user to the consent page", "user", free=60, first=2, longest=2)

PAGE_CHECKS_OF_NETWORK = RateLimit("page checks", "network", 6)
PAGE_CHECKS_OF_SITE = RateLimit("page checks", "site", 12)
PAGE_CHECKS_IN_ALL = RateLimit("page checks", "all together", 8, AT_ONCE)


# Tokens of other providers. backend.json says how long a valid answer is cached (`identity.token_cache`).

REFUSED_TOKEN = 60
"""How long a refusal is cached."""

# Cached facts about pages, apps and users.

PROFILE = 1.0 * HOUR
PROFILE_FAILURE = 60.0
"""How long the failure to fetch a profile is cached."""
PROFILE_RECENT = 60.0
"""Maximum age of a cached page that decides about access."""
CLIENT = 900.0
CLIENT_FAILURE = 30.0
USER_ADDRESSES = 10.0
"""How long the addresses of all users are cached, so that checking one after the other stays cheap."""
PROFILE_PAGE = 300
"""How long apps may cache the profile page of a user without a site."""
