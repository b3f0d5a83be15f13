"""All errors as one tree. Only `web.responses` turns them into responses.

    MicrosubError
    ├── RequestError              the caller must change the request
    │   ├── InvalidRequest        400 invalid_request
    │   │   └── PostDeleted       the post was deleted and doesn't come back
    │   ├── NotImplementedHere    400 not_implemented
    │   ├── OAuthRefused          400 invalid_grant, invalid_scope …: the codes of RFC 6749
    │   ├── Unauthorized          401 unauthorized
    │   │   └── UserDisabled      the token's user is disabled
    │   ├── Forbidden             403 forbidden
    │   │   ├── InsufficientScope 403 insufficient_scope
    │   │   └── QuotaReached      403 forbidden: the user's quota is used up
    │   │       └── FollowersFull the same for all followers of a feed
    │   ├── NotFound              404 not_found
    │   ├── AddressRevoked        410 gone: the user has revoked the address of the output feed
    │   ├── MethodNotAllowed      405 invalid_request
    │   ├── SignInFailed          sign-in failed; shown on a page
    │   ├── TooLarge              413 invalid_request
    │   └── TooManyRequests       429 too_many_requests
    ├── StoreError                Redis can't serve the request now: 503
    │   ├── StoreUnavailable
    │   │   ├── StoreUnreached    Redis has run nothing
    │   │   ├── StoreSilent       no reply in time
    │   │   ├── StoreUnusable     an admin must act first
    │   │   ├── StoreIncomplete   some masters of a cluster can't be reached
    │   │   └── StoreUnconfirmed  no replica has a change
    │   ├── StoreFull
    │   ├── StoreDamaged          a stored value can't be decoded
    │   └── SchemaMismatch        the data was written by another version
    ├── ProviderUnavailable       a user's own provider can't check a token now: 503
    ├── ConfigError               a setting or backend.json is invalid
    │   └── DataFolderUnusable    the data folder can't be read or written
    ├── FetchError                a document could not be fetched
    ├── ProfileError              a person's page, or the server it names, can't be used to sign in
    │   ├── ProfileUnreachable    it can't be fetched now
    │   └── ProfileMismatch       a server confirmed a person whose page names another server
    ├── SearchUnavailable         posts can't be searched now: 503
    ├── ParserUnavailable         no parser process is available, which is our own fault: 503
    └── ParseError                the document isn't a feed
        └── ParsingStopped        parsing took too much time or memory

Expected failures of single feeds travel as values (`microsub.fetch.FetchFailed`); an exception that isn't in this
tree is a bug.
"""

from __future__ import annotations

from typing import Any


class MicrosubError(Exception):
    """The root of all errors that the project raises on purpose."""


class RequestError(MicrosubError):
    """A request that can't be served; `code` and `status` are sent in the response (RFC 6750)."""

    code = "invalid_request"
    status = 400

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description


class InvalidRequest(RequestError):
    """A parameter is missing or invalid; the description names it and its value."""


class PostDeleted(InvalidRequest):
    """The post `guid` can't be saved: it was deleted, or was removed from the store by age."""

    def __init__(self, guid: str) -> None:
        super().__init__(f"'guid' can't be used: the post '{guid[:80]}' was deleted and doesn't come back")
        self.guid = guid


class NotImplementedHere(RequestError):
    """An action or method that this server doesn't implement."""

    code = "not_implemented"


class OAuthRefused(RequestError):
    """A request that our IndieAuth server refuses; `code` is one of RFC 6749 (4.1.2.1, 5.2)."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code


class Unauthorized(RequestError):
    """The token is missing, unknown, expired or revoked."""

    code = "unauthorized"
    status = 401


class UserDisabled(Unauthorized):
    """The token is known, but its user is disabled."""


class NotRecognised(Unauthorized):
    """Name or password is wrong, without saying which; or the passkey is unknown."""


class Forbidden(RequestError):
    """The token is valid, but doesn't allow this request."""

    code = "forbidden"
    status = 403


class InsufficientScope(Forbidden):
    """The token lacks `scope`."""

    code = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs the scope '{scope}', which the token was not granted")
        self.scope = scope


class PostingScopeMissing(InsufficientScope):
    """The token lacks `scope` for Micropub, which has its own status for this (section 3.6)."""

    status = 401


GRANTED = "tokens and authorized apps"
"""What a quota of tokens counts."""


class QuotaReached(Forbidden):
    """The user already has `count` of `what`; the quota is `limit`."""

    def __init__(self, what: str, count: int, limit: int) -> None:
        super().__init__(f"the limit for {what} is reached: {count} of {limit}")
        self.what = what
        self.count = count
        self.limit = limit


class FollowersFull(QuotaReached):
    """All followers of a feed have reached their quota of `what`. The sentence contains no follower."""

    def __init__(self, what: str) -> None:
        Forbidden.__init__(self, f"the limit for {what} is reached for all followers of this feed")
        self.what = what


class NotFound(RequestError):
    """What the request names doesn't exist (for this user)."""

    code = "not_found"
    status = 404


class AddressRevoked(RequestError):
    """The former address of an output feed."""

    code = "gone"
    status = 410

    def __init__(self) -> None:
        super().__init__("this feed is gone: its owner has deleted it, or revoked its address")


class PostGone(RequestError):
    """The page of a post that is no longer on this server."""

    code = "gone"
    status = 410

    def __init__(self) -> None:
        super().__init__("this post is gone: it was deleted or removed from this server")


class MethodNotAllowed(RequestError):
    """The address doesn't support the HTTP method; `allow` lists those it supports."""

    status = 405

    def __init__(self, found: str, allow: str) -> None:
        super().__init__(f"HTTP method not allowed here: found '{found}', expected {allow.replace(', ', ' or ')}")
        self.allow = allow


class SignInFailed(RequestError):
    """A failed sign-in: `title` is a few words, the description says what to do."""

    code = "access_denied"

    def __init__(self, title: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.title = title
        self.status = status


class TooLarge(RequestError):
    """The request body is over the limit."""

    status = 413


class TooSlow(RequestError):
    """The request body takes too long."""

    status = 408


class TooManyRequests(RequestError):
    """The rate limit is reached; try again after `retry_after` seconds."""

    code = "too_many_requests"
    status = 429

    def __init__(self, description: str, retry_after: int) -> None:
        super().__init__(description)
        self.retry_after = retry_after


class StoreError(MicrosubError):
    """Redis can't do it; nothing was partly written. `passing`: a retry may succeed later."""

    passing = True


class StoreUnavailable(StoreError):
    """Redis can't be reached, or the connection broke before the reply."""


class StoreUnreached(StoreUnavailable):
    """Redis can't be reached or isn't ready, and has run nothing: retrying is safe."""


class StoreSilent(StoreUnavailable):
    """Redis accepts connections, but hasn't replied in time."""


class StoreUnusable(StoreUnavailable):
    """Waiting doesn't help: Redis refuses the password, or can't read its data."""


class StoreIncomplete(StoreUnavailable):
    """Some masters of a Redis Cluster can't be reached; `replies` are all replies, errors among them as values."""

    def __init__(self, why: str, replies: list[Any]) -> None:
        super().__init__(why)
        self.replies = replies


class StoreUnconfirmed(StoreUnavailable):
    """Too few replicas have a change, which could therefore be lost."""


class StoreFull(StoreError):
    """Redis refuses writes: `maxmemory` is reached, or the disk is full or read-only."""


class StoreDamaged(StoreError):
    """The value of `key` can't be decoded, and must not be treated as missing."""

    passing = False

    def __init__(self, key: str) -> None:
        super().__init__(f"the value of the Redis key '{key}' is corrupt: this server didn't write it")
        self.key = key


class SchemaMismatch(StoreError):
    """The data needs a newer (or other) version of this software or of Redis."""

    passing = False


class ProviderUnavailable(MicrosubError):
    """A user's own provider can't check a token; try again after `retry_after` seconds.

    `why` is the reason, for the log and for the provider's admin.
    """

    def __init__(self, why: str, retry_after: int) -> None:
        super().__init__(why)
        self.why = why
        self.retry_after = retry_after


class ConfigError(MicrosubError):
    """An invalid setting.

    `file` names the file or environment variable. `path` is a JSON path inside it, such as
    `users.alice.channels[0].uid`, or empty for the whole file. `line` and `column` (from 1) are the position in the
    text, if known. `found` is the value, `expected` a description of valid values.
    """

    def __init__(
        self, *, file: str, path: str, found: str, expected: str, line: int | None = None, column: int | None = None
    ) -> None:
        text = ", ".join(f"{name} {at}" for name, at in (("line", line), ("column", column)) if at is not None)
        place = f"{path} ({text})" if path and text else path or text
        where = f"{file}: {place}" if place else file
        super().__init__(f"{where}: found {found}, expected {expected}")
        self.file = file
        self.path = path
        self.line = line
        self.column = column
        self.found = found
        self.expected = expected


class DataFolderUnusable(ConfigError):
    """The data folder at `place` can't be read or written; it usually belongs to another user.

    `doing` completes "can't …", such as "write to"; `why` is the system's reason.
    """

    def __init__(self, doing: str, place: object, why: OSError | str) -> None:
        reason = ((why.strerror or str(why)) if isinstance(why, OSError) else why).lower()
        remedy = "run the command as the user who runs the server, or choose another folder with --data-dir"
        super().__init__(file="MICROSUB_DATA_DIR", path="", found=f"{place} ({reason})", expected=remedy)
        self.args = (f"can't {doing} the data folder {place}: {reason}. {remedy[0].upper()}{remedy[1:]}",)


def private_hint(reason: str, detail: str = "") -> str:
    """Advice for admins and programmers about a failed fetch, by its reason and sentence; '' if nothing.

    Never part of a message: readers see those, and can't do it. A name that isn't known has no hint: most often it is
    mistyped. A port that no setting allows has none either.
    """
    if reason not in {"blocked", "private"} or ": port " in detail:
        return ""
    return (
        "MICROSUB_ALLOW_PRIVATE_NETWORKS (in a program: FetchSettings.allow_private_networks) "
        "can allow a private address"
    )


class FetchError(MicrosubError):
    """A document could not be fetched. `url` has its credentials masked.

    `reason` is one of `fetch.REASONS`, or `offline`: requests were disabled, and there is no copy. `hint` is for the
    program or its admin, '' if there is none; a traceback shows it, the message doesn't.
    """

    def __init__(self, url: str, reason: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.reason = reason
        self.detail = detail
        self.hint = private_hint(reason, detail)
        if self.hint:
            self.add_note(self.hint)


class ProfileError(MicrosubError):
    """A person's page, or the server it names, can't be used to sign in.

    `url` is the document, with its credentials masked; `detail` says what was found there and what was expected.
    """

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.detail = detail


class ProfileUnreachable(ProfileError):
    """The page or server can't be reached now; its earlier replies may still be true."""


class ProfileMismatch(ProfileError):
    """A server confirmed the sign-in of a person whose page names another server."""


class SearchUnavailable(MicrosubError):
    """The index of posts is missing or can't be read; it is rebuilt automatically."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ParserUnavailable(MicrosubError):
    """No parser process is available. The document may be valid."""

    def __init__(self, why: str) -> None:
        super().__init__(f"documents can't be parsed right now: {why}")
        self.why = why


class ParseError(MicrosubError):
    """The document at `url` isn't a feed, or is too broken to be read."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.detail = detail


class ParsingStopped(ParseError):
    """Parsing the document at `url` cost too much; it took `seconds` of processor time."""

    def __init__(self, url: str, detail: str, seconds: float = 0.0) -> None:
        super().__init__(url, detail)
        self.seconds = seconds
