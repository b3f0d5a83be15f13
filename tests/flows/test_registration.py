"""Users register by signing in, and read; the admin sees and removes them: real processes, real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx

from tests.support.own_server import Surfer
from tests.support.process import Installation, installation, reader
from tests.support.provider import Provider, provider
from tests.support.waiting import wait_until

FEED = "http://127.0.0.1:9/feed{}"


async def sign_in(url: str, me: str) -> tuple[str, int, str]:
    """Title, status and text of the last page of a sign-in as `me`."""
    async with Surfer() as browser:
        await browser.goto(f"{url}/sign-in")
        await browser.submit(me=me)
        return browser.title, browser.reply.status_code, browser.text


START = "What do you want to read?"
"""The title of the page for users without feeds."""


def users(listed: str) -> dict[str, str]:
    return {line.split()[0]: line for line in listed.splitlines()}


async def listing(installed: Installation) -> dict[str, str]:
    code, out, err = await installed.run("user", "list")
    assert code == 0, err
    return users(out)


async def test_somebody_comes_reads_meets_limits_and_goes(tmp_path: Path) -> None:
    """With the user's own provider, and two web processes that share quotas."""
    limits = {"channels": 2, "feeds": 2, "requests": 40}
    backend = {"users": {"alice": {}}, "settings": {"registration": {"open": "everybody", "quotas": limits}}}
    async with provider() as site, installation(tmp_path, backend) as installed:
        ann = site.person("ann")
        urls = [await installed.serve("web"), await installed.serve("web")]
        title, status, text = await sign_in(urls[0], ann.me)
        assert (title, status) == ("Welcome", 200), text
        found = re.search(r'rel="microsub" href="([^"]+)/microsub/([A-Za-z0-9_-]+)"', text)
        assert found is not None, text
        name = found[2]
        assert name.endswith("-ann")
        again = await asyncio.gather(*(sign_in(url, ann.me) for url in urls * 2))
        assert {title for title, _, _ in again} == {START}
        assert "registered" in (await listing(installed))[name]
        assert name not in json.loads(installed.backend.read_text())["users"], (
            "nobody comes into the file by themselves"
        )
        await _meets_limits(site, urls, name)
        await _survives_edits(installed, backend, name, urls[1])
        await _goes(installed, name, ann.me, urls[1])


async def _meets_limits(site: Provider, urls: list[str], name: str) -> None:
    token = site.grant("ann", "read", "follow", "channels")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=60, headers=headers) as http:

        async def ask(number: int, **body: str) -> httpx.Response:
            return await http.post(f"{urls[number % 2]}/microsub/{name}", data=body)

        made = await asyncio.gather(*(ask(n, action="channels", name=f"C{n}") for n in range(6)))
        assert sorted(reply.status_code for reply in made) == [200] * 2 + [403] * 4
        uid = next(reply.json()["uid"] for reply in made if reply.status_code == 200)
        feeds = await asyncio.gather(*(ask(n, action="follow", channel=uid, url=FEED.format(n)) for n in range(6)))
        assert sorted(reply.status_code for reply in feeds) == [200] * 2 + [403] * 4
        assert "feeds is reached: 2 of 2" in next(
            reply.json()["error_description"] for reply in feeds if reply.status_code == 403
        )

        async def exhausted() -> bool:
            reply = await http.get(f"{urls[0]}/microsub/{name}", params={"action": "channels"})
            assert reply.status_code in {200, 429}
            return reply.status_code == 429 and 1 <= int(reply.headers["retry-after"]) <= 60

        await wait_until(exhausted)


async def _survives_edits(installed: Installation, backend: dict[str, object], name: str, url: str) -> None:
    """An account that isn't from the file survives edits, also ones that add and remove an entry for it."""
    installed.write({**backend, "users": {"alice": {}, "bob": {}, name: {"settings": {"quotas": {"requests": 0}}}}})
    await wait_until(lambda: _has(installed, "bob"))
    installed.write({**backend, "users": {"alice": {}, "carol": {}}})
    await wait_until(lambda: _has(installed, "carol"))
    listed = await listing(installed)
    assert "disabled" in listed["bob"]
    assert "disabled" not in listed[name]
    async with reader(url, await installed.token("alice")) as alice:
        await alice.channels()


async def _has(installed: Installation, name: str) -> bool:
    return name in await listing(installed)


async def _goes(installed: Installation, name: str, me: str, url: str) -> None:
    code, out, err = await installed.run("user", "remove", "carol")
    assert (code, "backend.json too" in out) == (0, True), err
    assert "disabled" in (await listing(installed))["carol"]
    assert (await installed.run("user", "remove", name))[0] == 0
    assert "disabled" in (await listing(installed))[name]
    assert (await sign_in(url, me))[:2] == ("Your account is disabled", 403)
    assert (await installed.run("user", "restore", name))[0] == 0
    assert (await sign_in(url, me))[0] == "All"
    code, _, err = await installed.run("user", "me", "alice", me.rstrip("/"))
    assert code == 1
    assert name in err
    assert (await installed.run("user", "me", name, "https://elsewhere.example/"))[0] == 0
    title, _, _ = await sign_in(url, me)
    assert title == "Welcome", "the address is free again, and leads to an account of its own"


async def test_one_person_at_many_doors_at_once_gets_one_account(tmp_path: Path) -> None:
    """Concurrent sign-ins in two processes and several browsers create one account; another person gets another one."""
    backend = {"users": {}, "settings": {"registration": {"open": "everybody"}}}
    async with provider() as site, installation(tmp_path, backend) as installed:
        me = site.person("ann").me
        urls = [await installed.serve("web"), await installed.serve("web")]
        ended = await asyncio.gather(*(sign_in(url, me) for url in urls * 4))
        assert {title for title, _, _ in ended} <= {"Welcome", START}
        assert len(await listing(installed)) == 1
        site.at_browser = "bob"
        assert (await sign_in(urls[1], site.person("bob").me))[0] == "Welcome"
        assert len(await listing(installed)) == 2


async def test_moved_users_are_known_and_claims_are_not(tmp_path: Path) -> None:
    """If an account's page redirects permanently, the account isn't doubled; a page that claims to be it gets no
    access.
    """
    async with provider() as site, provider() as elsewhere:
        new = elsewhere.person("ann").me
        linked = f'<link rel="me" href="{site.url("/linked/")}">'
        users = {
            "moved": {"me": site.redirect("/moved/", new)},
            "linked": {"me": site.person("linked").me},
        }
        backend = {"users": users, "settings": {"registration": {"open": "everybody"}}}
        async with installation(tmp_path, backend) as installed:
            url = await installed.serve("web")
            title, status, text = await sign_in(url, users["moved"]["me"])
            assert (title, status) == (START, 200), text
            assert "Account of moved" in text
            assert set(await listing(installed)) == {"moved", "linked"}
            claims = elsewhere.page(
                "/claims/",
                f'<link rel="authorization_endpoint" href="{elsewhere.url("/auth")}">{linked}'
                f'<a rel="me" href="{users["linked"]["me"]}">me</a>',
            )
            elsewhere.person("claims")
            elsewhere.at_browser = "claims"
            title, _, text = await sign_in(url, claims)
            assert title == "Welcome", text
            assert claims in text
            assert len(await listing(installed)) == 3, "links make nobody another person"
