"""Users and their tokens.

A token is `<user>.<secret>`; only the SHA-256 of the whole text is stored, in the user's slot, so that any script on
that user's keys can check it, and a revocation takes effect with the next request.

Tokens of other programs can only read the post store. They are `~<name>.<secret>`: users' names can't contain `~`, so
they are never confused with tokens of apps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from microsub.accounts.credentials import forget_credentials
from microsub.accounts.grants import LONGEST_SECRET, owner_in, revoke_token
from microsub.accounts.records import absent
from microsub.base.clock import DAY
from microsub.base.digests import is_same, new_secret, sha256_hex
from microsub.base.errors import InvalidRequest, StoreIncomplete, Unauthorized, UserDisabled
from microsub.base.plaintext import CONTROLS, escaped
from microsub.model.moments import is_moment
from microsub.model.reader import BUILT_IN, GLOBAL, MOVE, NAME, Credential, FeedMove, Grant, read_moves
from microsub.model.settings import Filters
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as fields_of
from microsub.redis.replies import raw_fields, reading, text, texts
from microsub.redis.scan import listed
from microsub.redis.scripts import batches, load
from microsub.work import calendar_of

ENDED_TOKEN = 1 * DAY
"""How long a replaced token is remembered as ended."""

BUILT_IN_NAMES = tuple(uid.title() for uid in BUILT_IN)
_LONGEST_CLIENT = 200
_STEP = 500
_LISTS = ((keys.tokens, keys.token), (keys.sessions, keys.session), (keys.grants, keys.grant))
_DELETED_LISTS = (*_LISTS, (keys.media, keys.medium))
_FEW = 10
"""Maximum number of users among which the only active one is searched; with more, no user counts as the only one."""
_OWN_FIELDS = frozenset(
    {"me", "token_endpoint", "admin", "created", "disabled", "registered", "shape", "names", "rule_count", MOVE}
)


@dataclass(frozen=True, slots=True)
class User:
    """A user.

    `me` is the profile URL or empty; `token_endpoint` replaces the profile's endpoint for token checks; times are Unix
    seconds; `settings` are further saved texts. A `registered` user created the account by signing in. An `admin` sees
    the server's health. `moves` are feeds that are being moved between the user's channels.
    """

    name: str
    me: str
    created: float = 0.0
    disabled: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    token_endpoint: str | None = None
    registered: bool = False
    admin: bool = False
    moves: tuple[FeedMove, ...] = ()

    @property
    def filters(self) -> Filters:
        """The filter of all channels. Raises StoreDamaged."""
        with reading(keys.user(self.name)):
            return Filters.read(self.settings.get("filters", ""))


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its owner may see it, never with the secret.

    Times are Unix seconds; `expires` None means never; `used` None means not used yet, or that it belongs to a grant.
    `is_given`: created for the user, neither granted to an app nor confirmed by another provider.
    """

    digest: str
    scopes: frozenset[str]
    client: str
    created: float
    expires: float | None = None
    used: float | None = None
    is_given: bool = True


class Accounts:
    """Users and tokens in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add_user(self, name: str, me: str, now: float) -> User:
        """Create the user with the standard channels, or return the existing one unchanged.

        Raises InvalidRequest if the name isn't `[A-Za-z0-9_-]{1,64}`.
        """
        if not NAME.match(name):
            raise InvalidRequest(f"'{name[:80]}' can't be a user name: expected 1 to 64 of A-Z a-z 0-9 _ -")
        await self._create(name, me, now)
        return await self.user(name) or User(name, me)

    async def register(self, name: str, me: str, now: float) -> User:
        """Add a user as `add_user` does, for a person who creates their account by signing in.

        If a user with that name exists, that one is returned.
        """
        await self._create(name, me, now, "registered")
        return await self.user(name) or User(name, me)

    async def is_registered(self, name: str) -> bool:
        """Whether the user created the account by signing in; False if there is no such user."""
        return bool(await self._redis.command("HEXISTS", keys.user(name), "registered"))

    async def _create(self, name: str, me: str, now: float, how: str = "") -> None:
        await self._redis.script(
            load("user_create")(
                name,
                built_in=[keys.channel(name, uid) for uid in BUILT_IN],
                me=me,
                now=now,
                names=BUILT_IN_NAMES,
                how=how,
            )
        )
        # Another slot, so not in the script; if a crash leaves a user unlisted, creating it again lists it.
        await self._redis.command("SADD", keys.users(), name)

    async def user(self, name: str) -> User | None:
        """The user with that name, disabled or not."""
        return read_user(name, await self._redis.command("HGETALL", keys.user(name)))

    async def users(self) -> list[User]:
        """All users by name, including disabled ones."""
        return await self.some(await self.count())

    async def count(self) -> int:
        """The number of users, including disabled ones."""
        return int(await self._redis.command("SCARD", keys.users()))

    async def some(self, count: int, beyond: int = 0) -> list[User]:
        """Up to `count` users in the order of their names, after skipping the first ones."""
        names = sorted(texts(await self._redis.command("SMEMBERS", keys.users())))[beyond : beyond + count]
        replies = await self._redis.pipeline([("HGETALL", keys.user(name)) for name in names])
        found = (read_user(name, reply) for name, reply in zip(names, replies, strict=True))
        return [user for user in found if user is not None]

    async def only_user(self) -> str | None:
        """The only user of this server that isn't disabled; None if there are none or several."""
        if await self._redis.command("SCARD", keys.users()) > _FEW:
            return None
        active = [user.name for user in await self.users() if user.disabled is None]
        return active[0] if len(active) == 1 else None

    async def set_me(self, name: str, me: str) -> None:
        """Change the profile URL; cached facts about foreign tokens are dropped. Raises NotFound."""
        await self._change(name, "me", me, forgets=True)

    async def set_token_endpoint(self, name: str, url: str | None) -> None:
        """Change the endpoint for token checks; None: the profile's. Raises NotFound."""
        await self._change(name, "token_endpoint", url or "", forgets=True)

    async def set_admin(self, name: str, admin: bool) -> None:
        """Change whether the user is an admin. Raises NotFound."""
        await self._change(name, "admin", "1" if admin else "")

    async def set_settings(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Set the given settings of a user, and delete those that are None. Raises NotFound."""
        foreign = _OWN_FIELDS.intersection(settings)
        if foreign:
            raise InvalidRequest(f"unknown user setting '{min(foreign)}'")
        await self._change(name, *(part for key, value in settings.items() for part in (key, value or "")))

    async def revise_setting(self, name: str, setting: str, known: str, revise: Callable[[str], str]) -> None:
        """Set a setting of a user to what `revise` makes of its value; '' is none.

        `known` is the value as the caller has read it. `revise` is called again if another process has changed it
        since, so no change is lost. One round trip, and one for each change meanwhile. Raises NotFound.
        """
        while True:
            call = load("setting_revise")(name, name=setting, before=known, after=revise(known))
            found = await self._redis.script(call)
            if not found:
                raise await absent(self._redis, name)
            if isinstance(found, int):
                return
            known = text(found[0])

    async def disable_user(self, name: str, now: float) -> None:
        """Refuse all tokens of the user until `restore_user`; the data stays. Raises NotFound.

        Password, passkeys and invitation are deleted at once: restored users are invited again. See also `end_access`.
        """
        await self._change(name, "disabled", now, forgets=True)
        await forget_credentials(self._redis, name)

    async def restore_user(self, name: str) -> None:
        """Undo `disable_user`. Raises NotFound."""
        await self._change(name, "disabled", "")

    async def delete_disabled(self, user: User) -> bool:
        """Delete the user and all their data, if disabled since exactly that Unix time.

        For the sweep: each step deletes one channel or 500 tokens, so that Redis is blocked only briefly. May be
        interrupted, and is repeated until the user is gone. False if the user isn't disabled, was disabled again
        meanwhile, or gets new channels: then the rest stays. The repair of follows cleans the feeds' own lists of
        followers.
        """
        if user.disabled is None:
            return False
        redis, name, since = self._redis, user.name, repr(user.disabled)
        lists_of_channels = [keys.channels(name), keys.removed_channels(name)]

        async def step(uid: str, *doomed: str) -> bool:
            return bool(await redis.script(load("user_delete")(name, doomed=doomed, since=since, uid=uid)))

        lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in lists_of_channels])
        for uid in (text(one) for reply in lists for one in reply):
            if not await step(uid, keys.posts(name, uid), *(key(name, uid) for key in keys.CHANNEL_KEYS)):
                return False
        for list_of, member in _DELETED_LISTS:
            for batch in batches(texts(await redis.command("SMEMBERS", list_of(name))), _STEP):
                if not await step("", *(member(name, one) for one in batch)):
                    return False
        for name_of in texts(await redis.command("SMEMBERS", keys.outputs(name))):
            if not await step("", *(key(name, name_of) for key in keys.OUTPUT_KEYS)):
                return False
        # Before the end, since a user with the same name may be created and get its own limits.
        await redis.command("HDEL", keys.settings(), f"user:{name}", f"quotas:{name}")
        await calendar_of(redis, "follows").forget(name)
        rules = keys.muted(name, GLOBAL), keys.blocked(name, GLOBAL)
        last = int(user.disabled // DAY)
        days = (keys.follows(name, str(day)) for day in (last - 1, last))
        if not await step("", *rules, *days, *(key(name) for key in keys.USER_KEYS)):
            return False
        # In another slot; listed again if the same user was created meanwhile.
        await redis.command("SREM", keys.users(), name)
        await redis.command("ZREM", keys.seen(), name)
        if await redis.command("EXISTS", keys.user(name)):
            await redis.command("SADD", keys.users(), name)
        return True

    async def end_access(self, name: str) -> None:
        """End all tokens, sessions and grants permanently.

        For a disabled user, who can't get new ones. May be repeated; a list is deleted after everything in it.
        """
        for list_of, member in _LISTS:
            for batch in batches(texts(await self._redis.command("SMEMBERS", list_of(name))), _STEP):
                await self._redis.command("DEL", *(member(name, one) for one in batch))
            await self._redis.command("DEL", list_of(name))

    async def create_token(
        self, user: str, scopes: Iterable[str], client: str, now: float, expires: float | None = None,
        *, mark: str = "", secret: str = "",
    ) -> str:  # fmt: skip
        """Create a token and return it, the only time that it is shown.

        A token with a `mark`, which users can't choose, ends the user's earlier ones with the same mark. `secret` is
        its random part, by default 256 bits. Raises
        NotFound for an unknown or disabled user, InvalidRequest if the end isn't before the year 10000 or the client
        isn't a line of at most 200 characters.
        """
        if len(client) > _LONGEST_CLIENT or CONTROLS.search(client):
            raise InvalidRequest(f"'client' is '{escaped(client[:80])}': expected one line of at most 200 characters")
        if expires is not None and not is_moment(expires):
            raise InvalidRequest(f"'expires' is {expires:g}: expected a Unix time before the year 10000")
        token = f"{user}.{secret or new_secret()}"
        digest = sha256_hex(token)
        made = await self._redis.script(
            load("token_create")(
                user,
                digest,
                digest=digest,
                scopes=" ".join(sorted(scopes)),
                client=client,
                now=now,
                expires="" if expires is None else expires,
                mark=mark,
                remembered=ENDED_TOKEN,
            )
        )
        if not made:
            raise await absent(self._redis, user)
        return token

    async def tokens(self, user: str) -> list[Token]:
        """The user's tokens that haven't expired, oldest first. Removes expired digests."""
        rows = await listed(self._redis, keys.tokens(user), lambda digest: keys.token(user, digest))
        found = [_token(user, digest, row) for digest, row in rows.items()]
        return sorted(found, key=lambda token: (token.created, token.digest))

    async def revoke(self, user: str, digest_prefix: str) -> bool:
        """Revoke the one token whose digest has that prefix, with everything else granted to its app.

        Returns whether it existed. Raises InvalidRequest if several tokens match, or the prefix is empty.
        """
        digests = texts(await self._redis.command("SMEMBERS", keys.tokens(user)))
        matching = [digest for digest in digests if digest.startswith(digest_prefix)]
        if not digest_prefix or len(matching) > 1:
            raise InvalidRequest(
                f"{len(matching)} tokens have an ID that begins with '{digest_prefix}': give a longer prefix"
            )
        return bool(matching) and await revoke_token(self._redis, user, matching[0])

    @staticmethod
    def credential(token: str) -> Credential | None:
        """A token as received with a request; None if it can't be one of ours. Checks nothing else."""
        user = owner_in(token)
        return None if user is None else Credential(user, sha256_hex(token))

    async def verify(self, credential: Credential, now: float) -> Grant:
        """The access of the token. Raises Unauthorized if it is invalid or its user is disabled."""
        (scope, expires), disabled = await self._redis.pipeline(
            [
                ("HMGET", keys.token(credential.user, credential.digest), "scope", "expires"),
                ("HEXISTS", keys.user(credential.user), "disabled"),
            ]
        )
        if scope is None or (expires is not None and float(expires) <= now):
            raise unauthorized("token")
        if disabled:
            raise unauthorized("disabled")
        return grant(credential.user, scope)

    async def _change(self, name: str, *pairs: Arg, forgets: bool = False) -> None:
        theirs = (keys.foreign(name), keys.foreign_networks(name), keys.posting(name))
        forgotten = theirs if forgets else ()
        pattern = keys.token(name, "*") if forgets else ""
        names = {"record": keys.user(name), "others": forgotten}
        call = load("record_change")(**names, field="me", token_pattern=pattern, fields=pairs)
        if not await self._redis.script(call):
            raise await absent(self._redis, name)


async def count_posts(redis: Redis, added: Mapping[str, int]) -> list[Any]:
    """Add to the bytes of these users' own posts: whether each is registered, and the new count.

    Something else for a user whose master of a cluster is away. One round trip.
    """
    try:
        return await redis.scripts([load("posts_count")(user, how="add", size=size) for user, size in added.items()])
    except StoreIncomplete as error:
        return error.replies


async def set_posts(redis: Redis, user: str, size: int) -> None:
    """Set the bytes of the user's own posts; nothing happens if there is no such user."""
    await redis.script(load("posts_count")(user, how="set", size=size))


def grant(user: str, scope: bytes, *, behind: bool = False) -> Grant:
    """A Grant from the scopes as stored in Redis."""
    return Grant(user, _scopes(scope), behind)


@lru_cache(maxsize=1000)
def _scopes(scope: bytes) -> frozenset[str]:
    return frozenset(text(scope).split())


def unauthorized(state: str) -> Unauthorized:
    """The error for the state of a credential that a script returned: `token` or `disabled`."""
    if state == "disabled":
        return UserDisabled("the user of this token is disabled")
    return Unauthorized("the token is unknown, expired or revoked")


def read_user(name: str, reply: list[bytes]) -> User | None:
    """The user of that name, from the reply to HGETALL; None if there is none."""
    fields = fields_of(reply)
    if not fields:
        return None
    settings = {key: value for key, value in fields.items() if key.partition(" ")[0] not in _OWN_FIELDS}
    endpoint, registered = fields.get("token_endpoint"), "registered" in fields
    with reading(keys.user(name)):
        disabled = float(fields["disabled"]) if "disabled" in fields else None
        created, moves = float(fields["created"]), tuple(read_moves(fields))
        return User(name, fields["me"], created, disabled, settings, endpoint, registered, "admin" in fields, moves)


def _token(user: str, digest: str, fields: Mapping[str, str]) -> Token:
    with reading(keys.token(user, digest)):
        return Token(
            digest,
            frozenset(fields["scope"].split()),
            fields["client"],
            float(fields["created"]),
            float(fields["expires"]) if "expires" in fields else None,
            float(fields["used"]) if "used" in fields else None,
            fields.keys().isdisjoint({"grant", "foreign"}),
        )


MARK = "~"
_NOBODY = "0" * 64


class ServiceTokens:
    """The tokens by the name of the program that uses them; one for each."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, name: str, now: float, expires: float | None = None) -> str:
        """Create a token and return it, the only time that it is shown.

        Raises InvalidRequest if the name isn't `[A-Za-z0-9_-]{1,64}` or already has a token, and if the end isn't
        before the year 10000.
        """
        if expires is not None and not is_moment(expires):
            raise InvalidRequest(f"'expires' is {expires:g}: expected a Unix time before the year 10000")
        if not NAME.match(name):
            raise InvalidRequest(f"'{name[:80]}' can't be the name of a program: expected 1 to 64 of A-Z a-z 0-9 _ -")
        token = f"{MARK}{name}.{new_secret()}"
        record: dict[str, Any] = {"digest": sha256_hex(token), "created": now}
        if expires is not None:
            record["expires"] = expires
        if not await self._redis.command("HSETNX", keys.service_tokens(), name, orjson.dumps(record)):
            raise InvalidRequest(f"there is a token for '{name}' already: revoke it first, or choose another name")
        return token

    async def all(self) -> list[tuple[str, float, float | None]]:
        """The name of each token, when it was made, and when it expires, None for never; also expired ones."""
        rows = raw_fields(await self._redis.command("HGETALL", keys.service_tokens()))
        found = []
        for name, row in sorted(rows.items()):
            with reading(f"{keys.service_tokens()} {name}"):
                record = orjson.loads(row)
                found.append((name, record["created"], record.get("expires")))
        return found

    async def revoke(self, name: str) -> bool:
        """Revoke the program's token, from the next request on. Returns whether it existed."""
        return bool(await self._redis.command("HDEL", keys.service_tokens(), name))

    async def verify(self, token: str, now: float) -> str:
        """The name of the program with this token. Raises Unauthorized if it is invalid."""
        mark, name, secret = token[:1], *token[1:].partition(".")[::2]
        if mark != MARK or not secret or len(token) > LONGEST_SECRET or not NAME.match(name):
            raise Unauthorized("the token is not valid: expected one that 'microsub token service create' has made")
        found = await self._redis.command("HGET", keys.service_tokens(), name)
        record: Mapping[str, Any] = orjson.loads(found) if found is not None else {"digest": _NOBODY}
        is_right = is_same(record["digest"], sha256_hex(token))
        if not is_right or record.get("expires", now + 1) <= now:
            raise Unauthorized("the token is unknown, expired or revoked")
        return name
