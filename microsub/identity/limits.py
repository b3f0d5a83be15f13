"""All rate limits and lifetimes of identity.

Each process counts `RateLimit`s for itself; `GrowingPauses` are counted in Redis for all processes. Quotas and requests
per minute of users are in backend.json (`quotas`). "Network" is a client's IPv4 address, or its /64 of IPv6; private
addresses, which may be those of a proxy, are exempt from limits on starting a sign-in. Lifetimes are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from microsub.base.rate_limits import AT_ONCE, GrowingPauses, RateLimit, SharedPlaces

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
CHALLENGES = GrowingPauses("challenges for a passkey", "network", free=60, first=1, longest=1)
CHALLENGES_OF_WIDE_NETWORK = GrowingPauses("challenges for a passkey", "/48 of IPv6", free=600, first=0.1, longest=0.1)
"""Challenges and these counts are kept for five minutes."""
HASHES = RateLimit("right and new passwords", "account", 60)
"""Counted in Redis. Hashing takes time even for a right password."""
PASSWORDS_WAITING = RateLimit("passwords that wait to be checked", "all together", 500, AT_ONCE)
"""Half a minute of waiting, at 0.05 seconds each."""
TURN_OF_WIDE_NETWORK = 10
"""Number of attempts from one /48 that count as one when networks take turns in the queue of passwords."""


@dataclass(frozen=True, slots=True)
class ClientMetadataBounds:
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

NEW_FOLLOWS = RateLimit("new follows", "user without a quota of feeds", 10_000, 86_400)
"""Counted in Redis, by day. An unfollowed feed leaves 5 KB for a month, so following and unfollowing without end would
fill the store. Lists of a few thousand feeds are common.
"""

LISTS_OF_USER = RateLimit("lists of feeds imported", "user", 10)
LISTS_SHARED = SharedPlaces(
    of_user=RateLimit("lists of feeds imported", "user", 1, AT_ONCE),
    in_all=RateLimit("lists of feeds imported", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("lists of feeds imported", "user", 1, 3600),
)
"""A list may have 16 MiB, and following its feeds takes up to two minutes."""
EXPORTS_OF_USER = RateLimit("exports of everything", "user", 4)
EXPORTS_SHARED = SharedPlaces(
    of_user=RateLimit("exports of everything", "user", 1, AT_ONCE),
    in_all=RateLimit("exports of everything", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("exports of everything", "user", 1, 3600),
)
EXPORT_SHARES = 60.0
"""Seconds for which an export takes one of the shared places. A slow reader costs little, and may take hours."""
LARGE_BODIES_OF_USER = RateLimit("bytes of large request bodies", "user", 16 * 1024 * 1024)
"""Bytes of multipart bodies count eight times. Only there does marking a thousand items count as large: 1 MB."""
SEARCHES_OF_USER = RateLimit("searches of posts", "user", 120)
SEARCHES_AT_ONCE = RateLimit("searches of posts", "user", 4, AT_ONCE)
"""A search field that sends each letter makes a few requests a second; nobody reads that many results."""

POLLS_OF_USER = RateLimit("feeds asked at once", "user", 20)
"""By a button on a page. The button polls each feed at most once a minute."""

EVENTS_OF_TOKEN = RateLimit("open event streams", "token", 10, AT_ONCE)
EVENTS_OF_USER = RateLimit("open event streams", "user", 20, AT_ONCE)
EVENTS_OF_NETWORK = RateLimit("open event streams", "network", 200, AT_ONCE)
EVENTS_IN_ALL = RateLimit("open event streams", "all together", 5000, AT_ONCE)
"""In each process. An open stream costs about 30 KB, and up to 80 KB more while its client doesn't read."""
IMAGES_OF_USER = RateLimit("pictures of posts fetched", "user", 600)
IMAGES_AT_ONCE = RateLimit("pictures of posts fetched", "user", 8, AT_ONCE)
IMAGES_IN_ALL = RateLimit("pictures of posts fetched", "all together", 32, AT_ONCE)
"""A picture may have 8 MiB and take 15 seconds; browsers request six at once."""
IMAGES_OF_HALF = RateLimit("pictures of posts fetched", "half of all together", 16, AT_ONCE)
IMAGES_WHEN_BUSY = RateLimit("pictures of posts fetched", "user, where that half is taken", 2, AT_ONCE)
"""So a few users with slow pictures leave places to others."""

MOST_DEVICES = 10
"""Maximum number of devices of a user. Each gets at most one message in five minutes."""
TESTS_OF_USER = RateLimit("test messages to devices", "user", 6)
DEVICES_OF_USER = RateLimit("devices that begin to hear", "user", 30, 3600)
"""A newly added device gets its first message without a pause."""

ANSWERS_OF_USER = RateLimit("answers published on their site", "user", 30)

# Output feeds, which anybody who knows an address may request.

OUTPUTS_OF_NETWORK = RateLimit("replies with output feeds", "network", 300)
OUTPUTS_OF_FEED = RateLimit("replies with output feeds", "output feed", 600)
OUTPUT_GUESSES_OF_NETWORK = RateLimit("addresses that lead to no output feed", "network", 30)
OUTPUTS_SENT_OF_FEED = RateLimit("replies with output feeds that are being sent", "output feed", 50, AT_ONCE)
OUTPUTS_SENT_TO_NETWORK = RateLimit("replies with output feeds that are being sent", "network", 10, AT_ONCE)
OUTPUTS_SENT_IN_ALL = RateLimit("replies with output feeds that are being sent", "all together", 100, AT_ONCE)

# Posts of sources, with their pages and files.

POSTS_OF_SOURCE = RateLimit("requests to post", "source", 120)
POSTED_BYTES_OF_USER = RateLimit("bytes of posts", "user", 16 * 1024 * 1024, 3600)
"""Posts stay stored until upkeep visits the channel, which happens at most every six hours."""
FILES_OF_USER = RateLimit("files sent", "user", 60)
FILES_AT_ONCE = RateLimit("requests with files", "user", 2, AT_ONCE)
FILES_IN_ALL = RateLimit("requests with files", "all together", 8, AT_ONCE)
"""A file may have 10 MiB, which are held in memory."""
POSTED_OF_NETWORK = RateLimit("pages and files of what was posted", "network", 600)
POSTED_GUESSES_OF_NETWORK = RateLimit("addresses that lead to nothing posted", "network", 30)


# Webmentions, which anybody may send. Each makes the server fetch a source of up to 1 MB.

MENTIONS_OF_NETWORK = RateLimit("webmentions", "network", 60)
MENTIONS_OF_SITE = RateLimit("webmentions", "host of the source", 30)
MENTIONS_OF_USER = RateLimit("webmentions", "user whose page is meant", 120)


@dataclass(frozen=True, slots=True)
class UnknownTokens:
    """Requests per minute to a user's provider about unknown tokens, counted in Redis; 60 in all.

    `known`: from networks that sent a valid token lately; `first`: the first ones of any network; `rest`: further
    ones. `of_…`: how many of them one network may use (`of_first`: in IPv6, one /48).
    """

    known: int = 20
    of_known: int = 10
    first: int = 24
    of_first: int = 2
    rest: int = 16
    of_rest: int = 16


HOUR = 3600
DAY = 86_400

# Sessions of our own pages.

SESSION = 30 * DAY
"""From the last visit until a session ends."""
SESSION_SECRET = 1 * DAY
"""Until the secret of a session is renewed."""
SESSION_OVERLAP = 1 * DAY
"""Maximum time for which the old secret stays valid after a renewal: the reply with the new one may get lost."""
SESSION_SETTLED = 60
"""How long the old secret stays valid after the first request with the new one, for requests in progress."""
VISIT_NOTED = 300
"""Minimum time between two recorded visits of a session, so that not every request writes."""
KNOWN_BROWSER = 400 * DAY
"""How long a browser stays known after a user has signed in with it."""
CONFIRMATION = 600
"""How long after a sign-in or a confirmation a user may change password and passkeys."""

# Signing in.

SIGN_IN = 900
"""Maximum time at the provider, where people may have to look up their password."""
PASSKEY_CHALLENGE = 300
INVITATION = 1 * DAY
"""Lifetime of a one-time link."""
ATTEMPTS = 1 * DAY
"""Time without an attempt after which wrong passwords are counted from zero again."""

# Codes, tokens and grants of apps.

CODE = 120
"""A code takes seconds from the browser to the app."""
CODE_REPEAT = 10
"""How long an identical exchange of a code or refresh token gets the same reply: some apps send it twice."""
CODE_KEPT = 1 * HOUR
"""How long a second use of a code is noticed."""
ACCESS_TOKEN = 180 * DAY
GRANT = 365 * DAY
"""Lifetime of a refresh token from the last renewal."""
TOKEN_OVERLAP = 600
"""How long older access tokens stay valid after a renewal, for requests in progress."""
ENDED_TOKEN = 1 * DAY
"""How long a replaced token is remembered as ended."""

# Tokens of other providers. backend.json says how long a valid answer is cached (`identity.token_cache`).

KNOWN_NETWORK = 30 * DAY
"""How long a network stays known after it sent a valid token."""
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
REGISTERED = 60.0
"""How long it is cached whether a user registered themselves, which never changes."""
MENTION_PAGES = 10.0
"""How long the users' pages that receive webmentions are cached."""
PROFILE_PAGE = 300
"""How long apps may cache the profile page of a user without a site."""

# The hub, and the documents of its topics. A subscription makes this server send requests to a stranger's address.

HUB_REQUESTS_OF_NETWORK = RateLimit("requests to the hub", "network", 600)
HUB_REQUESTS_TO_HOST = RateLimit("requests to the hub", "callback host", 600)
"""Enough for a starting instance, which sends a burst, then five a second."""
HUB_UNKNOWN_OF_NETWORK = RateLimit("requests to the hub for what is no topic", "network", 60)
HUB_PUBLISHES_OF_TOPIC = RateLimit("notices that a topic has changed", "topic", 60)
TOPICS_OF_NETWORK = RateLimit("documents of topics", "network", 300)
