"""The command line: output, exit code and error messages of each command."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis as redis_py

from microsub import server
from microsub.base.settings import Settings
from microsub.cli.feeds import _shortened
from microsub.library import open_post_store
from microsub.redis import keys
from microsub.work import DeadLetters, Message
from tests.cli.conftest import BACKEND, Run
from tests.support.polling import dated, rss
from tests.support.process import installation
from tests.support.web import Answer, publisher

pytestmark = pytest.mark.usefixtures("data")


def test_only_the_token_is_printed_and_it_can_be_revoked(run: Run) -> None:
    """`token create` prints only the token; the list shows its id, never the token; revoking ends it."""
    created = run("token", "create", "alice", "--scope", "read follow", "--client", "phone")
    token = created.stdout.strip()
    assert token.startswith("alice.")
    assert "\n" not in token
    listed = json.loads(run("token", "list", "alice", "--json").stdout)
    assert [(row["client"], row["scope"], row["expires"]) for row in listed] == [("phone", "follow read", None)]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(listed[0]["created"])) < timedelta(minutes=5)
    assert token not in run("token", "list", "alice").stdout
    vague = run("token", "revoke", "alice", "")
    assert (vague.exit_code, "give a longer prefix" in vague.stderr) == (1, True)
    assert run("token", "revoke", "alice", listed[0]["id"]).exit_code == 0
    assert json.loads(run("token", "list", "alice", "--json").stdout) == []
    again = run("token", "revoke", "alice", listed[0]["id"])
    assert (again.exit_code, "has no token" in again.stderr) == (1, True)


def test_only_the_app_password_is_printed_and_it_can_be_revoked(run: Run) -> None:
    """In groups that people can type; the list shows the app, and never the password."""
    password = run("token", "create", "alice", "--app", "NetNewsWire on my phone").stdout
    assert re.fullmatch(r"([a-z2-9]{5}-){3}[a-z2-9]{5}\n", password)
    (listed,) = json.loads(run("token", "list", "alice", "--json").stdout)
    assert (listed["client"], listed["scope"], listed["expires"]) == ("NetNewsWire on my phone", "greader", None)
    assert password[:5] not in run("token", "list", "alice").stdout
    assert run("token", "revoke", "alice", listed["id"]).exit_code == 0
    assert json.loads(run("token", "list", "alice", "--json").stdout) == []


def test_an_expiry_is_a_valid_time(run: Run) -> None:
    """Invalid days are wrong usage, for users' tokens and for programs' tokens; no token is left."""
    for days in ("nan", "inf", "-inf", "1e300", "36501", "0", "-1"):
        for command in (("token", "create", "alice"), ("token", "service", "create", "planet")):
            refused = run(*command, "--days", days)
            assert (refused.exit_code, refused.stdout, "--days" in refused.stderr) == (2, "", True), days
    run("token", "create", "alice", "--days", "36500")
    assert len(run("token", "list", "alice").stdout.splitlines()) == 1
    assert run("check").exit_code == 0


def test_an_invalid_number_is_refused(run: Run) -> None:
    """A flag for a decimal number takes neither of these two."""
    for value in ("nan", "inf"):
        refused = run("fetch", "--ttl", value, "http://127.0.0.1:1/")
        assert (refused.exit_code, "--ttl" in refused.stderr) == (2, True)


def test_a_token_for_an_unknown_user_lists_the_users(run: Run) -> None:
    """The error for an unknown user name lists the existing ones."""
    result = run("token", "create", "alise")
    assert result.exit_code == 1
    assert "no user 'alise'" in result.stderr
    assert "alice" in result.stderr


def test_an_unknown_scope_is_refused(run: Run) -> None:
    """A misspelt scope would have no effect. The message names the known ones."""
    for scope, found in (("", "no scope"), ('re"ad', "'re\"ad'"), ("read folow", "'folow'")):
        result = run("token", "create", "alice", "--scope", scope)
        assert (result.exit_code, result.stdout, found in result.stderr) == (2, "", True), scope
        assert "expected one or more of read follow mute block channels" in result.stderr


def test_users_are_added_listed_and_written_into_the_file(run: Run) -> None:
    """`user add` creates a user once, and the next write-back adds the user to the file."""
    run("token", "create", "alice")
    assert run("user", "add", "bob", "--me", "https://bob.example/").exit_code == 0
    assert {row["name"] for row in json.loads(run("user", "list", "--json").stdout)} == {"alice", "bob"}
    assert (
        "alice  https://alice.example/  1 channel\nbob  https://bob.example/  0 channels\n"
        in run("user", "list").stdout
    )
    assert "bob" in json.loads(Path("backend.json").read_text())["users"]
    again = run("user", "add", "bob")
    assert (again.exit_code, "already" in again.stderr) == (1, True)
    strange = run("user", "add", "b o b")
    assert (strange.exit_code, "b o b" in strange.stderr) == (1, True)


def test_without_write_back_commands_leave_the_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the admin edits the file, even if commands add, change or restore users."""
    run("user", "list")
    monkeypatch.setenv("MICROSUB_WRITE_BACK", "off")
    before = Path("backend.json").read_text()
    for command in (("add", "bob"), ("admin", "alice", "on"), ("remove", "bob"), ("restore", "bob")):
        assert run("user", *command).exit_code == 0
    assert Path("backend.json").read_text() == before


def test_an_admin_is_made_and_unmade(run: Run) -> None:
    """Both in the store and in the file, which has the setting from then on."""
    assert run("user", "admin", "alice", "on").stdout == "alice is now an admin\n"
    assert declared()["alice"] == {**BACKEND["users"]["alice"], "admin": True}
    assert "1 channel  (admin)\n" in run("user", "list").stdout
    assert run("user", "admin", "alice", "off").stdout == "alice is no longer an admin\n"
    assert [row["admin"] for row in json.loads(run("user", "list", "--json").stdout)] == [False]
    assert run("user", "admin", "nobody", "on").exit_code == 1


def test_a_disabled_user_gets_no_token(run: Run) -> None:
    """The message says that the user is disabled, as it does when somebody adds the name again."""
    assert not run("token", "create", "alice").stderr
    Path("backend.json").write_text('{"users": {"bob": {}}}')
    assert run("token", "create", "bob").exit_code == 0
    refused = run("token", "create", "alice")
    assert (refused.exit_code, refused.stdout, "disabled" in refused.stderr) == (1, "", True)
    again = run("user", "add", "alice")
    assert (again.exit_code, "alice', who is disabled" in again.stderr) == (1, True)


def test_the_first_user_creates_the_file(run: Run) -> None:
    """Next to the data folder; a file elsewhere may not be the server's."""
    Path("backend.json").unlink()
    assert run("user", "add", "bob", "--backend", "elsewhere/backend.json").exit_code == 0
    assert not Path("elsewhere").exists()
    assert run("user", "add", "eve").exit_code == 0
    assert json.loads(Path("backend.json").read_text())["users"] == {"bob": {}, "eve": {}}


def test_from_another_folder_a_command_says_where_it_looked(run: Run) -> None:
    """There are no users in it, and the message names the folder."""
    Path("backend.json").unlink()
    result = run("user", "invite", "alice")
    assert result.exit_code == 1
    assert "no user 'alice'" in result.stderr
    assert "where this command looked" in result.stderr


def test_config_check_names_place_finding_and_expectation(run: Run) -> None:
    """A valid file is counted; an invalid one is refused with the path inside it."""
    good = run("config", "check")
    assert (good.exit_code, "valid; 1 user, 1 channel, 1 feed\n" in good.stdout) == (0, True)
    Path("bad.json").write_text('{"users": {"alice": {"channels": [{"uid": "a b"}]}}}')
    bad = run("config", "check", "bad.json")
    assert bad.exit_code == 1
    assert "users.alice.channels[0].uid" in bad.stderr
    report = json.loads(run("config", "check", "bad.json", "--json").stdout)
    assert report["ok"] is False
    [problem] = report["problems"]
    assert (problem["path"], problem["line"]) == ("users.alice.channels[0].uid", 1)


def test_config_upgrade_brings_the_old_form_up_to_date(run: Run) -> None:
    """The old single-user file is printed in the current form; in place, the old file is kept next to it."""
    old = {"Me": "https://alice.example/", "Channels": {"home": {"uid": "home", "name": "Home"}},
           "Feeds": {"home": [{"url": "https://blog.example/feed"}]}, "NextUID": 2}  # fmt: skip
    Path("old.json").write_text(json.dumps(old))
    assert "config upgrade" in run("config", "check", "old.json").stdout
    printed = json.loads(run("config", "upgrade", "old.json").stdout)
    (user,) = printed["users"].values()
    assert user["me"] == "https://alice.example/"
    Path("old.json").chmod(0o600)
    assert run("config", "upgrade", "old.json", "--in-place").exit_code == 0
    again = run("config", "upgrade", "old.json", "--in-place")
    assert (again.exit_code, "nothing was changed" in again.stdout) == (0, True)
    assert json.loads(Path("old.json").read_text()) == printed
    assert json.loads(Path("old.json.old").read_text()) == old
    assert [Path(name).stat().st_mode & 0o777 for name in ("old.json", "old.json.old")] == [0o600, 0o600]


def test_config_upgrade_keeps_an_older_original(run: Run) -> None:
    """If a file with the name for the old one exists, nothing is changed."""
    for name, text in (("old.json", '{"Channels": {}, "Feeds": {}}'), ("old.json.old", "mine")):
        Path(name).write_text(text)
    refused = run("config", "upgrade", "old.json", "--in-place")
    assert (refused.exit_code, "move it away first" in refused.stderr) == (1, True)
    assert Path("old.json").read_text() == '{"Channels": {}, "Feeds": {}}'
    assert Path("old.json.old").read_text() == "mine"


def test_config_upgrade_that_breaks_off_leaves_the_old_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file replaces the complete old one in one step, and the next attempt succeeds."""

    def full(_from: Path, _to: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("old.json").write_text('{"Channels": {}, "Feeds": {}}')
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        refused = run("config", "upgrade", "old.json", "--in-place")
    assert (refused.exit_code, "No space left" in refused.stderr) == (2, True)
    assert Path("old.json").read_text() == '{"Channels": {}, "Feeds": {}}'
    assert not [path for path in Path().iterdir() if path.suffix == ".new"]
    assert run("config", "upgrade", "old.json", "--in-place").exit_code == 0
    assert json.loads(Path("old.json").read_text()) != {"Channels": {}, "Feeds": {}}
    assert Path("old.json.old").read_text() == '{"Channels": {}, "Feeds": {}}'


def test_config_upgrade_lists_dropped_keys(run: Run) -> None:
    """Keys that have no equivalent, and the warnings of `config check`; standard output has only JSON."""
    old = {"Channels": {}, "Feeds": {"home": []}, "AuthEnabled": False, "Token": "t", "Settings": {"0009": {}}}
    Path("old.json").write_text(json.dumps(old))
    upgraded = run("config", "upgrade", "old.json")
    assert list(json.loads(upgraded.stdout)) == ["users"]
    assert upgraded.stderr == run("config", "check", "old.json").stderr
    for key in ("AuthEnabled", "Token", "Settings.0009"):
        assert f"{key} (line 1)" in upgraded.stderr


@pytest.mark.parametrize(
    ("title", "printed"), [("word " * 30, "word " * 17 + "word…"), ("x" * 120, "x" * 89 + "…"), ("y" * 90, "y" * 90)]
)
def test_long_titles_are_cut_between_words(title: str, printed: str) -> None:
    """An ellipsis marks the cut."""
    assert _shortened(title.strip()) == printed


def test_parse_prints_jf2_of_a_file(run: Run) -> None:
    """`parse FILE` prints the parsed feed; a missing or unreadable document is an error with its name."""
    Path("feed.xml").write_bytes(rss(dated(2), title="Harbour"))
    printed = json.loads(run("parse", "feed.xml", "--url", "https://blog.example/feed").stdout)
    assert (printed["type"], printed["name"], len(printed["children"])) == ("feed", "Harbour", 2)
    missing = run("parse", "nowhere.xml")
    assert (missing.exit_code, "nowhere.xml" in missing.stderr) == (1, True)
    Path("noise").write_bytes(b"\x00\x01\x02")
    noise = run("parse", "noise")
    assert (noise.exit_code, "noise" in noise.stderr) == (1, True)


def test_parse_names_the_feed_that_a_follow_would_get(run: Run) -> None:
    """The feeds that a page names, whether it has posts of its own or not; for a page that stays followed, none."""
    head = "<title>Blog</title><link rel=alternate type=application/rss+xml href=/feed.xml>"
    bodies = {"": 1, "<div class=hentry><h2 class=entry-title>About</h2></div>": 0}
    for body, code in bodies.items():
        Path("page.html").write_text(f"<!doctype html>{head}{body}")
        result = run("parse", "page.html", "--url", "https://blog.example/")
        assert (result.exit_code, "https://blog.example/feed.xml" in result.stderr) == (code, True)
    Path("page.html").write_text(
        f"{head}<div class=h-feed><div class=h-entry><p class=e-content>A note</p></div></div>"
    )
    assert "feed.xml" not in run("parse", "page.html", "--url", "https://blog.example/").stderr


async def test_a_page_is_read_by_the_feed_that_it_names(tmp_path: Path) -> None:
    """By both `parse` and `fetch`, like a follow; both name the feed, and `--as-is` reads the page."""
    async with publisher() as site, installation(tmp_path, BACKEND, XDG_DATA_HOME=str(tmp_path)) as installed:
        head = "<title>Anna</title>" + "".join(
            f"<link rel=alternate type=application/rss+xml href=/{name}>" for name in ("gone", "feed")
        )
        page = site.serve_document("/anna/", f"<!doctype html>{head}<p>Hello".encode(), "text/html")
        site.serve("/gone", Answer(status=410))
        feed = site.serve_document("/feed", rss(dated(2), title="Harbour"))
        code, out, err = await installed.run("parse", page)
        assert (code, json.loads(out)["name"]) == (0, "Harbour")
        assert "gone" in err.splitlines()[0]
        assert err.splitlines()[1].endswith(feed)
        code, out, err = await installed.run("parse", "--as-is", page)
        assert (code, out) == (1, "")
        asked = len(site.asked)
        for times in (1, 2):
            code, out, err = await installed.run("fetch", page)
            assert (code, "Harbour" in out, f"{feed}, the feed that the page names" in out) == (0, True, True), err
            # The second time, copies replace the page and its feed; the gone feed isn't requested again either.
            assert len(site.asked) == asked + 3, times
        code, out, _ = await installed.run("fetch", "--json", page)
        found = json.loads(out)
        assert (found["url"], found["final_url"], found["page"]) == (page, feed, page)


async def test_parse_completes_entries(tmp_path: Path) -> None:
    """With `--complete` the author's page and the liked page are requested once each, and refused if they must be."""
    async with publisher() as site, installation(tmp_path, BACKEND) as installed:
        html = "text/html"
        author = (
            b'<p class="h-card"><a class="u-url p-name" rel="me" href="/ann">Ann</a><img class="u-photo" src="/a.png">'
        )
        site.serve_document("/ann", author, html)
        site.serve_document("/pears", b'<article class="h-entry"><h1 class="p-name">Pears</h1></article>', html)
        like = '<div class="h-entry"><a class="u-author" href="/ann"></a><a class="u-like-of" href="/pears">!</a></div>'
        page = site.serve_document("/likes", f'<div class="h-feed">{like}{like}</div>'.encode(), html)
        code, out, _ = await installed.run("parse", "--complete", page)
        assert code == 0
        for child in json.loads(out)["children"]:
            assert child["author"] == {
                "type": "card",
                "name": "Ann",
                "url": site.url("/ann"),
                "photo": site.url("/a.png"),
            }
            assert child["refs"][site.url("/pears")]["name"] == "Pears"
        assert sorted(asked.path for asked in site.asked) == ["/ann", "/likes", "/pears"]
        code, out, _ = await installed.run("parse", page)
        assert (code, "refs" in out) == (0, False)


def test_fetch_refuses_private_addresses(run: Run) -> None:
    """Without permission, no address on loopback is requested; the exit code is useful for scripts."""
    result = run("fetch", "http://127.0.0.1:8009/feed")
    assert result.exit_code == 1
    assert "isn't a public address; MICROSUB_ALLOW_PRIVATE_NETWORKS can allow it\n" in result.stderr
    assert "FetchSettings" not in result.stderr  # of use to programs only
    assert "MICROSUB" not in run("fetch", "http://127.0.0.1:22/").stderr  # no setting allows that port
    line = json.loads(run("fetch", "--json", "http://127.0.0.1:8009/feed").stdout)
    assert line["error"].startswith("blocked")


async def test_fetch_keeps_copies(tmp_path: Path) -> None:
    """Titles and their origins; copies in the folder serve the next call, offline and next to an error."""
    async with publisher() as site, installation(tmp_path, BACKEND) as installed:
        good = [site.serve_document(f"/{n}", rss(dated(3), title=f"Harbour {n}")) for n in range(5)]
        bad = site.serve("/bad", Answer(status=500))
        cache = ("--cache", str(tmp_path / "copies"))
        code, out, err = await installed.run("fetch", *cache, *good, bad, good[0])
        assert (code, "http: the server answered 500" in err) == (1, True)
        for n in range(5):
            assert f"Harbour {n}  (rss, 3 entries, new)" in out
        assert out.count("2024-01-01  Post 3") == 5
        code, out, _ = await installed.run("fetch", *cache, "--offline", *good)
        assert (code, out.count("entries, copy, ")) == (0, 5)
        code, out, _ = await installed.run("fetch", *cache, *good)
        assert (code, out.count("entries, copy, "), len(site.asked)) == (0, 5, 6)
        code, out, _ = await installed.run("fetch", *cache, "--force", "--titles", "1", *good)
        assert (code, out.count("entries, not modified)"), out.count("Post")) == (0, 5, 5)
        site.serve("/0", Answer(status=503))
        code, out, err = await installed.run("fetch", *cache, "--ttl", "0", "--json", good[0])
        found = json.loads(out)
        assert (code, found["source"], found["error"]) == (1, "cache", "http: the server answered 503")
        assert (found["feed"]["name"], found["url"], found["age"] > 0) == ("Harbour 0", good[0], True)


async def test_fetch_shows_titles_as_a_terminal_may_show_them(tmp_path: Path) -> None:
    """Control characters and bidirectional marks are left out, whatever a publisher puts into titles."""
    title = "\x1b]0;renamed\x07 Har\u202ebour\x9b31m \U0001f468\u200d\U0001f33e"
    feed = {"version": "https://jsonfeed.org/version/1", "title": title, "items": [{"id": "1", "title": title}]}
    async with publisher() as site, installation(tmp_path, BACKEND) as installed:
        url = site.serve_document("/feed", json.dumps(feed).encode(), "application/feed+json")
        _, out, _ = await installed.run("fetch", "--cache", str(tmp_path / "copies"), url)
        assert out.count("]0;renamed Harbour31m \U0001f468\u200d\U0001f33e") == 2


def test_offline_without_a_copy_is_an_error(run: Run, tmp_path: Path) -> None:
    """No request is sent; by default the copies are in the user's own folder for data."""
    result = run("fetch", "--offline", "https://blog.example/feed")
    assert (result.exit_code, "there is no stored copy" in result.stderr) == (1, True)
    run("fetch", "http://127.0.0.1:8009/feed")
    assert list((tmp_path / "home" / "microsub" / "feeds").glob("*.copy"))


def test_poll_of_an_unfollowed_feed_is_an_error(run: Run) -> None:
    """A feed that isn't followed can't be polled."""
    run("user", "add", "bob")
    result = run("poll", "https://stranger.example/feed")
    assert (result.exit_code, "https://stranger.example/feed" in result.stderr) == (1, True)


def test_cleanup_says_what_it_did(run: Run) -> None:
    """Both a dry run and a real one report numbers."""
    run("user", "add", "bob")
    assert "0 items would leave" in run("cleanup", "--dry-run").stdout
    assert json.loads(run("cleanup", "--json").stdout)["dry_run"] is False


def test_a_rebuild_names_channels_with_feeds(run: Run) -> None:
    """Channels without follows are skipped, and one line reports this if they are named."""
    run("user", "add", "bob")
    assert run("rebuild", "alice").stdout == "alice/home, which was empty: 0 posts of 1 feed on the way\n"
    asked = run("rebuild", "alice", "notifications")
    assert (asked.exit_code, asked.stdout) == (
        0,
        "alice/notifications follows no feeds, so there is nothing to refill\n",
    )
    assert run("rebuild", "bob").stdout == "bob follows no feeds, so there is nothing to refill\n"


@pytest.mark.parametrize(
    ("command", "order"),
    [
        ("opml import list.xml alice", "USER FILE"),
        ("user import list.xml alice", "USER FILE"),
        ("import starred alice list.xml", "FILE USER"),
        ("import miniflux alice list.xml", "FILE USER"),
        ("import freshrss alice list.xml", "FILE USER"),
    ],
)
def test_user_and_file_in_the_other_order(command: str, order: str, run: Run) -> None:
    """The error names the correct order."""
    Path("list.xml").write_text("<opml/>")
    result = run(*command.split())
    assert result.exit_code == 2
    assert f"the order is {order}: " in result.stderr


def test_a_flag_that_cannot_be_used_is_named(run: Run) -> None:
    """The exit code is 2, with the flag, the value found and the one expected."""
    for line in ("serve --port eighty", "work --allow-private-networks 10.0.0.1/8", "user list --redis-url ftp://x"):
        *command, flag, value = line.split()
        result = run(*command, flag, value)
        assert (result.exit_code, flag in result.stderr, "expected" in result.stderr) == (2, True, True), line


def test_a_missing_redis_is_one_clear_line(run: Run) -> None:
    """No traceback when Redis can't be reached."""
    result = run("user", "list", "--redis-url", "redis://127.0.0.1:9/0")
    assert result.exit_code == 1
    assert result.stderr.startswith("microsub: ")
    assert "Traceback" not in result.stderr


def test_config_check_compares_existing_users(run: Run, tmp_path: Path) -> None:
    """If data exists: an account with another name and the same site is an error that names both; exit code 1."""
    run("user", "add", "first", "--me", "https://first.example/", "--backend", "elsewhere/none.json")
    Path("new.json").write_text(json.dumps({"users": {"second": {"me": "http://First.example"}}}))
    for flags in ((), ("--json",)):
        result = run("config", "check", "new.json", *flags)
        shown = result.stdout + result.stderr
        assert (result.exit_code, "second" in shown, "'first'" in shown) == (1, True, True)
    assert run("config", "check", "new.json", "--data-dir", "elsewhere").exit_code == 0
    assert not Path("elsewhere").exists()
    assert run("config", "check", "new.json", "--data-dir", "x" * 300).exit_code == 0, (
        "a folder that can't be looked at"
    )
    away = run("config", "check", "new.json", "--redis-url", f"unix://{tmp_path}/none.sock")
    assert (away.exit_code, "not compared with the existing users" in away.stderr) == (0, True)


def test_an_unusable_profile_url_is_refused(run: Run) -> None:
    """By both commands with that argument, which the error names; neither shows a password in it."""
    wrong = ("https://b.example/#me", "b.example", "https://b..example", "ftp://b.example/", "https://")
    for me in ("https://a:hunter2@b.example/", *wrong):
        for command, named in ((("user", "add", "bob", "--me", me), "--me"), (("user", "me", "alice", me), "URL")):
            refused = run(*command)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert f"{named}: found" in refused.stderr
            assert "http or https URL" in refused.stderr
            assert "hunter2" not in refused.stderr
    run("user", "add", "carol")
    assert run("user", "list").stdout == "alice  https://alice.example/  1 channel\ncarol  -  0 channels\n"


async def test_a_password_that_an_earlier_version_took_isnt_shown(run: Run, tmp_path: Path) -> None:
    """Stored values are masked in both forms of the list."""
    async with server.stores.open_stores(Settings(data_dir=tmp_path / "data"), create=True) as stores:
        await stores.accounts.add_user("bob", "https://a:hunter2@b.example/", 1.0)
    for flags in ((), ("--json",)):
        shown = await asyncio.to_thread(run, "user", "list", *flags)
        assert "https://***@b.example/" in shown.stdout


def declared() -> dict[str, object]:
    found: dict[str, object] = json.loads(Path("backend.json").read_text())["users"]
    return found


def test_users_added_by_command_are_removed_by_command(run: Run) -> None:
    """Also if write-back has added them to the file: the command removes them and says so; a restore adds them."""
    Path("backend.json").write_text(json.dumps(BACKEND | {"x-note": "last"}))
    run("user", "add", "carl", "--me", "https://carl.example/")
    assert list(declared()) == ["alice", "carl"]
    removed = run("user", "remove", "carl")
    assert (removed.exit_code, "backend.json too" in removed.stdout) == (0, True)
    assert list(declared()) == ["alice"]
    assert list(Path("backend.json.versions").iterdir())
    assert list(json.loads(Path("backend.json").read_text())) == ["x-version", *BACKEND, "x-note"]
    assert "carl  https://carl.example/  0 channels  (disabled)" in run("user", "list").stdout
    assert "users: alice, carl (disabled)" in run("user", "remove", "nobody").stderr
    assert run("user", "restore", "carl").exit_code == 0
    assert declared()["carl"] == {"me": "https://carl.example/"}
    assert run("user", "remove", "alice").exit_code == 0
    assert run("user", "restore", "alice").exit_code == 0
    assert declared()["alice"] == BACKEND["users"]["alice"]


def test_restored_users_have_no_old_tokens(run: Run) -> None:
    """Their old tokens may be the reason for the removal, so they are revoked."""
    run("token", "create", "alice")
    assert run("user", "remove", "alice").exit_code == 0
    assert "token create alice" in run("user", "restore", "alice").stdout
    assert json.loads(run("token", "list", "alice", "--json").stdout) == []


def test_a_refused_removal_explains_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without write-back, or with keys that couldn't be restored: the message says what to do; nothing changes."""
    kept = {**BACKEND["users"]["alice"], "token_endpoint": "https://tokens.example/"}
    Path("backend.json").write_text(json.dumps({"users": {"alice": kept}}))
    run("token", "create", "alice")
    for why in ("token_endpoint", "MICROSUB_WRITE_BACK"):
        refused = run("user", "remove", "alice")
        assert (refused.exit_code, refused.stdout, why in refused.stderr) == (1, "", True)
        assert "remove the entry of 'alice' from" in refused.stderr
        assert "disabled" not in run("user", "list").stdout
        assert declared() == {"alice": kept}
        monkeypatch.setenv("MICROSUB_WRITE_BACK", "off")
    monkeypatch.delenv("MICROSUB_WRITE_BACK")
    for written, name, why in (
        (json.dumps({"Me": "https://alice.example/"}), "alice-example", "a backend.json of the old form"),
        ("{", "alice", "correct it first"),
    ):
        Path("backend.json").write_text(written)
        refused = run("user", "remove", name)
        assert (refused.exit_code, refused.stdout, why in refused.stderr) == (1, "", True), refused.stderr


def test_refusals_for_disabled_users_name_user_restore(run: Run) -> None:
    """Every command that is refused for them names it, whatever they follow."""
    run("user", "add", "carl")
    run("user", "remove", "carl")
    for command in (
        ("token", "create", "carl"), ("user", "add", "carl"), ("user", "invite", "carl"), ("rebuild", "carl"),
        ("output", "renew", "carl", "picks"),
    ):  # fmt: skip
        refused = run(*command)
        assert (refused.exit_code, refused.stdout) == (1, ""), command
        assert "disabled" in refused.stderr
        assert "microsub user restore carl" in refused.stderr


def test_a_client_is_one_line(run: Run) -> None:
    """Characters that break the list, or control the terminal, are invalid in an app's name; the error is one line."""
    for client in ("x\ny", "\x1b]0;renamed\x07", "\u202ex", "x\u2028y", "x" * 201):
        refused = run("token", "create", "alice", "--client", client)
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert client not in refused.stderr
    assert run("token", "list", "alice").stdout == ""


async def test_lists_keep_their_lines(run: Run, tmp_path: Path) -> None:
    """Names from an earlier version may have any characters: one line each, without control characters."""
    odd = "x\ny\x1b[31m"
    async with server.stores.open_stores(Settings(data_dir=tmp_path / "data"), create=True) as stores:
        await stores.accounts.add_user("bob", f"https://bob.example/{odd}", 1.0)
        token = stores.accounts.credential(await stores.accounts.create_token("bob", ["read"], "", time.time()))
        assert token
        await stores.redis.command("HSET", keys.token("bob", token.digest), "client", odd)
        await stores.redis.command("SADD", keys.users(), f"no\nname{odd}")
        await DeadLetters(stores.redis).add("store", Message("1-0", {"odd": b"y"}), odd, time.time())
    commands = (("token", "list", "bob"), ("user", "list"), ("check",), ("deadletter", "list"), ("user", "add", odd))
    for command in commands:
        result = await asyncio.to_thread(run, *command)
        shown = result.stdout + result.stderr
        assert "x\\ny\\x1b[31m" in shown, command
        assert "\x1b" not in shown


def test_a_misspelt_variable_is_warned_about(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """MICROSUB_PROT causes a warning instead of being ignored."""
    monkeypatch.setenv("MICROSUB_DATADIR", "x")
    assert "MICROSUB_DATA_DIR" in run("config", "check").stderr


def test_a_programs_token_is_made_listed_and_revoked(run: Run) -> None:
    """Printed alone and once, one for each name; the list shows names and dates, `token list` doesn't have it."""
    created = run("token", "service", "create", "planet", "--days", "30")
    token = created.stdout.strip()
    assert (created.exit_code, token.startswith("~planet."), "\n" in token) == (0, True, False)
    (listed,) = json.loads(run("token", "service", "list", "--json").stdout)
    assert listed["name"] == "planet"
    made, ends = (datetime.fromisoformat(listed[name]) for name in ("created", "expires"))
    assert timedelta(days=29.9) < ends - made < timedelta(days=30.1)
    assert run("token", "service", "create", "bridge").exit_code == 0
    shown = run("token", "service", "list").stdout
    assert [line.split()[0] for line in shown.splitlines()] == ["bridge", "planet"]
    assert "never expires" in shown
    assert token.partition(".")[2] not in shown
    assert json.loads(run("token", "list", "alice", "--json").stdout) == []
    again = run("token", "service", "create", "planet")
    assert (again.exit_code, again.stdout, "already" in again.stderr) == (1, "", True)
    strange = run("token", "service", "create", "pla net")
    assert (strange.exit_code, "pla net" in strange.stderr) == (1, True)
    assert run("token", "service", "revoke", "planet").stdout == "revoked\n"
    gone = run("token", "service", "revoke", "planet")
    assert (gone.exit_code, "no token for 'planet'" in gone.stderr) == (1, True)
    run("token", "service", "revoke", "bridge")
    assert run("token", "service", "list").stdout == "no program has a token\n"


def test_an_invalid_dead_letter_id_is_named(run: Run) -> None:
    """The error shows the text and the expected form."""
    for what in ("show", "retry", "drop"):
        for letter_id in ("abc", "17-x", "5", "+", "(0-0", "99999999999999999999-0"):
            result = run("deadletter", what, letter_id)
            assert (result.exit_code, result.stdout) == (2, "")
            assert f"found '{letter_id}', expected the id of a dead letter" in result.stderr


def test_a_source_is_made_listed_and_revoked(run: Run) -> None:
    """Its token is printed alone, and a new one replaces it; the file declares the source meanwhile."""
    made = run("source", "create", "alice", "home", "--name", "Backups")
    assert (made.exit_code, made.stdout.count("\n")) == (0, 1)
    (listed,) = json.loads(run("source", "list", "alice", "--json").stdout)
    assert (listed["name"], listed["channel"], listed["app"]) == ("Backups", "home", None)
    assert run("source", "list", "alice").stdout == f"{listed['id']}  home  Backups\n"
    assert listed["id"] in declared()["alice"]["sources"]
    again = run("source", "token", "alice", listed["id"])
    assert (again.exit_code, again.stdout == made.stdout) == (0, False)
    assert run("source", "revoke", "alice", listed["id"]).stdout == f"source '{listed['id']}' revoked\n"
    assert run("source", "list", "alice").stdout == "no sources\n"
    assert declared()["alice"]["sources"] == {}
    assert run("source", "token", "alice", listed["id"]).exit_code == 1


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            "push status",
            0,
            "MICROSUB_BASE_URL isn't set here; a server without it doesn't subscribe to hubs\n"
            "no followed feed names a hub\n",
        ),
        ("push status https://other.example/feed", 1, "nobody follows https://other.example/feed"),
        ("push topic alice home", 1, "MICROSUB_BASE_URL isn't set here; set it to the server's public URL"),
        ("webmention list alice", 0, "no webmentions\n"),
        ("deadletter list", 0, "no dead letters\n"),
    ],
)
def test_empty_results_have_a_message(run: Run, command: str, code: int, said: str) -> None:
    """The message gives the reason."""
    result = run(*command.split())
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_the_index_is_built_and_described(run: Run) -> None:
    """It works without a server too; if search is off, the command reports this."""
    assert "no readable index" in run("search", "status").stdout
    built = run("search", "rebuild")
    assert (built.exit_code, "built: 0 posts" in built.stdout) == (0, True), built.stderr
    assert "no process updates it" in run("search", "status").stdout
    described = json.loads(run("search", "status", "--json").stdout)
    assert (described["usable"], described["followed"], described["posts"]) == (True, False, 0)
    off = run("search", "status", "--search", "off")
    assert (off.exit_code, "MICROSUB_SEARCH is off" in off.stderr) == (1, True)


def test_followed_feeds_are_listed(run: Run) -> None:
    """A feed that was never polled counts neither as good nor as failing."""
    run("token", "create", "alice")
    (line,) = run("feed", "list").stdout.splitlines()
    assert line.split()[1:4] == ["1", "follower", "https://blog.example/feed"]
    (listed,) = json.loads(run("feed", "list", "--json").stdout)
    assert (listed["url"], listed["followers"], listed["error"]) == ("https://blog.example/feed", 1, None)
    assert run("feed", "list", "--failing").stderr == "no failing feeds\n"


def test_a_feed_is_set(run: Run) -> None:
    """By its names in backend.json; what the file can't have is refused."""
    run("token", "create", "alice")
    given = ("feed", "set", "alice", "https://blog.example/feed")
    assert run(*given).stdout.endswith("  {}\n")
    assert run(*given, "name=Blog", "notify=false").stdout.endswith('  {"name":"Blog","notify":false}\n')
    assert run(*given, "name=").stdout.endswith('  {"notify":false}\n')
    for odd, why in (("view", "expected SETTING=VALUE"), ("sort=up", "isn't a setting"), ("view=up", "invalid 'view'")):
        refused = run(*given, odd)
        assert (refused.exit_code != 0, why in refused.stderr) == (True, True), refused.stderr
    unknown = run("feed", "set", "alice", "https://other.example/", "view=list")
    assert (unknown.exit_code, "doesn't follow https://other.example/" in unknown.stderr) == (1, True)


def test_a_feed_is_signed_in_to(run: Run, data: Path) -> None:
    """With a password from standard input, which nothing prints, or headers; and without again."""
    run("token", "create", "alice")
    given = ("feed", "sign-in", "alice", "https://blog.example/feed")
    signed = run(*given, "--name", "alice", given="a secret\n")
    assert (signed.exit_code, "a secret" in signed.output) == (0, False), signed.stderr
    (line,) = [one for one in run("feed", "list").stdout.splitlines() if "1 follower" in one]
    assert line.split()[3] == "https://***@blog.example/feed"
    assert (data / "sealing-key").stat().st_mode & 0o777 == 0o600
    written = Path("backend.json").read_text()
    assert ("https://~alice." in written, "a secret" in written) == (True, False)
    Path("backend.json").write_text(written.replace("Home", "House"))
    run("token", "create", "alice")  # applies the file
    assert "https://***@blog.example/feed" in run("feed", "list").stdout
    assert len(run("feed", "list").stdout.splitlines()) == 1
    hidden = ("feed", "sign-in", "alice", "https://***@blog.example/feed")
    assert "can’t be set" in run(*hidden, "--headers", given="Host: evil.example\n").stderr
    assert run(*hidden, "--headers", given="Cookie: a=b\n").exit_code == 0
    assert run(*hidden, "--remove").exit_code == 0
    assert "https://blog.example/feed" in run("feed", "list").stdout
    assert run(*given).exit_code == 2


def test_a_packed_post_is_printed(run: Run, data: Path) -> None:
    """As the JSON that apps receive; what is missing or corrupt is said. There is nothing to pack in new data."""

    async def save() -> str:
        async with open_post_store() as posts:
            fields = {"guid": "1", "timestamp": 1, "name": "Storm", "content": {"text": "Rain and wind. " * 20}}
            return (await posts.save("https://blog.example/feed", fields)).post.id

    item_id = asyncio.run(save())
    shown = json.loads(run("post", item_id).stdout)
    assert (shown["_id"], shown["name"]) == (item_id, "Storm")
    missing = run("post", "999")
    assert (missing.exit_code, missing.stdout, "there is no post 999" in missing.stderr) == (1, "", True)
    with redis_py.Redis(unix_socket_path=str(data / "redis.sock")) as redis:
        packed = redis.hget(keys.item(item_id), "Data")
        assert not packed.startswith(b"{")
        redis.hset(keys.item(item_id), "Data", packed[:-5])
    corrupt = run("post", item_id)
    assert (corrupt.exit_code, corrupt.stdout, f"the post {item_id} is corrupt" in corrupt.stderr) == (1, "", True)
    assert run("pack").stdout.startswith("0 posts, 0 digests and fields of 0 posts were packed")
    assert run("pack", "--dry-run").stdout.startswith("0 posts, 0 digests and fields of 0 posts would be packed")


def test_feeds_that_programs_write_are_listed(run: Run) -> None:
    """Such a feed is followed like others, though it is never polled."""
    run("token", "create", "alice")

    async def save() -> None:
        async with open_post_store() as posts:
            await posts.save("https://blog.example/feed", {"guid": "1", "timestamp": 1, "name": "Storm"})

    asyncio.run(save())
    (line,) = run("feed", "list").stdout.splitlines()
    assert line.split() == ["written", "1", "follower", "https://blog.example/feed"]
    assert run("feed", "list", "--failing").stderr == "no failing feeds\n"
