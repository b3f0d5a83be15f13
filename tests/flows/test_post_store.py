"""The post store as other programs use it: a real server, real HTTP, a token from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from microsub.library import open_post_store
from tests.support.polling import dated, rss
from tests.support.process import installation, reader
from tests.support.waiting import wait_until
from tests.support.web import publisher


async def test_polled_and_saved_posts_are_read_by_programs_and_readers(tmp_path: Path) -> None:
    """Polled posts and posts that a program saved are found by id, guid and page; the reader has each of them once."""
    async with publisher() as site:
        polled = site.serve_document("/feed", rss(dated(25), title="Polled"))
        own = site.url("/harbour")  # the address doesn't serve a feed
        channel = {"uid": "home", "name": "Home", "feeds": [polled, own]}
        backend = {"users": {"alice": {"me": "https://alice.example/", "channels": [channel]}}}
        async with installation(tmp_path, backend) as installed:
            base = (await installed.serve()).rstrip("/").removesuffix("/microsub")
            code, out, err = await installed.run("token", "service", "create", "planet")
            assert code == 0, err
            head = {"Authorization": f"Bearer {out.strip()}"}
            async with (
                httpx.AsyncClient(base_url=f"{base}/store/", headers=head, timeout=60) as http,
                reader(base, await installed.token("alice")) as alice,
            ):

                async def get(path: str, **params: Any) -> Any:
                    response = await http.get(path, params=params)
                    assert response.status_code == 200, response.text
                    return response.json()

                await alice.has(25)
                (feed,) = (await get("feeds", url=polled))["items"]
                assert feed["name"] == "Polled"
                first = await get(f"feeds/{feed['_id']}/posts", limit=20)
                second = await get(f"feeds/{feed['_id']}/posts", limit=20, after=first["paging"]["after"])
                names = [post["name"] for post in (*first["items"], *second["items"])]
                assert names == [f"Post {n}" for n in range(25, 0, -1)]
                async with open_post_store(data_dir=installed.folder / "data") as posts:
                    saved = await posts.save(own, {"guid": "1", "timestamp": 1_700_000_000, "name": "Storm", "bft": 10})
                shown = await get(f"posts/{saved.post.id}")
                assert (shown["name"], shown["_guid"], shown["_fields"]) == ("Storm", "1", {"name": "Storm", "bft": 10})
                assert (await get(f"feeds/{saved.post.feed}/posts", guid="1"))["items"] == [shown]

                async def has_arrived() -> bool:
                    return "Storm" in [item.get("name") for item in await alice.timeline("home")]

                await wait_until(has_arrived)
                events = (await get("events", limit=100))["items"]
                assert [event["kind"] for event in events].count("post_created") == 26
                assert (await http.get("feeds", headers={"Authorization": f"Bearer {alice.token}"})).status_code == 401
                await installed.run("token", "service", "revoke", "planet")
                assert (await http.get("feeds")).status_code == 401
