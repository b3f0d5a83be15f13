"""All errors as one tree; `kit.http.responses` alone turns them into responses.

    MicrosubError
    ├── RequestError              the caller must change something
    │   ├── InvalidRequest        400 invalid_request
    │   │   └── PostDeleted       a post that was deleted, and doesn't come back
    │   ├── NotImplementedHere    400 not_implemented
    │   ├── OAuthRefused          400 invalid_grant, invalid_scope …: what RFC 6749 has codes for
    │   ├── Unauthorized          401 unauthorized
    │   │   └── UserDisabled      the token may be good, but not its user
    │   ├── Forbidden             403 forbidden
    │   │   ├── InsufficientScope 403 insufficient_scope
    │   │   └── QuotaReached      403 forbidden: the user has as much as they may
    │   ├── NotFound              404 not_found
    │   ├── AddressRevoked        410 gone: the address of an output feed that its user has revoked
    │   ├── MethodNotAllowed      405 invalid_request
    │   ├── SignInFailed          somebody can't be signed in; told to people
    │   ├── TooLarge              413 invalid_request
    │   └── TooManyRequests       429 too_many_requests
    ├── StoreError                Redis can't serve us now: 503
    │   ├── StoreUnavailable
    │   │   └── StoreUnreached    and nothing was run
    │   ├── StoreFull
    │   ├── StoreDamaged          what stands there is nothing that we have written
    │   └── SchemaMismatch        the data was written by another version
    ├── ProviderUnavailable       a user's own provider can't say whether a token is good: 503
    ├── ConfigError               a setting or backend.json is not usable
    │   └── DataFolderUnusable    the data folder can't be read or written
    ├── FetchError                a document could not be had from the web
    ├── ProfileError              a person's page, or the server it names, is not usable for signing in
    │   ├── ProfileUnreachable    it can't be had now
    │   └── ProfileMismatch       a server spoke for somebody whose page names another
    ├── SearchUnavailable         posts can't be searched now: 503
    ├── ParserUnavailable         there is no process to parse documents in, which is our own fault: 503
    └── ParseError                bytes that are no feed
        └── ParsingStopped        or take too much time or memory to find out

Expected failures of single feeds travel as values (`microsub.fetch.FetchFailed`); an exception that isn't in this
tree is a bug.
"""

from __future__ import annotations


class MicrosubError(Exception):
    """The root of all errors that the project raises on purpose."""


class RequestError(MicrosubError):
    """A request that can't be served; `code` and `status` are the wire's (RFC 6750)."""

    code = "invalid_request"
    status = 400

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description


class InvalidRequest(RequestError):
    """A parameter is missing or has a value that can't be used; the description names both."""


class PostDeleted(InvalidRequest):
    """The post `guid`, which was to be saved, was deleted, or has left the store by its age."""

    def __init__(self, guid: str) -> None:
        super().__init__(f"'guid' can't be used: the post '{guid[:80]}' was deleted and doesn't come back")
        self.guid = guid


class NotImplementedHere(RequestError):
    """An action or method that this server doesn't have."""

    code = "not_implemented"


class OAuthRefused(RequestError):
    """What our IndieAuth server can't grant; `code` is one of RFC 6749 (4.1.2.1, 5.2)."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code


class Unauthorized(RequestError):
    """No token, or one that is unknown, expired or revoked."""

    code = "unauthorized"
    status = 401


class UserDisabled(Unauthorized):
    """The token is known, and its user is disabled."""


class Forbidden(RequestError):
    """The token is good, but not for this."""

    code = "forbidden"
    status = 403


class InsufficientScope(Forbidden):
    """The token lacks `scope`."""

    code = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs the scope '{scope}', which the token was not granted")
        self.scope = scope


class PostingScopeMissing(InsufficientScope):
    """The token of a source, or another one, lacks `scope`; Micropub has another status for it (section 3.6)."""

    status = 401


class QuotaReached(Forbidden):
    """The user has `count` of `what` already and may have `limit`."""

    def __init__(self, what: str, count: int, limit: int) -> None:
        super().__init__(f"the limit for {what} is reached: {count} of {limit}")
        self.what = what
        self.count = count
        self.limit = limit


class NotFound(RequestError):
    """What the request names doesn't exist (for this user)."""

    code = "not_found"
    status = 404


class AddressRevoked(RequestError):
    """The address of an output feed that was good once."""

    code = "gone"
    status = 410

    def __init__(self) -> None:
        super().__init__("this feed is gone: its owner has deleted it, or revoked its address")


class PostGone(RequestError):
    """The page of a post that was here once."""

    code = "gone"
    status = 410

    def __init__(self) -> None:
        super().__init__("this post is gone: it was deleted, or has left this server")


class MethodNotAllowed(RequestError):
    """The HTTP method is none that the address answers to; `allow` lists those that it does."""

    status = 405

    def __init__(self, found: str, allow: str) -> None:
        super().__init__(f"the HTTP method is not usable here: found '{found}', expected {allow.replace(', ', ' or ')}")
        self.allow = allow


class SignInFailed(RequestError):
    """A failed sign-in: `title` in a few words, the description says what to do."""

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
    """Try again after `retry_after` seconds."""

    code = "too_many_requests"
    status = 429

    def __init__(self, description: str, retry_after: int) -> None:
        super().__init__(description)
        self.retry_after = retry_after


class StoreError(MicrosubError):
    """Redis can't do it; nothing was half written. `passing`: it may be possible later."""

    passing = True


class StoreUnavailable(StoreError):
    """Redis can't be reached, or the connection broke before the reply came."""


class StoreUnreached(StoreUnavailable):
    """Redis can't be reached or isn't ready, and has run nothing: asking again is safe."""


class StoreFull(StoreError):
    """Redis refuses writes: `maxmemory` is reached, or the disk is full or read-only."""


class StoreDamaged(StoreError):
    """What stands under `key` can't be decoded, and nobody may go on as if it weren't there."""

    passing = False

    def __init__(self, key: str) -> None:
        super().__init__(f"the value of the Redis key '{key}' is corrupt: this server didn't write it")
        self.key = key


class SchemaMismatch(StoreError):
    """The data needs a newer (or other) version of this software or of Redis."""

    passing = False


class ProviderUnavailable(MicrosubError):
    """A user's own provider can't be asked about a token; try again after `retry_after` seconds.

    `why` is what happened, for the log and for the provider's admin.
    """

    def __init__(self, why: str, retry_after: int) -> None:
        super().__init__(why)
        self.why = why
        self.retry_after = retry_after


class ConfigError(MicrosubError):
    """A setting that can't be used.

    `file` names the file or environment variable, `path` the place inside it (JSON path such as
    `users.alice.channels[0].uid`; empty for the whole), `line` and `column` (from 1) the same in the text where they
    are known, `found` what stands there and `expected` what should.
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
    """The data folder at `place` can't be read or written; most often it is another user's.

    `doing` completes "can't …", such as "write to"; `why` is the system's reason.
    """

    def __init__(self, doing: str, place: object, why: OSError | str) -> None:
        reason = ((why.strerror or str(why)) if isinstance(why, OSError) else why).lower()
        remedy = "run the command as the user who runs the server, or name another folder with --data-dir"
        super().__init__(file="MICROSUB_DATA_DIR", path="", found=f"{place} ({reason})", expected=remedy)
        self.args = (f"can't {doing} the data folder {place}: {reason}. {remedy[0].upper()}{remedy[1:]}",)


class FetchError(MicrosubError):
    """A document could not be had. `url` has its credentials masked.

    `reason` is one of `fetch.REASONS`, or `offline`: nobody was to be asked, and there is no copy.
    """

    def __init__(self, url: str, reason: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.reason = reason
        self.detail = detail


class ProfileError(MicrosubError):
    """A person's page, or the server that it names for signing in, can't be used as it is.

    `url` is the document with its credentials masked; `detail` says what was found there and what was expected.
    """

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.detail = detail


class ProfileUnreachable(ProfileError):
    """It can't be had at present; what it said before may still hold."""


class ProfileMismatch(ProfileError):
    """A server said that somebody signed in with it whose page names another server."""


class SearchUnavailable(MicrosubError):
    """The index of posts isn't there or can't be read, and `why`; it is built again by itself."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ParserUnavailable(MicrosubError):
    """There is no process to parse documents in now, and `why`. It says nothing of any document."""

    def __init__(self, why: str) -> None:
        super().__init__(f"documents can't be parsed at the moment: {why}")
        self.why = why


class ParseError(MicrosubError):
    """Bytes from `url` that are no feed, or one too broken to be read."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.detail = detail


class ParsingStopped(ParseError):
    """Bytes from `url` that cost too much to read; `seconds` of processor time were spent."""

    def __init__(self, url: str, detail: str, seconds: float = 0.0) -> None:
        super().__init__(url, detail)
        self.seconds = seconds
