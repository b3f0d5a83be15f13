"""Answers to posts, published on the user's own site by Micropub (https://www.w3.org/TR/micropub/#create).

A user allows this for one browser. The token of the user's site is stored encrypted with a secret that only this
browser has, so neither read access to the store nor a stolen session is enough to post.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import orjson
import structlog

from microsub.base.digests import sha256_hex
from microsub.base.errors import InvalidRequest, TooManyRequests
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.base.texts import N_, Sentence
from microsub.base.urls import safe_url
from microsub.fetch import Answered, FetchFailed, Sender, Sending, SendLimits
from microsub.identity import PostingAccess, provider_name, read_error
from microsub.reader import answering  # encryption is slow to load
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.structures import Hash, Value

ANSWERS_OF_USER = RateLimit("answers published on their site", "user", 30)

log = structlog.get_logger(__name__)

AnswerKind = Literal["reply", "like", "repost", "bookmark"]
KINDS: Sequence[AnswerKind] = get_args(AnswerKind)
LONGEST_REPLY = 20_000
"""Maximum characters."""
MOST_BROWSERS = 10
_KEPT = 400 * 86_400
_REMEMBERED = 600
_UNDER_WAY = b"-"
_LIMITS = SendLimits(total=20.0, redirects=-1)
_DONE = frozenset({200, 201, 202, 204})
_DIGEST = re.compile("[0-9a-f]{16}")
_RELATIONS = {"reply": "in-reply-to", "like": "like-of", "repost": "repost-of", "bookmark": "bookmark-of"}


class AnswerFailed(InvalidRequest):
    """The user's site refused the answer."""

    status = 502


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the post at `target`; `text` is the text of a reply, `title` the title of a bookmark."""

    kind: AnswerKind
    target: str
    text: str = ""
    title: str = ""

    def form(self) -> list[tuple[str, str]]:
        """The Micropub form that creates it. Raises InvalidRequest for a reply that is empty or too long."""
        if self.kind == "reply" and not self.text:
            raise InvalidRequest(N_("Write your reply first."))
        if len(self.text) > LONGEST_REPLY:
            raise InvalidRequest(Sentence("A reply can have at most {most} characters.", most=LONGEST_REPLY))
        fields = [("h", "entry"), (_RELATIONS[self.kind], self.target)]
        if self.kind == "bookmark" and self.title:
            fields.append(("name", self.title))
        return [*fields, ("content", self.text)] if self.text else fields

    @property
    def digest(self) -> str:
        """A digest that is equal for equal answers."""
        return sha256_hex("\n".join((self.kind, self.target, self.text)))[:16]


class Answers:
    """Publishes answers, and stores the permissions for that. Belongs to one event loop."""

    def __init__(self, redis: Redis, sender: Sender) -> None:
        self._allowed = Hash.at(redis, keys.posting, _KEPT)
        self._answered = Value.at(redis, keys.answered, _REMEMBERED)
        self._sender = sender
        self._limiter = RateLimiter()

    async def keep(self, user: str, secret: str, access: PostingAccess, now: float) -> None:
        """Allow the browser with that secret to answer from now on; it may replace the oldest of `MOST_BROWSERS`."""
        held = await self._allowed(user).all()
        oldest = sorted(held, key=lambda name: held[name].partition(b" ")[0])[: max(0, len(held) + 1 - MOST_BROWSERS)]
        await self._allowed(user).delete(*oldest)
        document = [access.micropub, access.token, access.expires, access.revocation]
        sealed = answering.seal(orjson.dumps(document).decode(), secret, user)
        await self._allowed(user).set({_browser(secret): b"%015d " % int(now) + sealed})

    async def access(self, user: str, secret: str, now: float) -> PostingAccess | None:
        """The permission of the browser with that secret, or None."""
        kept = await self._allowed(user).get(_browser(secret)) if secret else None
        opened = answering.unseal(kept.partition(b" ")[2], secret, user) if kept is not None else None
        if opened is None:
            return None
        found = PostingAccess(*orjson.loads(opened))
        return found if found.expires is None or found.expires > now else None

    async def end(self, user: str, secret: str, now: float) -> None:
        """End the browser's permission, and revoke its token at the site if possible (RFC 7009)."""
        access = await self.access(user, secret, now)
        await self._allowed(user).delete(_browser(secret))
        if access is not None and access.revocation is not None:
            told = await self._sender.send(Sending(access.revocation, "POST", form={"token": access.token}))
            log.info(
                "a browser's permission to post was revoked",
                user=user,
                revoked=isinstance(told, Answered) and told.status == 200,
            )

    async def publish(self, user: str, secret: str, answer: Answer, now: float) -> str:
        """Publish an answer; returns the name for `published`. Equal answers within ten minutes are published once.

        Raises InvalidRequest, AnswerFailed, TooManyRequests.
        """
        form, access = answer.form(), await self.access(user, secret, now)
        if access is None:
            raise InvalidRequest(N_("This browser isn't allowed to publish on your site. Allow it first."))
        answered = self._answered(user, answer.digest)
        if not await answered.claim(_UNDER_WAY):
            return await self._again(user, answer)
        try:
            place = await self._send(user, secret, access, form, now)
        except (AnswerFailed, TooManyRequests):
            await answered.clear()
            raise
        await answered.set(place)
        return answer.digest

    async def published(self, user: str, digest: str) -> str | None:
        """The address of that answer of the last ten minutes, empty if unknown; None if there is no such answer."""
        found = await self._answered(user, digest).get() if _DIGEST.fullmatch(digest) else None
        return None if found is None or found == _UNDER_WAY else found.decode()

    async def _again(self, user: str, answer: Answer) -> str:
        """Handle an answer that was sent before."""
        if await self.published(user, answer.digest) is None:
            text = N_(
                "The same reply is already being published. Check your site before you try again in a few minutes."
            )
            raise InvalidRequest(text)
        return answer.digest

    async def _send(
        self, user: str, secret: str, access: PostingAccess, form: Sequence[tuple[str, str]], now: float
    ) -> str:
        """Send an answer; returns its address on the site, empty if the site gave none."""
        if not self._limiter.count(ANSWERS_OF_USER, user):
            raise TooManyRequests(N_("Too many replies in a minute. Wait a minute, then try again."), 60)
        sending = Sending(access.micropub, "POST", form=form, bearer=access.token, limits=_LIMITS)
        reply, site = await self._sender.send(sending), provider_name(access.micropub)
        if isinstance(reply, FetchFailed):
            text = N_("{site} did not respond: {detail}. Check whether the post is there before you try again.")
            raise AnswerFailed(Sentence(text, site=site, detail=reply.detail))
        if reply.status in _DONE:
            log.info("an answer was published", user=user, site=site)
            return safe_url(reply.headers.get("location"), access.micropub) or ""
        if reply.status == 401:
            await self.end(user, secret, now)
            raise AnswerFailed(Sentence("{site} no longer accepts posts from this server. Allow it again.", site=site))
        said = read_error(reply.body, reply.final_url, reply.content_type)
        why = Sentence("status {status}", status=reply.status) if said is None else said
        raise AnswerFailed(Sentence("{site} rejected it: {why}.", site=site, why=why))


def _browser(secret: str) -> str:
    """The name of a browser, from which its secret can't be derived."""
    return sha256_hex(secret)[:22]
