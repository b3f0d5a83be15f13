"""Reader apps that sign in and read as the real ones were observed to, each with its peculiarities.

They are independent of the product. An app finds the endpoints on a user's profile page, sends the user to the
authorization endpoint, redeems the code and reads at the Microsub endpoint:

    async with httpx.AsyncClient(timeout=60) as http:
        signed = await Monocle(http, home).sign_in(profile, person)
        items = await signed.read()

`home` is the app's client id, and the origin that receives answers; `own_server.py` has a server for it. `person`
stands for the user's browser: it takes the URL of the authorization endpoint and returns the URL with which the
browser returns to the app. `AppBreaks` gives the reason where the real app would stop, crash, or show nothing.

`reads_back` and `needs` are the parameters that an app requires in the redirect and in the token endpoint's reply.

What they read of the posting endpoint is replayed too (`Signed.buttons`, `Signed.like`).

- Together: no PKCE; redeems the code twice, sequentially or concurrently; `me` must be on the host that was entered;
  caches what HTTP allows; a 401 signs out; a dot in a channel's uid breaks its settings; shows an error unless
  `q=config` returns 200.
- Monocle: HEAD, then GET of the profile; metadata first; PKCE S256; an issuer must be https, unless `loopback` allows
  http. If `me` in the reply differs from the entered address, its page must name the same authorization endpoint. It
  hides buttons that `post-types` leaves out; without a Location, a pressed button does nothing.
  `MonocleOfOld` has the library version of the lock file, which doesn't support metadata.
- IndiePassAndroid: exact match of rels; Link headers, split at every `,` and `;`, before the page; fails with two
  endpoints of one kind; PKCE S256; reads only the token of the reply, and name and photo of a `profile`; parameters
  aren't encoded. A post whose author, content or check-in isn't what it expects ends the page: later posts aren't
  shown; a time of an event needs seconds.
- IndiePassIos: requires `micropub`; GETs with a Content-Type; replies must be exactly 200 and `application/json`; one
  of the granted scopes must be `create` or `post`; it ignores errors of the posting endpoint.
- IndiePassDesktop: no sign-in; endpoint and token are pasted. A query is appended; nothing may be null.
- Ek: redirects to `http://127.0.0.1:<any port>/`, with a client id on another site that doesn't answer; sends all
  parameters in the query of a POST; empty `after=` and `before=`; strict types.
- Ekstereye: requires `micropub`; reads `me` from the redirect and discovers the endpoints there again; as a browser,
  it sends preflights (CORS) and Cache-Control; it requests `events` at once.
- Padd: PKCE S256; its client id is a JSON document; sends `me` without its final slash; takes any 401 for the end of
  its token.
- Notifier: finds the user by `me` in the redirect, exactly as entered; a slash at the end of the endpoint; polls with
  the stored `paging.before`.

Only Monocle is known to read `indieauth-metadata`; for all others a page must have the two older rels.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx

from tests.support.reader_app import BUTTONS, App, AppBreaks, Person, Signed, found_rels, header_rels, same_host, tags
from tests.support.web import Answer, Asked, html_reply, publisher

__all__ = [
    "APPS",
    "App",
    "AppBreaks",
    "Ek",
    "Ekstereye",
    "IndiePassAndroid",
    "IndiePassDesktop",
    "IndiePassIos",
    "Monocle",
    "MonocleOfOld",
    "Notifier",
    "Padd",
    "Person",
    "Signed",
    "Together",
]

RELS = ("indieauth-metadata", "authorization_endpoint", "token_endpoint", "microsub", "micropub")
PROVIDER = ("authorization_endpoint", "token_endpoint")
_WITH_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class Together(App):
    """Together v3. `at_once`: both redemptions run at the same time."""

    name = "Together"
    scopes = "post create delete update read follow mute block channels"
    at_once = False

    def __init__(self, *arguments: Any, at_once: bool = False, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.at_once = at_once
        self.kept: dict[str, httpx.Response] = {}
        self.redeemed: list[dict[str, Any]] = []

    async def redeem(self, endpoint: str, form: Mapping[str, str], profile: str) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            accept = {"Accept": "application/json, application/x-www-form-urlencoded"}
            reply = await self.http.post(endpoint, data={**form, "me": profile, "scope": self.asks}, headers=accept)
            return self.given(reply)

        self.redeemed = list(await asyncio.gather(once(), once())) if self.at_once else [await once(), await once()]
        return self.redeemed[-1]

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        if not same_host(given["me"], profile):
            raise AppBreaks(f"Together wants {given['me']} to be on the host of {profile}")

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        key = f"{signed.token} {sorted(parameters.items())}"
        if key in self.kept:
            return self.kept[key]
        reply = await super().get(signed, parameters)
        rules = reply.headers.get("cache-control", "")
        if "no-store" not in rules and "no-cache" not in rules and "max-age=0" not in rules:
            # A browser may cache a reply for a while even without explicit permission (RFC 9111, section 4.2.2).
            self.kept[key] = reply
        return reply

    def offered(self, reply: httpx.Response) -> set[str]:
        if reply.status_code != 200:
            raise AppBreaks(f"Together shows 'Error getting config': {reply.status_code} {reply.text[:200]}")
        return super().offered(reply)

    async def read(self, signed: Signed, channel: str | None = None) -> list[dict[str, Any]]:
        channels = self.checked(await self.get(signed, {"action": "channels"}))["channels"]
        dotted = [found["uid"] for found in channels if "." in found["uid"]]
        if dotted:
            raise AppBreaks(f"Together loses its settings by a dot in {dotted}")
        return await super().read(signed, channel)


class Monocle(App):
    """Monocle."""

    name = "Monocle"
    scopes = "create update read follow channels profile"
    pkce = True

    def __init__(self, *arguments: Any, loopback: bool = True, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.loopback = loopback

    async def discover(self, profile: str) -> dict[str, str]:
        head = await self.http.head(profile, follow_redirects=True)
        page = await self.http.get(profile, follow_redirects=True)
        found = found_rels(page) | header_rels(head)
        if "indieauth-metadata" not in found:
            return found
        where = found["indieauth-metadata"]
        reply = await self.http.get(where, headers={"Accept": "application/json"})
        metadata = reply.json()
        issuer = str(metadata.get("issuer", ""))
        schemes = {"https", "http"} if self.loopback else {"https"}
        if urlsplit(issuer).scheme not in schemes or urlsplit(issuer).query or urlsplit(issuer).fragment:
            raise AppBreaks(f"Monocle refuses the issuer {issuer}")
        if not where.startswith(issuer):
            raise AppBreaks(f"Monocle refuses the issuer {issuer}, which isn't above {where}")
        named = {name: str(metadata[name]) for name in ("authorization_endpoint", "token_endpoint") if name in metadata}
        return {**found, **named, "issuer": issuer}

    def came_back(self, back: str, state: str, found: Mapping[str, str]) -> dict[str, str]:
        iss = dict(parse_qsl(urlsplit(back).query)).get("iss")
        if "issuer" in found and iss is not None and iss != found["issuer"]:
            raise AppBreaks(f"Monocle was answered by {iss}, not by {found['issuer']}")
        return super().came_back(back, state, found)

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        if given["me"] == profile:
            return
        there = await self.discover(given["me"])
        if there.get("authorization_endpoint") != found["authorization_endpoint"]:
            raise AppBreaks(f"Monocle finds another authorization endpoint at {given['me']}")

    def offered(self, reply: httpx.Response) -> set[str]:
        config = reply.json() if reply.status_code == 200 else {}
        if "post-types" not in config:
            return super().offered(reply)
        return {kind["type"] for kind in config["post-types"]} & BUTTONS

    def posted(self, reply: httpx.Response) -> str:
        if "location" not in reply.headers:
            raise AppBreaks("Monocle shows nothing after the button was pressed")
        return reply.headers["location"]

    def items(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().items(page)
        for item in items:
            if isinstance(item.get("_source"), dict) or isinstance(item.get("quotation-of"), list):
                raise AppBreaks("Monocle dies of an object in _source or a list in quotation-of")
        return items


class MonocleOfOld(Monocle):
    """Monocle with the library version of its lock file, which doesn't support metadata."""

    async def discover(self, profile: str) -> dict[str, str]:
        head = await self.http.head(profile, follow_redirects=True)
        page = await self.http.get(profile, follow_redirects=True)
        return found_rels(page) | header_rels(head)

    def came_back(self, back: str, state: str, found: Mapping[str, str]) -> dict[str, str]:
        return App.came_back(self, back, state, found)


class IndiePassAndroid(App):
    """IndiePass on Android."""

    name = "IndiePass Android"
    scopes = "create update delete media read follow channels mute block"
    pkce = True
    needs = ("access_token",)

    async def discover(self, profile: str) -> dict[str, str]:
        reply = await self.http.get(profile, follow_redirects=True)
        found: dict[str, str] = {}
        providers = 0
        for part in ", ".join(reply.headers.get_list("link")).split(",") if "link" in reply.headers else []:
            address, *parameters = part.split(";")
            if not parameters:
                return found
            rel = parameters[0].strip().replace("rel=", "").replace('"', "")
            providers += rel in PROVIDER
            found[rel] = urljoin(str(reply.url), address.strip(" <>"))
        for rel, url in tags(reply, exact=True):
            if rel not in found:
                providers += rel in PROVIDER
                found[rel] = url
        if providers > len(PROVIDER):
            raise AppBreaks(f"IndiePass Android wants one endpoint of each kind, and finds {found}")
        return found

    async def redeem(self, endpoint: str, form: Mapping[str, str], profile: str) -> dict[str, Any]:
        return await super().redeem(endpoint, {**form, "me": profile}, profile)

    def given(self, reply: httpx.Response) -> dict[str, Any]:
        given = super().given(reply)
        if not isinstance(given.get("profile", {}), dict):
            raise AppBreaks(f"IndiePass Android reads name and photo of a profile, and finds {given['profile']!r}")
        return given

    def items(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().items(page)
        for item in items:
            for name in ("author", "content", "checkin"):
                if not isinstance(item.get(name, {}), dict):
                    raise AppBreaks(f"IndiePass Android ends the page at a post whose {name} is {item[name]!r}")
            if not isinstance(item.get("_is_read", False), bool) or "name" not in item.get("checkin", {"name": ""}):
                raise AppBreaks(f"IndiePass Android ends the page at {item}")
            for moment in ("start", "end"):
                if "T" in item.get(moment, "") and not _WITH_SECONDS.match(item[moment]):
                    raise AppBreaks(f"IndiePass Android doesn't show the {moment} {item[moment]}")
        return items

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        unencoded = "&".join(f"{name}={value}" for name, value in parameters.items())
        headers = {"Authorization": f"Bearer {signed.token}"}
        return await self.http.get(f"{signed.microsub}?{unencoded}", headers=headers)


class IndiePassIos(App):
    """IndiePass on iOS."""

    name = "IndiePass iOS"
    scopes = "create read"
    wants = ("microsub", "authorization_endpoint", "token_endpoint", "micropub")

    def given(self, reply: httpx.Response) -> dict[str, Any]:
        self._exact(reply)
        return super().given(reply)

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        if "create" not in given["scope"] and "post" not in given["scope"]:
            raise AppBreaks(f"IndiePass iOS wants at least create, and was given {given['scope']}")

    def checked(self, reply: httpx.Response) -> dict[str, Any]:
        self._exact(reply)
        return super().checked(reply)

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {signed.token}", "Content-Type": "application/json"}
        return await self.http.get(signed.microsub, params=dict(parameters), headers=headers)

    def _exact(self, reply: httpx.Response) -> None:
        kind = reply.headers.get("content-type")
        if reply.status_code != 200 or kind != "application/json":
            raise AppBreaks(f"IndiePass iOS is at a loss with {reply.status_code} and {kind}: {reply.text[:200]}")


class IndiePassDesktop(App):
    """IndiePass on the desktop, with the values in its settings."""

    name = "IndiePass desktop"
    fields = ("Reader endpoint", "The token for both endpoints", "Post endpoint", "Media endpoint")
    """The names of its settings."""

    def pasted(self, endpoint: str, token: str) -> Signed:
        """A user who has pasted endpoint and token into the settings."""
        return Signed(self, "", "", token, endpoint, {})

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {signed.token}"}
        return await self.http.get(f"{signed.microsub}?{urlencode(parameters)}", headers=headers)

    async def read(self, signed: Signed, channel: str | None = None) -> list[dict[str, Any]]:
        channels = self.checked(await self.get(signed, {"action": "channels"}))["channels"]
        if not all({"uid", "name"} <= found.keys() for found in channels):
            raise AppBreaks("IndiePass desktop shows channels without a name or uid as undefined")
        return await super().read(signed, channel)

    def items(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().items(page)
        if "after" in page["paging"] and page["paging"]["after"] is None:
            raise AppBreaks("IndiePass desktop throws at paging.after that is null")
        for item in items:
            if "id" not in item.get("_channel", {}) or None in (item.get("photo", ""), item.get("content", "")):
                raise AppBreaks("IndiePass desktop stays blank without _channel.id, or with a null photo or content")
        return items


class Ek(App):
    """The command line program ek, which listens on a local port until the browser returns."""

    name = "ek"
    scopes = "read follow mute block channels"
    needs = ("access_token",)

    def __init__(self, http: httpx.AsyncClient, home: str = "", scopes: str | None = None) -> None:
        # The client id is the site of its author, wherever the program runs.
        super().__init__(http, "https://ek.example/microsub-client", scopes)

    async def sign_in(self, profile: str, person: Person) -> Signed:
        async def welcome(_: Asked) -> Answer:
            return html_reply("<title>ek</title><p>Welcome back to ek</p>")

        async with publisher(welcome) as own:
            self.redirect_uri = f"{own.base}/"
            return await super().sign_in(profile, person)

    def page(self, channel: str) -> dict[str, str]:
        return {"action": "timeline", "channel": channel, "after": "", "before": ""}

    async def post(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {signed.token}"}
        return await self.http.post(signed.microsub, params=dict(parameters), headers=headers)

    def items(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().items(page)
        for item in items:
            for name in ("category", "photo", "video", "audio", "syndication", "like-of", "in-reply-to"):
                if name in item and not isinstance(item[name], list):
                    raise AppBreaks(f"ek can't read {name}, which is no list")
        return items


class Ekstereye(App):
    """Ekstereye, which runs in a browser."""

    name = "Ekstereye"
    scopes = "create post channels timeline"
    wants = ("microsub", "authorization_endpoint", "token_endpoint", "micropub")
    reads_back = ("code", "me")
    origin = "https://ekstereye.example"

    async def look_again(self, told: Mapping[str, str], me: str, found: dict[str, str]) -> dict[str, str]:
        there = await self.discover(told["me"])
        missing = [rel for rel in ("token_endpoint", "microsub") if rel not in there]
        if missing:
            raise AppBreaks(f"Ekstereye finds no {', '.join(missing)} at {told['me']}")
        return there

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        if not same_host(given["me"], profile):
            raise AppBreaks(f"Ekstereye wants {given['me']} to be on the host of {profile}")

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        await self._allowed(signed, "GET")
        headers = {"Authorization": f"Bearer {signed.token}", "Cache-Control": "no-cache", "Origin": self.origin}
        return await self.http.get(signed.microsub, params=dict(parameters), headers=headers)

    async def post(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        await self._allowed(signed, "POST")
        headers = {"Authorization": f"Bearer {signed.token}", "Cache-Control": "no-cache", "Origin": self.origin}
        return await self.http.post(signed.microsub, data=dict(parameters), headers=headers)

    def checked(self, reply: httpx.Response) -> dict[str, Any]:
        if reply.headers.get("access-control-allow-origin") not in {"*", self.origin}:
            raise AppBreaks("the browser hides the reply from Ekstereye")
        return super().checked(reply)

    async def read(self, signed: Signed, channel: str | None = None) -> list[dict[str, Any]]:
        await self._allowed(signed, "GET")
        url = f"{signed.microsub}?{urlencode({'action': 'events', 'access_token': signed.token})}"
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", "Origin": self.origin}
        async with self.http.stream("GET", url, headers=headers) as stream:
            kind = stream.headers.get("content-type", "")
            told = stream.status_code == 400 and kind == "application/json"
            if not told and not (stream.status_code == 200 and kind.startswith("text/event-stream")):
                raise AppBreaks(f"Ekstereye asks every second for events: {stream.status_code} {kind}")
        return await super().read(signed, channel)

    async def _allowed(self, signed: Signed, method: str) -> None:
        asked = {
            "Origin": self.origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,cache-control",
        }
        reply = await self.http.options(signed.microsub, headers=asked)
        headers = {name.strip().lower() for name in reply.headers.get("access-control-allow-headers", "").split(",")}
        origin = reply.headers.get("access-control-allow-origin")
        if not (reply.is_success and origin in {"*", self.origin} and {"authorization", "cache-control"} <= headers):
            raise AppBreaks(f"the browser doesn't let Ekstereye ask: {reply.status_code} {dict(reply.headers)}")


class Padd(App):
    """PADD, whose client id is a document next to its pages."""

    name = "PADD"
    scopes = "create update delete media read follow channels mute block"
    pkce = True
    needs = ("access_token", "me")

    def __init__(self, http: httpx.AsyncClient, home: str = "https://reader.example/", scopes: str | None = None):
        super().__init__(http, home, scopes)
        self.client_id = urljoin(home, "id")

    def posted(self, reply: httpx.Response) -> str:
        if reply.status_code == 401:
            raise AppBreaks("PADD says 'Access token is invalid or expired'")
        return super().posted(reply)

    def writes(self, profile: str) -> str:
        return profile.rstrip("/")


class Notifier(App):
    """microsub-notifier, which stores users under the address that they have entered."""

    name = "microsub-notifier"
    scopes = "read"
    reads_back = ("code", "me")
    needs = ("access_token",)

    async def look_again(self, told: Mapping[str, str], me: str, found: dict[str, str]) -> dict[str, str]:
        if told["me"] != me:
            raise AppBreaks(f"microsub-notifier knows nobody called {told['me']}, only {me}")
        return found

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        url = f"{found['microsub'].rstrip('/')}/?action=channels"
        reply = await self.http.get(url, headers={"Authorization": f"Bearer {given['access_token']}"})
        if "channels" not in self.checked(reply):
            raise AppBreaks(f"microsub-notifier finds no channels in {reply.text[:200]}")

    def endpoint(self, signed: Signed) -> str:
        return signed.microsub.rstrip("/") + "/"

    async def read(self, signed: Signed, channel: str | None = None) -> list[dict[str, Any]]:
        """The new items since the last call, by the stored cursor."""
        channel = channel or "notifications"
        asked = self.page(channel) | ({"before": signed.stored[channel]} if channel in signed.stored else {})
        page = self.checked(await self.get(signed, asked))
        if "before" in page["paging"]:
            signed.stored[channel] = page["paging"]["before"]
        return self.items(page)


APPS: tuple[type[App], ...] = (Together, Monocle, IndiePassAndroid, IndiePassIos, Ek, Ekstereye, Padd, Notifier)
