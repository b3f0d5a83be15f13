"""All rate limits and lifetimes of identity.

`RateLimit`s are counted in each process, `GrowingPauses` in Redis, which all processes share. What users may have and
ask is in backend.json (`quotas`). "Network" is a client's IPv4 address or /64 of IPv6; private addresses, which
may be those of a proxy, are exempt from limits on starting a sign-in. Lifetimes are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from microsub.kit.rate_limits import AT_ONCE, GrowingPauses, RateLimit, SharedPlaces

# Starting a sign-in needs no account, and makes this server fetch a page.

SIGN_INS_OF_NETWORK = RateLimit("sign-ins begun", "network", 20)
SIGN_INS_OF_WIDE_NETWORK = RateLimit("sign-ins begun", "/48 of IPv6", 200)
SIGN_INS_AT_SITE = RateLimit("sign-ins begun with addresses that are no user's", "site", 30)
SIGN_INS_IN_ALL = RateLimit("sign-ins begun", "users' addresses, and others'", 3000)
SIGN_IN_BYTES = RateLimit("bytes that strangers' sign-ins leave in Redis", "all together", 2 * 1024 * 1024)
"""They stay for a quarter of an hour: 30 MB. One takes some 700; a page can name addresses of 2,000 letters."""

WAITING_OF_PERSON = RateLimit("sign-ins that wait for another server", "person", 5, AT_ONCE)
WAITING_OF_NETWORK = RateLimit("sign-ins that wait for another server", "network", 5, AT_ONCE)
WAITING_OF_WIDE_NETWORK = RateLimit("sign-ins that wait for another server", "/48 of IPv6", 10, AT_ONCE)
WAITING_AT_SITE = RateLimit("sign-ins that wait for another server", "site of the page or provider", 20, AT_ONCE)
WAITING_IN_ALL = RateLimit("sign-ins that wait for another server", "users' addresses, and others'", 50, AT_ONCE)

# Passwords and passkeys of this server. No account is locked: networks wait, accounts don't.

PASSWORDS_OF_NETWORK = GrowingPauses("attempts to sign in here", "network", free=10, first=2, longest=900)
PASSWORDS_OF_WIDE_NETWORK = GrowingPauses("attempts to sign in here", "/48 of IPv6", free=100, first=1, longest=30)
PASSWORDS_OF_BROWSER = GrowingPauses("attempts to sign in here", "known browser", free=10, first=1, longest=300)
CHALLENGES = GrowingPauses("challenges for a passkey", "network", free=60, first=1, longest=1)
CHALLENGES_OF_WIDE_NETWORK = GrowingPauses("challenges for a passkey", "/48 of IPv6", free=600, first=0.1, longest=0.1)
"""Each challenge is kept for five minutes, and so are these counts."""
HASHES = RateLimit("right and new passwords", "account", 60)
"""Counted in Redis. Hashing takes time even for a right password."""
PASSWORDS_WAITING = RateLimit("passwords that wait to be checked", "all together", 500, AT_ONCE)
"""Half a minute at a twentieth of a second each."""
TURN_OF_WIDE_NETWORK = 10
"""Attempts from one /48 that count as one when networks take turns in the queue of passwords."""


@dataclass(frozen=True, slots=True)
class ClientMetadataBounds:
    """Requests for apps' metadata: in a minute for each asker and host; at once, also in all."""

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
"""Counted in Redis, by day. A feed that nobody follows any more leaves 5 KB for a month, so who follows and unfollows
without end would fill the store; a list of some thousand feeds is ordinary.
"""

LISTS_OF_USER = RateLimit("lists of feeds imported", "user", 10)
LISTS_SHARED = SharedPlaces(
    of_user=RateLimit("lists of feeds imported", "user", 1, AT_ONCE),
    in_all=RateLimit("lists of feeds imported", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("lists of feeds imported", "user", 1, 3600),
)
"""Each may be of 16 MiB, and is followed for up to a minute or two."""
EXPORTS_OF_USER = RateLimit("exports of everything", "user", 4)
EXPORTS_SHARED = SharedPlaces(
    of_user=RateLimit("exports of everything", "user", 1, AT_ONCE),
    in_all=RateLimit("exports of everything", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("exports of everything", "user", 1, 3600),
)
EXPORT_SHARES = 60.0
"""Seconds for which an export takes one of the places for all: who reads slowly costs little, and may take hours."""
LARGE_BODIES_OF_USER = RateLimit("bytes of large request bodies", "user", 16 * 1024 * 1024)
"""Those of multipart bodies count eight times. A thousand items to be marked are large in none but these: 1 MB."""
SEARCHES_OF_USER = RateLimit("searches of posts", "user", 120)
SEARCHES_AT_ONCE = RateLimit("searches of posts", "user", 4, AT_ONCE)
"""A field that searches with every letter asks a few times a second, and nobody reads so many answers."""

POLLS_OF_USER = RateLimit("feeds asked at once", "user", 20)
"""By a button of a page. No feed is asked so again within a minute."""

EVENTS_OF_TOKEN = RateLimit("open event streams", "token", 10, AT_ONCE)
EVENTS_OF_USER = RateLimit("open event streams", "user", 20, AT_ONCE)
EVENTS_OF_NETWORK = RateLimit("open event streams", "network", 200, AT_ONCE)
EVENTS_IN_ALL = RateLimit("open event streams", "all together", 5000, AT_ONCE)
"""In each process. An open stream costs some 30 KB, and up to 80 KB more while its client doesn't read."""
IMAGES_OF_USER = RateLimit("pictures of posts fetched", "user", 600)
IMAGES_AT_ONCE = RateLimit("pictures of posts fetched", "user", 8, AT_ONCE)
IMAGES_IN_ALL = RateLimit("pictures of posts fetched", "all together", 32, AT_ONCE)
"""Each may be of 8 MiB and take 15 seconds; browsers ask for six at once."""
IMAGES_OF_HALF = RateLimit("pictures of posts fetched", "half of all together", 16, AT_ONCE)
IMAGES_WHEN_BUSY = RateLimit("pictures of posts fetched", "user, where that half is taken", 2, AT_ONCE)
"""Low enough that a few users with slow pictures leave places to others."""

MOST_DEVICES = 10
"""Browsers of one user that hear of new posts. To each goes a message in some minutes at most."""
TESTS_OF_USER = RateLimit("test messages to devices", "user", 6)
DEVICES_OF_USER = RateLimit("devices that begin to hear", "user", 30, 3600)
"""One that begins again has no pause before its next message."""

ANSWERS_OF_USER = RateLimit("answers published on their site", "user", 30)

# Output feeds, which anybody may ask for who knows an address.

OUTPUTS_OF_NETWORK = RateLimit("replies with output feeds", "network", 300)
OUTPUTS_OF_FEED = RateLimit("replies with output feeds", "output feed", 600)
OUTPUT_GUESSES_OF_NETWORK = RateLimit("addresses that lead to no output feed", "network", 30)
OUTPUTS_SENT_OF_FEED = RateLimit("replies with output feeds that are being sent", "output feed", 50, AT_ONCE)
OUTPUTS_SENT_TO_NETWORK = RateLimit("replies with output feeds that are being sent", "network", 10, AT_ONCE)
OUTPUTS_SENT_IN_ALL = RateLimit("replies with output feeds that are being sent", "all together", 100, AT_ONCE)

# What sources post, and the pages and files of it.

POSTS_OF_SOURCE = RateLimit("requests to post", "source", 120)
POSTED_BYTES_OF_USER = RateLimit("bytes of posts", "user", 16 * 1024 * 1024, 3600)
"""Posts stay stored until a channel is cleaned up: every six hours at the earliest."""
FILES_OF_USER = RateLimit("files sent", "user", 60)
FILES_AT_ONCE = RateLimit("requests with files", "user", 2, AT_ONCE)
FILES_IN_ALL = RateLimit("requests with files", "all together", 8, AT_ONCE)
"""Each may be of 10 MiB, which is held in memory."""
POSTED_OF_NETWORK = RateLimit("pages and files of what was posted", "network", 600)
POSTED_GUESSES_OF_NETWORK = RateLimit("addresses that lead to nothing posted", "network", 30)


# Webmentions, which anybody may send. The source of each is asked for up to 1 MB.

MENTIONS_OF_NETWORK = RateLimit("webmentions", "network", 60)
MENTIONS_OF_SITE = RateLimit("webmentions", "host of the source", 30)
MENTIONS_OF_USER = RateLimit("webmentions", "user whose page is meant", 120)


@dataclass(frozen=True, slots=True)
class UnknownTokens:
    """Questions a minute to a user's provider about unknown tokens, counted in Redis.

    All together 60. `known` from networks from which a good token came lately, `first` ones from any network, `rest`
    further ones; and how many of each may be one network's (`of_first`: one /48's, of IPv6).
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
"""Without a visit."""
SESSION_SECRET = 1 * DAY
"""Until a session gets a new secret."""
SESSION_OVERLAP = 1 * DAY
"""For which an old secret is good at most after a new one was given out: the reply with it may get lost."""
SESSION_SETTLED = 60
"""For which the old secret is good once the new one was seen: requests may be under way."""
VISIT_NOTED = 300
"""Until another visit of a session is noted: not every request writes."""
KNOWN_BROWSER = 400 * DAY
"""For which a browser is known in which a user has signed in here."""
CONFIRMATION = 600
"""For which a sign-in, or a confirmation, lets people change by what they sign in."""

# Signing in.

SIGN_IN = 900
"""From leaving for the provider to coming back: people may have to find their password there."""
PASSKEY_CHALLENGE = 300
INVITATION = 1 * DAY
"""Of a one-time link."""
ATTEMPTS = 1 * DAY
"""Without an attempt, after which wrong passwords are counted from zero again."""

# What apps get.

CODE = 120
"""It is on its way from the browser to the app for seconds."""
CODE_REPEAT = 10
"""For which the same exchange of a code or refresh token gets the same answer: some apps ask twice."""
CODE_KEPT = 1 * HOUR
"""For which a second use of a code is noticed."""
ACCESS_TOKEN = 180 * DAY
GRANT = 365 * DAY
"""Of a refresh token, from the last renewal."""
TOKEN_OVERLAP = 600
"""For which older access tokens stay good after a renewal, for requests that are under way."""
ENDED_TOKEN = 1 * DAY
"""For which a token is known to have ended that another one took the place of."""

# Tokens of other providers. How long a good answer is kept is in backend.json (`identity.token_cache`).

KNOWN_NETWORK = 30 * DAY
"""For which a network is known after a good token came from it."""
REFUSED_TOKEN = 60
"""For which a refusal is remembered."""

# What is remembered of pages, apps and users.

PROFILE = 1.0 * HOUR
PROFILE_FAILURE = 60.0
"""For which it is remembered that a profile could not be had."""
PROFILE_RECENT = 60.0
"""For which a page is taken to say the same where somebody is about to be signed in by what it says."""
CLIENT = 900.0
CLIENT_FAILURE = 30.0
USER_ADDRESSES = 10.0
"""For which the addresses of all users are remembered, so that asking for one after the other stays cheap."""
REGISTERED = 60.0
"""For which it is remembered whether a user registered themselves: it never changes."""
MENTION_PAGES = 10.0
"""For which it is remembered whose pages webmentions are taken for."""
PROFILE_PAGE = 300
"""For which apps may keep a page that this server lends to a user."""

# The hub, and the documents of its topics. A subscription makes this server ask a callback that strangers choose.

HUB_REQUESTS_OF_NETWORK = RateLimit("requests to the hub", "network", 600)
HUB_REQUESTS_TO_HOST = RateLimit("requests to the hub", "callback host", 600)
"""Fits the requests of a starting instance: a burst, then five a second."""
HUB_UNKNOWN_OF_NETWORK = RateLimit("requests to the hub for what is no topic", "network", 60)
HUB_PUBLISHES_OF_TOPIC = RateLimit("notices that a topic has changed", "topic", 60)
TOPICS_OF_NETWORK = RateLimit("documents of topics", "network", 300)
