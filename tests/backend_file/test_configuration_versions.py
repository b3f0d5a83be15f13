"""An edit of backend.json is compared with the version that it started from, and versions are kept for that."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from microsub.backend_file.file import BackendFile, is_saved, surplus, version_name
from microsub.base.errors import StoreUnavailable
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured
from tests.support.redis_wrappers import Between

A, B, C, D = (f"https://{name}.example/feed" for name in "abcd")


OLD = "https://old.example/feed"
BEGUN = {
    "users": {"ann": {"me": "https://ann.example/", "channels": [{"uid": "home", "name": "Home", "feeds": [OLD]}]}}
}


@pytest.fixture
async def configured(redis: Redis, tmp_path: Path) -> Configured:
    """A server with Ann's channel Home in the file, which the server has written once."""
    configured = Configured(redis, tmp_path / "backend.json", write_back=True)
    await configured.apply(BEGUN)
    await configured.following.unfollow("ann", "home", OLD, NOW)
    await configured.following.follow("ann", "home", A, NOW)
    assert await configured.configuration.write_back()
    return configured


async def in_an_app(configured: Configured) -> None:
    """Ann follows a feed and creates a channel; both are written into the file, one after the other."""
    await configured.following.follow("ann", "home", B, NOW)
    assert await configured.configuration.write_back()
    await configured.channels.create("ann", "App", NOW, uid="app")
    assert await configured.configuration.write_back()


def with_feed(document: Any, url: str) -> Any:
    edited = copy.deepcopy(document)
    edited["users"]["ann"]["channels"][0]["feeds"].append(url)
    return edited


async def apply(configured: Configured) -> list[str]:
    """Applies the file; its warnings."""
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() == "applied"
    return [line["event"] for line in lines if line["log_level"] == "warning"]


async def test_an_old_buffer_undoes_no_changes_by_apps(configured: Configured) -> None:
    """Changes by apps since the editor read the file stay, the edit is applied, and a warning reports it; afterwards
    the file has both.
    """
    buffer = configured.saved()
    await in_an_app(configured)
    configured.save(with_feed(buffer, C))
    warnings = await apply(configured)
    assert warnings[0].startswith("backend.json was edited from the older version ")
    later = "not applied, because of a later change in an app: channel ann/"
    assert warnings[1:] == [f"{later}app removed, restorable for 30 days", f"{later}home no longer follows {B}"]
    shown = [text for _, text in await configured.applied.changes()]
    assert shown[:4] == [*warnings, f"channel ann/home follows {C}"]
    await configured.configuration.write_back()
    assert await configured.state() == {"ann": {"home": ("Home", [A, B, C]), "app": ("App", [])}}
    home, app = configured.saved()["users"]["ann"]["channels"]
    assert (sorted(home["feeds"]), app["uid"]) == ([A, B, C], "app")


async def test_an_editor_that_stays_open_saves_again(configured: Configured) -> None:
    """The second save from the same buffer, without reading the file again, keeps the apps' changes too."""
    buffer = with_feed(configured.saved(), C)
    await in_an_app(configured)
    configured.save(buffer)
    await apply(configured)
    await configured.configuration.write_back()
    configured.save(with_feed(buffer, D))
    await apply(configured)
    assert await configured.state() == {"ann": {"home": ("Home", [A, B, C, D]), "app": ("App", [])}}


async def test_an_old_buffer_restores_no_unfollowed_feed(configured: Configured) -> None:
    """A feed that was unfollowed in an app isn't an edit of the file."""
    configured.save(with_feed(configured.saved(), B))
    await apply(configured)
    buffer = configured.saved()
    await configured.following.unfollow("ann", "home", A, NOW)
    assert await configured.configuration.write_back()
    configured.save(with_feed(buffer, C))
    await apply(configured)
    assert await configured.state() == {"ann": {"home": ("Home", [B, C])}}


async def test_an_edit_can_undo_changes_by_apps(configured: Configured) -> None:
    """An edit of the current file is applied completely, even if it removes exactly the changes by an app."""
    await in_an_app(configured)
    document = configured.saved()
    document["users"]["ann"]["channels"].pop()
    configured.save(document)
    assert await apply(configured) == []
    assert (await configured.state())["ann"] == {"home": ("Home", [A, B])}


def feeds_by_channel(**channels: list[str]) -> Callable[[Any], Any]:
    """An edit that gives Ann exactly these channels."""

    def edit(document: Any) -> Any:
        listed = [{"uid": uid, "name": uid.title(), "feeds": feeds} for uid, feeds in channels.items()]
        return {**document, "users": {"ann": {"me": "https://ann.example/", "channels": listed}}}

    return edit


@pytest.mark.parametrize(
    "channels",
    [
        {"home": [A], "news": [B]},  # the feed from an app moves
        {"home": [A], "news": []},  # it goes, and a channel comes
        {"home": [A, C]},  # another comes instead
        {"home": [A]},  # it goes
        {"home": [B]},
        {"news": [B]},
    ],
)
async def test_an_edit_of_the_current_file_is_applied_as_written(
    configured: Configured, channels: dict[str, list[str]]
) -> None:
    """Also where it undoes what an app did, and the server adds nothing to it afterwards."""
    await configured.following.follow("ann", "home", B, NOW)
    assert await configured.configuration.write_back()
    edit = feeds_by_channel(**channels)
    configured.save(edit(configured.saved()))
    assert await apply(configured) == []
    expected = {uid: (uid.title(), feeds) for uid, feeds in channels.items()}
    assert await configured.state() == {"ann": expected}
    assert not await configured.configuration.write_back()
    assert await configured.configuration.look() == "unchanged"


@pytest.mark.parametrize("token", [None, "0a1b2c3d", 7])
async def test_a_file_without_a_known_version_edits_the_current_one(configured: Configured, token: object) -> None:
    """It is applied as written, and a warning and the changes name what that undoes."""
    await in_an_app(configured)
    document = feeds_by_channel(home=[A, C])({})
    configured.save(document if token is None else {"x-version": token, **document})
    [warning] = await apply(configured)
    assert warning.startswith("backend.json has ")
    assert "'x-version'" in warning
    assert await configured.state() == {"ann": {"home": ("Home", [A, C])}}
    shown = [text for _, text in await configured.applied.changes()]
    undone = {f"channel ann/home no longer follows {B}", "channel ann/app removed, restorable for 30 days"}
    assert shown[0] == warning
    assert undone <= set(shown)


async def test_an_app_changes_a_feed_while_the_file_is_open(configured: Configured) -> None:
    """The follow isn't in the file yet when the edit is saved: both stay."""
    document = configured.saved()
    await configured.following.follow("ann", "home", B, NOW)
    configured.save(with_feed(document, C))
    assert await apply(configured) == []
    await configured.configuration.write_back()
    assert sorted(configured.saved()["users"]["ann"]["channels"][0]["feeds"]) == [A, B, C]


async def test_a_second_save_can_undo_the_first(configured: Configured) -> None:
    """Each save counts as an edit of the one before, and the app's follow between them stays."""
    buffer = configured.saved()
    configured.save(with_feed(with_feed(buffer, C), D))
    await apply(configured)
    await configured.following.follow("ann", "home", B, NOW)
    assert await configured.configuration.write_back()
    configured.save(with_feed(buffer, D))
    warnings = await apply(configured)
    assert warnings[1:] == [f"not applied, because of a later change in an app: channel ann/home no longer follows {B}"]
    assert await configured.state() == {"ann": {"home": ("Home", [A, D, B])}}


@pytest.mark.parametrize("trip", range(12))
async def test_an_edit_counts_after_a_death_between_redis_and_file(
    real_redis: Redis, tmp_path: Path, trip: int
) -> None:
    """The server dies while it writes an app's follow, at any round trip; the admin then moves the feed."""
    configured = Configured(real_redis, tmp_path / "backend.json", write_back=True)
    await configured.apply(BEGUN)
    await configured.following.follow("ann", "home", B, NOW)
    left = trip

    async def before(_name: str, _args: Any) -> None:
        nonlocal left
        if left == 0:
            raise StoreUnavailable("killed")
        left -= 1

    with contextlib.suppress(StoreUnavailable):
        await Configured(Between(real_redis, before), configured.file, write_back=True).configuration.write_back()
    await real_redis.command("DEL", keys.lease("config"))
    after = Configured(real_redis, configured.file, write_back=True)
    if B in after.file.read_text():
        after.save(feeds_by_channel(home=[OLD], news=[B])(after.saved()))
        await apply(after)
        assert await after.state() == {"ann": {"home": ("Home", [OLD]), "news": ("News", [B])}}
    else:
        assert await after.configuration.look() == "unchanged"
        assert await after.configuration.write_back()
        assert after.saved()["users"]["ann"]["channels"][0]["feeds"] == [OLD, B]


async def test_the_first_users_create_the_file(redis: Redis, tmp_path: Path) -> None:
    """With write-back, if none was ever applied; registered users don't, and nothing overwrites a file."""
    configured = Configured(redis, tmp_path / "backend.json", write_back=True)
    assert not await configured.configuration.write_back()
    await configured.accounts.register("eve", "https://eve.example/", NOW)
    assert not await configured.configuration.write_back()
    await configured.accounts.add_user("ann", "https://ann.example/", NOW)
    await configured.channels.create("ann", "Home", NOW, uid="home")
    await configured.following.follow("ann", "home", A, NOW)
    assert not await Configured(redis, configured.file).configuration.write_back()
    assert await configured.configuration.write_back()
    assert configured.file.stat().st_mode & 0o777 == 0o600
    document = configured.saved()
    assert list(document) == ["x-version", "users"]
    assert document["users"] == {
        "ann": {"me": "https://ann.example/", "channels": [{"uid": "home", "name": "Home", "feeds": [A]}]}
    }
    assert not await configured.configuration.write_back()
    assert await configured.server().look() == "unchanged"
    assert BackendFile(configured.file).create(b"{}", NOW) is None
    configured.save(with_feed(document, B))
    assert await apply(configured) == []
    configured.file.unlink()
    assert not await configured.configuration.write_back()
    assert not configured.file.exists()
    assert (await configured.state())["ann"] == {"home": ("Home", [A, B])}


async def test_an_edit_can_undo_an_edit(configured: Configured) -> None:
    """Only the server's changes may be unknown to an editor: people know the versions that they saved."""
    configured.save(with_feed(with_feed(configured.saved(), B), C))
    await apply(configured)
    document = configured.saved()
    document["users"]["ann"]["channels"][0]["feeds"] = [A, D]
    configured.save(document)
    assert await apply(configured) == []
    assert await configured.state() == {"ann": {"home": ("Home", [A, D])}}


async def test_going_back_to_a_version(configured: Configured) -> None:
    """A kept version that is copied over the file is applied, and the previous content is kept."""
    first = configured.file.read_bytes()
    await in_an_app(configured)
    before = configured.file.read_bytes()
    configured.save(first.decode())
    [warning] = await apply(configured)
    assert warning == "backend.json was reset to an older version; changes made in apps since then are undone"
    assert await configured.state() == {"ann": {"home": ("Home", [A])}}
    assert before in [version.read_bytes() for version in kept(configured)]


async def test_the_log_has_the_warning_of_every_save(configured: Configured) -> None:
    """Lines that are the same are written once a minute, so the warnings of two saves differ in their times."""
    first, lines = configured.file.read_text(), []
    for url in (B, C):
        await configured.following.follow("ann", "home", url, NOW)
        await configured.configuration.write_back()
        configured.save(first)
        with structlog.testing.capture_logs() as logged:
            assert await configured.configuration.look() == "applied"
        lines += [line for line in logged if line["log_level"] == "warning"]
    one, two = lines
    assert (one["event"], one != two) == (two["event"], True)


async def test_a_version_is_kept_of_every_save(configured: Configured) -> None:
    """Saves by hand or by the server, newest last; those by hand are marked in their names."""
    await configured.following.follow("ann", "home", B, NOW)
    await configured.configuration.write_back()
    written = configured.file.read_bytes()
    configured.save(with_feed(configured.saved(), C))
    await apply(configured)
    versions = kept(configured)
    assert [is_saved(version.name) for version in versions] == [True, False, False, True]
    assert [version.read_bytes() for version in versions[2:]] == [written, configured.file.read_bytes()]


async def test_without_write_back_no_versions_are_kept(redis: Redis, tmp_path: Path) -> None:
    """Without write-back the server doesn't use the folder of the file."""
    configured = Configured(redis, tmp_path / "backend.json")
    await configured.apply({"users": {"ann": {}}})
    assert [path.name for path in tmp_path.iterdir()] == ["backend.json"]


def kept(configured: Configured) -> list[Path]:
    return sorted(configured.file.with_name("backend.json.versions").iterdir())


def test_versions_thin_out_with_age() -> None:
    """Saved twice an hour by apps, and every second day by hand, for five weeks: the newest ten of each kind
    stay, and one an hour for a day, one a day for a month.
    """
    half_hours = 35 * 48
    names: list[str] = []
    for number in range(half_hours):
        at = NOW + number * 1800
        names.append(version_name(f"{number:08x}", at, by_hand=number % 96 == 5))
        gone = set(surplus(names, at))
        names = [name for name in names if name not in gone]
    assert names == sorted(names)
    assert names[-10:] == sorted(version_name(f"{number:08x}", NOW + number * 1800, by_hand=number % 96 == 5)
                                 for number in range(half_hours - 10, half_hours))  # fmt: skip
    assert sum(map(is_saved, names)) >= 10
    assert 24 + 29 <= len(names) <= 24 + 30 + 20
    ages = {int((NOW + half_hours * 1800 - _at(name)) // 86_400) for name in names if not is_saved(name)}
    assert set(range(29)) <= ages <= set(range(31))


def _at(name: str) -> float:
    number = int(name.partition("-")[2][:8], 16)
    return NOW + number * 1800
