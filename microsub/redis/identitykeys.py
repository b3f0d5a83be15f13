"""The Redis keys by which people sign in, each named once; written and read as those of `redis.keys`, of which they are
a part.

What is secret stands here as a hash only: SHA-256 of what is random anyway, argon2 of what people think up.
"""

from __future__ import annotations

from collections.abc import Callable

# --- local sign-in -----------------------------------------------------------------------------------------------


def credentials(name: str) -> str:
    """Hash: `password` (argon2id in PHC form), `changed` (Unix time), `handle` (what the user's passkeys call
    them). Lifetime: permanent, until the user is disabled. `identity.store.credentials`.
    """
    return f"user:{{{name}}}:credentials"


def passkeys(name: str) -> str:
    """Hash: credential id in base64url → JSON: `name`, `key` (public), `count`, `created`, `used`, `transports`.
    Lifetime: permanent, until the user is disabled. `identity.store.credentials`.
    """
    return f"user:{{{name}}}:passkeys"


def invitation(name: str) -> str:
    """String: SHA-256 of the one-time link by which the user chooses how to sign in. Lifetime: 24 hours, once.
    `identity.store.credentials`.
    """
    return f"user:{{{name}}}:invitation"


def devices(name: str) -> str:
    """Sorted set: SHA-256 of a cookie by Unix time of the last sign-in there; such devices have an allowance of
    attempts of their own. Lifetime: 400 days after the last one. `identity.store.credentials`.
    """
    return f"user:{{{name}}}:devices"


def confirmed(name: str, session: str) -> str:
    """String: empty; in the session of that id the user has just shown again who they are. Lifetime: 10 minutes.
    `identity.store.credentials`.
    """
    return f"user:{{{name}}}:confirmed:{session}"


def handles() -> str:
    """Hash: handle that passkeys give → user. Permanent, members go with their users. `identity.store.credentials`."""
    return "identity:handles"


def ceremony(digest: str) -> str:
    """String: JSON of a passkey's challenge, and for whom it was made; by SHA-256 of the secret that the browser was
    given with it; or for whom the sign-in link is that the server shows at its start. Lifetime: 5 minutes, once.
    `identity.store.credentials`.
    """
    return f"identity:ceremony:{digest}"


def attempts(digest: str) -> str:
    """Hash: `count` of attempts that failed or are under way, `until` (Unix time of the next that is let through); by
    SHA-256 of what is counted: a network, a device. Lifetime: 24 hours after the last.
    `identity.store.credentials`.
    """
    return f"identity:attempts:{digest}"


def in_minute(digest: str, minute: str) -> str:
    """String: how often it happened in that minute (Unix time divided by 60); by SHA-256 of what is counted. Lifetime:
    two minutes. `identity.store.credentials`.
    """
    return f"identity:minute:{digest}:{minute}"


# --- tokens of other providers -----------------------------------------------------------------------------------


def foreign(name: str) -> str:
    """Sorted set: digest of each token that the user's own provider has vouched for (`keys.token`) by the Unix time of
    the end of that record. Lifetime: that of the last of them. `identity.store.foreign`.
    """
    return f"user:{{{name}}}:foreign"


def foreign_checks(name: str) -> str:
    """Hash: `known`, `first`, `rest` → how many unknown tokens the user's provider was asked about this minute out of
    each share; `known <digest>` … the same by the SHA-256 of the network that they came from. Lifetime: a minute.
    `identity.store.foreign`.
    """
    return f"user:{{{name}}}:foreign:checks"


def foreign_networks(name: str) -> str:
    """Sorted set: SHA-256 of each network from which a good token of the user's own provider came, by Unix time of the
    last. Lifetime: 30 days after that; 50 at most. `identity.store.foreign`.
    """
    return f"user:{{{name}}}:foreign:networks"


def foreign_refused(name: str, digest: str) -> str:
    """String: why the user's provider doesn't vouch for that token, or couldn't be asked; or that it was one of ours,
    which has ended. Lifetime: a minute, or seconds; a day. `identity.store.foreign`, `identity.store.accounts`.
    """
    return f"user:{{{name}}}:foreign:refused:{digest}"


def foreign_owner(digest: str) -> str:
    """String: the user whose provider vouched for that token, to find them at the address without a name. Lifetime: as
    the token's record. `identity.store.foreign`.
    """
    return f"foreign:{digest}"


# --- sessions of our own pages -----------------------------------------------------------------------------------


def session(name: str, digest: str) -> str:
    """Hash: `id`, `me`, `how`, `device`, `created`, `seen`, `renewed` (Unix time), `salt`, `next` and `previous`
    (digests). Lifetime: 30 days from the last visit; 24 h after it was renewed. `identity.store.sessions`.
    """
    return f"user:{{{name}}}:session:{digest}"


def sessions(name: str) -> str:
    """Set: digests of the user's sessions. Lifetime: as the last session. `identity.store.sessions`."""
    return f"user:{{{name}}}:sessions"


def sign_in(digest: str) -> str:
    """String: JSON of a sign-in under way (whose, with which provider, in which browser, where to afterwards), by
    SHA-256 of its `state`. Lifetime: 15 minutes, once. `identity.store.sessions`.
    """
    return f"identity:sign-in:{digest}"


# --- our own IndieAuth server ------------------------------------------------------------------------------------


def code(name: str, digest: str) -> str:
    """Hash, an authorization code of our own IndieAuth server: `client`, `title`, `redirect`, `scope`, `challenge`,
    `seed`, `expires`, `used`, `use`, `grant`, `source` (id of the one that the app is to post to). Lifetime: an hour.
    `identity.store.grants`.
    """
    return f"user:{{{name}}}:code:{digest}"


def grant(name: str, grant_id: str) -> str:
    """Hash, what an app may do: `client`, `title`, `scope`, `created`, `renewed`, `expires`, `refresh` and `before`
    (SHA-256 of the refresh token and of the one before), `seed`, `before_seed`, `tokens`, `source` (where the app posts
    to, if anywhere), `used` (Unix time at which one of its tokens was used last, to within minutes). Lifetime: a year
    after its last renewal. `identity.store.grants`.
    """
    return f"user:{{{name}}}:grant:{grant_id}"


def grants(name: str) -> str:
    """Set: ids of the user's grants. Lifetime: permanent. `identity.store.grants`."""
    return f"user:{{{name}}}:grants"


# --- how much is asked -------------------------------------------------------------------------------------------


def follows(name: str, day: str) -> str:
    """String: how many feeds the user has begun to follow in apps on that day (Unix time divided by 86,400).
    Lifetime: two days. `timelines.channels`.
    """
    return f"user:{{{name}}}:follows:{day}"


USER_KEYS: tuple[Callable[[str], str], ...] = (
    *(credentials, passkeys, invitation, devices),
    *(foreign, foreign_checks, foreign_networks),
    sessions,
    grants,
)
"""The keys that belong to a user, for the user's deletion."""

ENDING: tuple[Callable[[str, str], str], ...] = (foreign_refused, code, confirmed, follows)
"""Further keys of a user, which end by themselves so soon that a deletion needn't look for them."""

USER_LISTS: tuple[tuple[Callable[[str], str], Callable[[str, str], str]], ...] = (
    (sessions, session),
    (grants, grant),
)
"""A set of digests or ids that belongs to a user, and the key of each of its members, for the user's deletion."""
