"""No secret is stored in clear text in Redis, files, logs or addresses, after any flow."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
import redis.asyncio as redis_py

from tests.support.own_server import PASSWORD, Approver, AppSite, Surfer, app_site, enrolled, links, sign_in
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.reader_apps import IndiePassAndroid, Monocle

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Flows:
    """The performed flows, and `secrets` that must not be found, by description."""

    installed: Installation
    secrets: dict[str, str] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)

    def note(self, what: str, secret: str) -> None:
        assert len(secret) > 12, what
        self.secrets[f"{what} {len(self.secrets)}"] = secret
        # The part after the user's name is as sensitive as the whole token.
        if len(secret.rpartition(".")[2]) > 20:
            self.secrets[f"the secret of {what} {len(self.secrets)}"] = secret.rpartition(".")[2]

    def note_cookies(self, surfer: Surfer) -> None:
        for name, value in surfer.http.cookies.items():
            if len(value) > 20:
                self.note(f"cookie {name}", value)


async def everything_in_redis(folder: Path) -> dict[str, str]:
    """Every key with its whole value, as text."""
    paths = list(folder.rglob("*.sock")) + [Path(line) for line in _sockets(folder)]
    client = redis_py.Redis(unix_socket_path=str(paths[0]))
    found = {}
    async with client:
        async for key in client.scan_iter(count=1000):
            kind = (await client.type(key)).decode()
            match kind:
                case "string":
                    value: object = await client.get(key)
                case "hash":
                    value = await client.hgetall(key)
                case "set":
                    value = await client.smembers(key)
                case "zset":
                    value = await client.zrange(key, 0, -1, withscores=True)
                case "list":
                    value = await client.lrange(key, 0, -1)
                case _:
                    value = await client.xrange(key)
            found[key.decode("utf-8", "replace")] = str(value)
        await client.save()
    return found


def _sockets(folder: Path) -> list[str]:
    record = next(folder.rglob("*.json"), None)
    return [word.strip('",') for word in (record.read_text().split() if record else []) if ".sock" in word]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def flows(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Flows]:
    """An instance after invitations, passwords, sessions, codes, own and foreign tokens, and sign-ins."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http, site = await enter(httpx.AsyncClient(timeout=60)), await enter(app_site())
        foreign = await enter(provider(Variant.lenient()))
        users = {name: {"me": f"{site.listening.base}/{name}/"} for name in ("ann", "invited")}
        users["far"] = {"me": foreign.person("far").me}
        made = await enter(
            installation(
                tmp_path_factory.mktemp("reader"), {"users": users, "settings": {"identity": {"token_cache": 600}}}
            )
        )
        url = await made.serve("serve", "--show-token")
        site.profile("ann", **links(url))
        site.profile("invited", **links(url))
        foreign.person("far", microsub=f"{url}/microsub/far")
        flows = Flows(made)
        terminal = made.folder / "0.out"
        shown = re.search(r"Bearer ([^']+)", terminal.read_text())
        assert shown
        flows.note("token shown at start", shown[1])
        terminal.unlink()  # shown to the user on request; it must not be anywhere else
        await made.run_each("user list", "token list ann")
        await enrolled(made, url, "ann")
        flows.note("password", PASSWORD)
        _, out, _ = await made.run("user", "invite", "invited")
        flows.note("invitation", urlsplit(next(word for word in out.split() if "#" in word)).fragment)
        flows.note("token of the command line", await made.token("ann"))
        await _an_app_of_ours(flows, http, site, url)
        await _a_foreign_token_and_sign_in(flows, http, site, foreign, url)
        yield flows


async def _an_app_of_ours(flows: Flows, http: httpx.AsyncClient, site: AppSite, url: str) -> None:
    visitor = Approver(site, "ann")
    backs: list[str] = []

    async def person(there: str) -> str:
        backs.append(await visitor(there))
        return backs[-1]

    app = Monocle(http, site.home("Monocle"))
    signed = await app.sign_in(f"{site.listening.base}/ann/", person)
    await signed.read("notifications")
    flows.note("code", parse_qs(urlsplit(backs[0]).query)["code"][0])
    flows.note("access token", signed.token)
    flows.note("refresh token", signed.given["refresh_token"])
    form = {"grant_type": "refresh_token", "refresh_token": signed.given["refresh_token"], "client_id": app.client_id}
    renewed = (await http.post(f"{url}/token", data=form)).json()
    flows.note("renewed access token", renewed["access_token"])
    flows.note("renewed refresh token", renewed["refresh_token"])
    unused = await Approver(site, "ann")(
        f"{url}/auth?response_type=code&client_id={app.client_id}&redirect_uri={app.redirect_uri}&scope=read"
    )
    flows.note("unused code", parse_qs(urlsplit(unused).query)["code"][0])
    flows.note_cookies(visitor.surfer)
    flows.addresses += visitor.surfer.hops


async def _a_foreign_token_and_sign_in(
    flows: Flows, http: httpx.AsyncClient, site: AppSite, foreign: Provider, url: str
) -> None:
    async def person(there: str) -> str:
        return (await http.get(there)).headers["location"]

    app = IndiePassAndroid(http, site.home("IndiePass"))
    signed = await app.sign_in(foreign.people["far"].me, person)
    await signed.read("notifications")
    flows.note("foreign token", signed.token)
    refused = await http.get(f"{url}/microsub/far", headers={"Authorization": "Bearer made-up-and-refused-token"})
    assert refused.status_code == 401
    flows.note("refused token", "made-up-and-refused-token")
    async with Surfer() as surfer:
        await surfer.goto(f"{url}/sign-in")
        await surfer.submit(me=foreign.people["far"].me)
        assert surfer.here == f"{url}/"
        flows.note_cookies(surfer)
        flows.addresses += [hop for hop in surfer.hops if "callback" not in hop]
    async with Surfer(foreign.url("/auth")) as waiting:
        await waiting.goto(f"{url}/sign-in")
        await waiting.submit(me=foreign.people["far"].me)
        flows.note("state under way", parse_qs(urlsplit(waiting.away).query)["state"][0])
        flows.note_cookies(waiting)
        await waiting.goto(f"{url}/sign-in/local")
        await sign_in(waiting, "ann", "a wrong password of a person")
        flows.note("wrong password", "a wrong password of a person")
    for request in foreign.asked:
        if request.form.get("code_verifier"):
            flows.note("verifier", request.form["code_verifier"])


async def test_no_secret_is_stored_logged_or_addressed(flows: Flows) -> None:
    """Keys, values, saved data, backend.json, logs and addresses are searched for each secret of each flow."""
    assert len(flows.secrets) > 20
    stored = await everything_in_redis(flows.installed.folder)
    assert len(stored) > 20
    files = {path: path.read_bytes() for path in flows.installed.folder.rglob("*") if path.is_file()}
    found = []
    for what, secret in flows.secrets.items():
        found += [f"{what} in the key {key}" for key, value in stored.items() if secret in key or secret in value]
        found += [f"{what} in the file {path}" for path, text in files.items() if secret.encode() in text]
        if "code" not in what:
            found += [f"{what} in the address {address}" for address in flows.addresses if secret in address]
    assert found == []


async def test_the_search_finds_what_is_there(flows: Flows) -> None:
    """Values that may be stored are found by the same search, which proves that it works."""
    stored = await everything_in_redis(flows.installed.folder)
    assert any("127.0.0.1" in value for value in stored.values())
    assert any(":session:" in key or "session" in key for key in stored)
    assert any("monocle" in value.lower() for value in stored.values())
