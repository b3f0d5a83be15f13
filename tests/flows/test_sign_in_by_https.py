"""Reader apps sign in at an instance in production setup: with https, behind a proxy, at a host or below its path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.support.cluster import free_ports
from tests.support.own_server import PASSWORD, Approver, AppSite, Surfer, app_site, links
from tests.support.process import Installation, installation
from tests.support.reader_apps import APPS, App, Monocle

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@dataclass
class World:
    """An instance behind a proxy; `public` is its address from outside."""

    public: str
    inside: str
    site: AppSite
    installed: Installation

    @cached_property
    def browser(self) -> Surfer:
        """Ann's browser, with a lasting session."""
        return Surfer(http=self.http())

    @property
    def profile(self) -> str:
        return f"{self.site.listening.base}/ann/"

    def http(self) -> httpx.AsyncClient:
        return behind(self.public, self.inside)


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["https://reader.example", "https://ann.example/reader"]
)
async def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        site = await enter(app_site())
        users = {"users": {"ann": {"me": f"{site.listening.base}/ann/"}}}
        public: str = request.param
        (port,) = map(str, free_ports(1))
        installed = await enter(
            installation(tmp_path_factory.mktemp("reader"), users, MICROSUB_BASE_URL=public, MICROSUB_PORT=port)
        )
        assert await installed.serve("web") == public
        made = World(public, f"http://127.0.0.1:{port}", site, installed)
        site.profile("ann", **links(public))
        code, out, err = await installed.run("user", "invite", "ann")
        assert code == 0, err
        link = next(word for word in out.split() if "#" in word)
        assert link.startswith(f"{public}/enrol#")
        async with Surfer(http=made.http()) as surfer:
            await surfer.goto(link.partition("#")[0])
            await surfer.submit(code=link.partition("#")[2], password=PASSWORD, again=PASSWORD)
            assert surfer.title == "Welcome", surfer.text
        yield made


@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
async def test_apps_sign_in_and_read(world: World, kind: type[App]) -> None:
    """Monocle works too, which requires an issuer with https."""
    async with world.http() as http:
        visitor = Approver(world.site, "ann", surfer=world.browser)
        more = {"loopback": False} if kind is Monocle else {}
        app = kind(http, world.site.home(kind.name), **more)
        signed = await app.sign_in(world.profile, visitor)
        assert signed.microsub == f"{world.public}/microsub"
        assert await signed.read("notifications") == []


async def test_metadata_and_pages_are_those_of_the_public_address(world: World) -> None:
    """Issuer, endpoints, our client id and the redirect after sign-in use the public address."""
    async with world.http() as http:
        metadata = (await http.get(f"{world.public}/.well-known/oauth-authorization-server")).json()
        assert metadata["issuer"] == world.public
        assert all(url.startswith(f"{world.public}/") for name, url in metadata.items() if name.endswith("_endpoint"))
        document = (await http.get(f"{world.public}/client", headers={"Accept": "application/json"})).json()
        assert document["client_id"] == f"{world.public}/client"
        assert document["redirect_uris"] == [f"{world.public}/{way}/callback" for way in ("sign-in", "answer")]
    async with Surfer(http=world.http()) as surfer:
        await surfer.goto(f"{world.public}/account")
        assert surfer.here.startswith(f"{world.public}/sign-in?")
        await surfer.submit(me=world.profile)
        await surfer.submit("/sign-in/local", who="ann", password=PASSWORD)
        assert surfer.here == f"{world.public}/account"


async def test_cookies_are_bound_to_host_and_https(world: World) -> None:
    """Their names prevent planting by other hosts of the domain; scripts can't read them, and they are sent only over
    https.
    """
    async with Surfer(http=world.http()) as surfer:
        set_cookies: list[str] = []

        async def note(reply: httpx.Response) -> None:
            set_cookies.extend(reply.headers.get_list("set-cookie"))

        surfer.http.event_hooks["response"] = [note]
        await surfer.goto(f"{world.public}/sign-in/local?next=/account")
        await surfer.submit(who="ann", password=PASSWORD)
        assert surfer.here == f"{world.public}/account"
        assert len(set_cookies) >= 2
        for line in set_cookies:
            attributes = {part.strip().lower() for part in line.split(";")[1:]}
            assert line.startswith("__Host-"), line
            assert {"secure", "httponly", "samesite=lax", "path=/"} <= attributes, line
            assert not [part for part in attributes if part.startswith("domain")], line


async def test_a_planted_cookie_of_the_plain_name_is_nothing(world: World) -> None:
    """A cookie that another host of the domain sets neither signs in nor prevents a sign-in."""
    async with Surfer(http=world.http()) as surfer:
        await surfer.goto(f"{world.public}/sign-in/local")
        await surfer.submit(who="ann", password=PASSWORD)
        cookie = next(v for n, v in surfer.http.cookies.items() if n.endswith("session"))
    async with world.http() as http:
        for name in ("microsub-session", "session", "__Secure-microsub-session"):
            reply = await http.get(f"{world.public}/account", headers={"Cookie": f"{name}={cookie}"})
            assert reply.status_code == 303, name
        reply = await http.get(
            f"{world.public}/account", headers={"Cookie": f"microsub-session=x; __Host-microsub-session={cookie}"}
        )
        assert reply.status_code == 200


async def test_forms_from_http_or_a_neighbour_are_refused(world: World) -> None:
    """The origin must be the public one, not the http one or another host of the domain."""
    async with Surfer(http=world.http()) as surfer:
        await surfer.goto(f"{world.public}/sign-in/local")
        form = surfer.fields(next(form for form in surfer.forms if form.css_first("[name=password]")))
        data = {**form, "who": "ann", "password": PASSWORD}
        host = world.public.split("/")[2]
        for origin in (f"http://{host}", f"https://evil.{host}", "https://example", world.inside, "null"):
            reply = await surfer.http.post(f"{world.public}/sign-in/local", data=data, headers={"Origin": origin})
            assert reply.status_code == 403, origin


class Proxied(httpx.AsyncBaseTransport):
    """Sends requests below `public` to `inside`, with the path after `public`'s own and the requested Host.

    All other requests are sent to their own address.
    """

    def __init__(self, public: str, inside: str) -> None:
        self._public, self._inside = urlsplit(public), urlsplit(inside)
        self._plain = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host != self._public.hostname:
            return await self._plain.handle_async_request(request)
        prefix = self._public.path.rstrip("/").encode()
        path = request.url.raw_path
        if not path.startswith(prefix + b"/"):
            return httpx.Response(404, request=request)
        url = request.url.copy_with(
            scheme="http", host=self._inside.hostname, port=self._inside.port, raw_path=path[len(prefix) :]
        )
        return await self._plain.handle_async_request(
            httpx.Request(
                request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
            )
        )

    async def aclose(self) -> None:
        await self._plain.aclose()


def behind(public: str, inside: str) -> httpx.AsyncClient:
    """A client that reaches the server at `inside` by the address `public`."""
    return httpx.AsyncClient(transport=Proxied(public, inside), timeout=60)
