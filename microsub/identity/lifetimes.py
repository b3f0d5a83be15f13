"""All lifetimes of identity, in seconds: how long what is given out, or remembered, is good."""

from __future__ import annotations

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
PROFILE_PAGE = 300
"""For which apps may keep a page that this server lends to a user."""
