"""An IndieAuth provider that follows the spec exactly, for tests. It is independent of the product.

Spec: https://indieauth.spec.indieweb.org/, with RFC 6749, 7636 (PKCE), 7662 (introspection), 8414 (metadata) and 9207
(`iss`). It is a real HTTP server on loopback, in the test's event loop, and ends with its block:

    async with provider(Variant()) as site:
        alice = site.person("alice")
        ... sign in at alice.me, read the requests in site.asked ...

On loopback, profile URLs, issuer and client ids have ports and IP addresses, which the spec otherwise forbids.

`Variant` sets its behaviour. The default is the current spec; `Variant.older()` is a provider of ten years ago, and
each difference can be set alone:

    discovery   rels of a profile: `metadata` (indieauth-metadata), `older` (authorization_endpoint and
                token_endpoint), `both`
    links       their place: `header` (HTTP Link), `html` (<link>), `both`, `separate` (one Link header for each)
    joined      several values in one rel
    relative    URLs of endpoints relative to the page
    pkce        `required`, `optional`, or `ignored`, as by a server without support
    iss         whether redirects contain `iss`, and the metadata announces it
    replies     `json`, or `form` for code redemption and the older check
    check       methods for resource servers to check tokens: `introspection`, `older` (GET with the token), `both`
    authorized  authorization for introspection: `token` (any bearer), `secret` (`Provider.service_secret`), `nothing`
    lifetime    lifetime of access tokens in seconds, None for ever
    consent     `auto` (allows all as `Provider.at_browser`) or `form` (a page with name, password, scopes)
    fetches     whether a client's page is fetched for its name and its redirect addresses
    twice       codes can be redeemed twice, which the spec forbids

`site.fault(where, Fault(…))` starts a fault, where `where` is `profile`, `metadata`, `authorization`, `redirect` (the
answer to the client), `redeemed` (a POST to the authorization endpoint), `token`, `check` or `introspection`; see
`Fault` for the kinds. `site.listening.down()` stops the whole server. Another user's `me`, a wrong `iss`, a missing
`state` and broken lines are `change`s.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.provider_pages import (
    Asking,
    Client,
    Code,
    Fault,
    Person,
    Token,
    Variant,
    changed,
    consent_page,
    fetched_client,
    problem_page,
    profile_reply,
)
from tests.support.web import (
    Answer,
    Asked,
    Publisher,
    form_reply,
    html_reply,
    json_reply,
    publisher,
    redirect_reply,
)

__all__ = ["Fault", "Person", "Provider", "Variant", "provider"]

CODE_SECONDS = 600
METADATA = "/.well-known/oauth-authorization-server"
SCOPES = ("profile", "email", "read", "follow", "mute", "block", "channels", "create", "update", "delete", "media")


@dataclass
class Provider:
    """The server. `asked` is every request; `person()` adds an account; `grant()` issues a token without the flow."""

    variant: Variant
    asked: list[Asked] = field(default_factory=list)
    people: dict[str, Person] = field(default_factory=dict)
    at_browser: str = ""
    service_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    clock: Callable[[], float] = time.time
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    pages: dict[str, Answer] = field(default_factory=dict)
    known_clients: dict[str, Client] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    listening: Publisher = field(init=False)
    _asking: dict[str, Asking] = field(default_factory=dict)

    # --- Set-up by tests

    def url(self, path: str = "/") -> str:
        return f"{self.listening.base}{path}"

    @property
    def issuer(self) -> str:
        return self.url("/")

    def person(self, name: str, *, me: str | None = None, microsub: str | None = None, **more: Any) -> Person:
        """Create an account with a profile page at /<name>/; the first one is the user at the browser."""
        made = Person(name, me or self.url(f"/{name}/"), f"password of {name}", microsub, **more)
        self.people[name] = made
        self.at_browser = self.at_browser or name
        return made

    def redirect(self, path: str, to: str, status: int = 301) -> str:
        """Redirect `path` to `to` (301 and 308 permanently, 302, 303 and 307 temporarily), and return its URL."""
        self.redirects[path] = (status, to)
        return self.url(path)

    def page(self, path: str, html: str, **headers: str) -> str:
        """Serve this page at `path` and return its URL."""
        self.pages[path] = html_reply(html, 200, *headers.items())
        return self.url(path)

    def fault(self, where: str, fault: Fault) -> None:
        self.faults[where] = fault

    def end_faults(self) -> None:
        """End all faults."""
        self.faults.clear()

    def grant(
        self, name: str, *scopes: str, client: str = "https://app.example/", lifetime: float | None = None
    ) -> str:
        """A token for this user, as after the whole flow."""
        token = secrets.token_urlsafe(24)
        expires = None if lifetime is None else self.clock() + lifetime
        self.tokens[token] = Token(self.people[name], client, scopes, expires, "")
        return token

    def revoke(self, token: str) -> None:
        """Revoke a token, as its user or the revocation endpoint does."""
        if token in self.tokens:
            self.tokens[token].revoked = True

    def count(self, path: str, method: str | None = None) -> int:
        return sum(1 for r in self.asked if r.path == path and method in {None, r.method})

    # --- HTTP

    async def answer(self, request: Asked) -> Answer | None:
        self.asked.append(request)
        where, reply = await self._reply(request)
        return await self._faulty(where, reply, request)

    async def _reply(self, request: Asked) -> tuple[str, Answer]:
        path, get = request.path, request.method in {"GET", "HEAD"}
        if path in self.redirects:
            status, to = self.redirects[path]
            return "profile", redirect_reply(to, status)
        if path in self.pages:
            return "profile", self.pages[path]
        name = path.strip("/")
        if get and name in self.people:
            return "profile", profile_reply(self.variant, self.people[name], self.listening.base)
        if path == METADATA and get and self.variant.discovery != "older":
            return "metadata", json_reply(self._metadata())
        if path == "/auth":
            return ("authorization", await self._authorize(request)) if get else ("redeemed", self._profile(request))
        if path == "/consent" and not get:
            return "redirect", self._decide(request)
        if path == "/token":
            return ("check", self._check(request)) if get else ("token", self._token(request))
        if path == "/introspect" and not get and self.variant.check != "older":
            return "introspection", self._introspect(request)
        if path == "/revoke" and not get and self.variant.discovery != "older":
            self.revoke(request.form.get("token", ""))
            return "revocation", json_reply({})
        return "", Answer(b"not here", 404)

    async def _faulty(self, where: str, reply: Answer, request: Asked) -> Answer | None:
        if where == "authorization" and 300 <= reply.status < 400:
            where = "redirect"
        fault = self.faults.get(where)
        if fault is None:
            return reply
        if fault.times is not None:
            self.faults[where] = replace(fault, times=fault.times - 1)
            if fault.times <= 0:
                del self.faults[where]
                return reply
        if fault.wait is not None:
            await fault.wait.wait()
        if fault.location is not None:
            return redirect_reply(fault.location or request.target)
        if fault.hang:
            await request.hang()
        return None if fault.hang or fault.drop else changed(reply, fault)

    def _metadata(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": self.url("/auth"),
            "token_endpoint": self.url("/token"),
            "revocation_endpoint": self.url("/revoke"),
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
        }
        if self.variant.check != "older":
            made["introspection_endpoint"] = self.url("/introspect")
            made["introspection_endpoint_auth_methods_supported"] = ["Bearer"]
        if self.variant.pkce != "ignored":
            made["code_challenge_methods_supported"] = ["S256"]
        if self.variant.iss:
            made["authorization_response_iss_parameter_supported"] = True
        return made

    # --- Authorization endpoint

    async def _authorize(self, request: Asked) -> Answer:
        query = request.query
        client, redirect_uri = query.get("client_id", ""), query.get("redirect_uri", "")
        if urlsplit(client).scheme not in {"http", "https"}:
            return problem_page("client_id is not an http or https URL")
        known = await self._client(client)
        # Errors aren't sent to an address before it is known to be allowed (RFC 6749, section 4.1.2.1).
        if not known.allows(redirect_uri):
            return problem_page(f"redirect_uri is not one of {client}")
        state, challenge = query.get("state"), query.get("code_challenge")
        asking = Asking(known, redirect_uri, state, tuple(query.get("scope", "").split()), challenge)
        kind = query.get("response_type")
        if kind != "code" and not (self.variant.discovery == "older" and kind in {None, "id"}):
            return self._answer(asking, error="unsupported_response_type")
        if state is None and self.variant.pkce == "required":
            return self._answer(asking, error="invalid_request", error_description="state is missing")
        if self.variant.pkce == "required" and not challenge:
            return self._answer(asking, error="invalid_request", error_description="code_challenge is missing")
        if challenge and self.variant.pkce != "ignored" and query.get("code_challenge_method") != "S256":
            return self._answer(asking, error="invalid_request", error_description="only S256 is known")
        if self.variant.pkce == "ignored":
            asking = replace(asking, challenge=None)
        if self.variant.consent == "auto":
            return self._let_in(asking, self.people[self.at_browser], asking.scope)
        ticket = secrets.token_urlsafe(16)
        self._asking[ticket] = asking
        return consent_page(ticket, asking.client, asking.scope, query.get("me", ""))

    async def _client(self, client: str) -> Client:
        if client in self.known_clients:
            return self.known_clients[client]
        return await fetched_client(client) if self.variant.fetches else Client(client)

    def _decide(self, request: Asked) -> Answer:
        form = request.form
        asking = self._asking.get(form.get("ticket", ""))
        if asking is None:
            return problem_page("nothing was asked, or it is decided already")
        person = self.people.get(form.get("name", ""))
        if form.get("decision") == "deny":
            del self._asking[form["ticket"]]
            return self._answer(asking, error="access_denied")
        if person is None or form.get("password") != person.password:
            return problem_page("name or password is wrong", 403)
        del self._asking[form["ticket"]]
        granted = tuple(scope for scope in asking.scope if scope in request.all("scope"))
        return self._let_in(asking, person, granted)

    def _let_in(self, asking: Asking, person: Person, scope: tuple[str, ...]) -> Answer:
        code = secrets.token_urlsafe(24)
        self.codes[code] = Code(person, asking, scope, self.clock() + CODE_SECONDS)
        return self._answer(asking, code=code)

    def _answer(self, asking: Asking, **values: str) -> Answer:
        if asking.state is not None:
            values["state"] = asking.state
        if self.variant.iss:
            values["iss"] = self.issuer
        if self.variant.discovery != "metadata" and "code" in values:
            values["me"] = self.codes[values["code"]].person.me
        joint = "&" if urlsplit(asking.redirect_uri).query else "?"
        return redirect_reply(f"{asking.redirect_uri}{joint}{urlencode(values)}")

    # --- Redeeming codes

    def _redeemed(self, request: Asked) -> Code | Answer:
        """The code of a request, if it is valid for this client (section 5.3.2 and RFC 6749, section 4.1.3)."""
        form = request.form
        if form.get("grant_type") != "authorization_code" and self.variant.discovery != "older":
            return json_reply({"error": "unsupported_grant_type"}, 400)
        given = form.get("code", "")
        code = self.codes.get(given)
        if code is None or code.expires < self.clock():
            return json_reply({"error": "invalid_grant", "error_description": "no such code"}, 400)
        asking = code.asking
        if (form.get("client_id"), form.get("redirect_uri")) != (asking.client.id, asking.redirect_uri):
            return json_reply({"error": "invalid_grant", "error_description": "another client's code"}, 400)
        verifier = form.get("code_verifier")
        if (asking.challenge is None) != (verifier is None) and self.variant.pkce != "ignored":
            return json_reply({"error": "invalid_grant", "error_description": "code_verifier"}, 400)
        if asking.challenge is not None and _challenge(verifier or "") != asking.challenge:
            return json_reply({"error": "invalid_grant", "error_description": "code_verifier"}, 400)
        code.uses += 1
        if code.uses > (2 if self.variant.twice else 1):
            for token in self.tokens.values():
                token.revoked = token.revoked or token.code == given
            return json_reply({"error": "invalid_grant", "error_description": "used before"}, 400)
        return code

    def _profile(self, request: Asked) -> Answer:
        code = self._redeemed(request)
        return code if isinstance(code, Answer) else self._shaped(_about(code.person, code.scope))

    def _token(self, request: Asked) -> Answer:
        code = self._redeemed(request)
        if isinstance(code, Answer):
            return code
        if not code.scope:
            # A code without scopes is valid only for the profile (section 5.3.2).
            return json_reply({"error": "invalid_grant", "error_description": "no scope was granted"}, 400)
        token, lifetime = secrets.token_urlsafe(24), self.variant.lifetime
        expires = None if lifetime is None else self.clock() + lifetime
        self.tokens[token] = Token(code.person, code.asking.client.id, code.scope, expires, request.form["code"])
        about = _about(code.person, code.scope)
        reply: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "scope": " ".join(code.scope), **about}
        return self._shaped(reply if lifetime is None else {**reply, "expires_in": lifetime})

    def _shaped(self, reply: Mapping[str, Any]) -> Answer:
        if self.variant.replies == "form":
            return form_reply({name: value for name, value in reply.items() if name != "profile"})
        return json_reply(reply)

    # --- Checks by resource servers

    def good(self, token: str | None) -> Token | None:
        """The token, unless it is unknown, revoked or expired."""
        found = self.tokens.get(token or "")
        if found is None or found.revoked or (found.expires is not None and found.expires <= self.clock()):
            return None
        return found

    def _check(self, request: Asked) -> Answer:
        if self.variant.check == "introspection":
            return Answer(b"", 405)
        found = self.good(request.bearer)
        if found is None:
            return json_reply({"error": "unauthorized"}, 401, ("WWW-Authenticate", "Bearer"))
        about = {"me": found.person.me, "client_id": found.client, "scope": " ".join(found.scope)}
        return self._shaped(about)

    def _introspect(self, request: Asked) -> Answer:
        demands = self.variant.authorized
        if demands != "nothing" and request.bearer is None:
            return json_reply({"error": "unauthorized"}, 401, ("WWW-Authenticate", "Bearer"))
        if demands == "secret" and request.bearer != self.service_secret:
            return json_reply({"error": "forbidden"}, 403)
        found = self.good(request.form.get("token"))
        if found is None:
            return json_reply({"active": False})
        about = {"active": True, "me": found.person.me, "client_id": found.client, "scope": " ".join(found.scope)}
        return json_reply(about if found.expires is None else {**about, "exp": int(found.expires)})


@asynccontextmanager
async def provider(
    variant: Variant | None = None, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Provider]:
    """A running provider on a free port of `host`, which is a loopback address."""
    made = Provider(variant or Variant())
    async with publisher(made.answer, host=host, tls=tls) as made.listening:
        yield made


def _about(person: Person, scope: tuple[str, ...]) -> dict[str, Any]:
    return {"me": person.me, **({"profile": person.profile} if "profile" in scope else {})}


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
