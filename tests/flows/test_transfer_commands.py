"""`microsub opml` and `microsub user export` and `import`, as their users run them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.polling import dated, rss
from tests.support.process import installation, reader
from tests.support.web import publisher


async def test_a_user_comes_with_a_list_and_takes_everything_along(tmp_path: Path) -> None:
    """A list is imported, feeds are polled, and everything is moved to another server, where the app shows the same."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    async with (
        publisher() as site,
        installation(tmp_path / "old", {"users": {"ann": {}}}) as old,
        installation(tmp_path / "new", {"users": {}}) as new,
    ):
        url = site.serve_document("/feed", rss(dated(3)))
        given = tmp_path / "feeds.opml"
        given.write_text(
            f"<opml><body><outline text='News'>\n<outline text='Mine' xmlUrl='{url}'/>\n"
            "<outline text='Page' htmlUrl='http://page.example/'/></outline></body></opml>"
        )
        endpoint = await old.serve()
        code, out, err = await old.run("opml", "import", "ann", str(given), "--dry-run")
        assert code == 0, err
        assert "news (News): 1 feed, new channel" in out
        assert "line 3: Page: it names a page but no feed" in out
        code, out, err = await old.run("opml", "import", "ann", str(given), "--json")
        assert code == 0, err
        assert json.loads(out)["added"] == 1
        async with reader(endpoint, await old.token("ann")) as app:
            await app.has(3, "news")
            ids = await app.ids("news")
            await app.post(action="timeline", method="mark_read", channel="news", entry=ids[0])
            await app.post(action="timeline", method="save", channel="news", entry=ids[1])
            shown = [(item["name"], item["_is_read"]) for item in await app.items("news")]
        code, listed, err = await old.run("opml", "export", "ann")
        assert (code, f'xmlUrl="{url}"' in listed, 'microsub:name="Mine"' in listed) == (0, True, True), err
        taken = tmp_path / "ann.jsonl"
        code, out, err = await old.run("user", "export", "ann", str(taken))
        assert (code, taken.stat().st_mode & 0o777) == (0, 0o600), err
        code, out, err = await old.run("user", "export", "ann")
        assert (code, len(out.splitlines())) == (0, len(taken.read_text("utf-8").splitlines())), err
        endpoint = await new.serve()
        for command in (("--dry-run",), (), ()):
            code, out, err = await new.run("user", "import", "ann", str(taken), *command)
            assert code == 0, err
            assert "for ann, 0 skipped" in out
        async with reader(endpoint, await new.token("ann")) as app:
            assert [(item["name"], item["_is_read"]) for item in await app.items("news")] == shown
            assert await app.names("saved") == [shown[1][0]]
        code, out, _ = await new.run("check")
        assert code == 0, out
        taken.write_bytes(taken.read_bytes()[:-40])
        code, _, err = await new.run("user", "import", "ann", str(taken))
        assert (code, "line " in err) == (1, True)
