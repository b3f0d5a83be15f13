"""`microsub import ekster` as its users run it: dry run, import, serve."""

from __future__ import annotations

import json
from pathlib import Path

from microsub.redis.multiplexer import Multiplexed
from tests.support.old_server import OldServer, post
from tests.support.polling import dated, rss
from tests.support.process import installation, reader
from tests.support.web import publisher


async def test_the_whole_move(tmp_path: Path, redis_url: str, second_redis_url: str) -> None:
    """The app shows the former data with its state, and the first poll adds new posts without duplicates."""
    async with publisher() as site, installation(tmp_path, {"users": {}}) as made:
        url = site.serve_document("/feed", rss(dated(12)))
        connection = Multiplexed(redis_url)
        old = OldServer(connection)
        await old.channel("1001", "News", 1, [url])
        await old.channel("1000", "Friends", 2)
        posts = [
            post(guid, n, feed=url, published=f"2024-01-01T{n:02d}:00:00Z", name=name, url=f"http://posts.test/{guid}")
            for n, (guid, name, _) in enumerate(reversed(dated(10)), start=1)
        ]
        await old.add("1001", *posts[:6])
        await old.add("1001", *posts[6:], read=True)
        await old.redis.command("SADD", "channel:1001:read", "item:6c6f7374")
        file = tmp_path / "old.json"
        file.write_bytes(old.body)
        command = ("import", "ekster", "--backend", str(file), "--redis", redis_url, "--user", "ann")

        code, out, err = await made.run(*command, "--dry-run")
        assert code == 0, err
        assert "1001 (News): 1 feed, 6 unread, 4 read" in out
        assert "skipped 1001: 6c6f7374: marked as read, but there is no such item" in out
        assert "10 posts would be imported for ann, 1 skipped" in out
        assert not (tmp_path / "data").exists()
        code, _, err = await made.run(*command, "--dry-run", "--redis-url", second_redis_url)
        assert code == 0, err
        target = Multiplexed(second_redis_url)
        assert await target.command("DBSIZE") == 0
        await target.aclose()
        for _ in range(2):
            code, out, err = await made.run(*command, "--json")
            assert code == 0, err
            assert [one["uid"] for one in json.loads(out)["channels"]] == ["1001", "1000", "notifications"]

        endpoint = await made.serve()
        async with reader(endpoint, await made.token("ann")) as app:
            assert list(await app.channels()) == ["notifications", "1001", "1000", "saved"]
            await app.has(12, "1001")
            assert [(item["name"], item["_is_read"]) for item in await app.timeline("1001")] == [
                (f"Post {n}", n in range(7, 11)) for n in range(12, 0, -1)
            ]
        code, out, _ = await made.run("check")
        assert code == 0, out
        code, _, err = await made.run(*command[:3], str(made.backend), *command[4:])
        assert (code, "the current form" in err) == (1, True)
        own = f"unix://{tmp_path}/data/redis.sock"
        code, _, err = await made.run(*command[:5], own, *command[6:])
        assert (code, "both servers use one database" in err) == (1, True)
        await connection.command("FLUSHDB")
        await connection.aclose()
