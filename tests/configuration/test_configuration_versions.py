"""An edit of backend.json is compared with the version that it started from, and versions are kept for that."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import structlog

from microsub.configuration.file import is_saved, surplus, version_name
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured

A, B, C, D = (f"https://{name}.example/feed" for name in "abcd")


@pytest.fixture
async def configured(redis: Redis, tmp_path: Path) -> Configured:
    """A server with Ann's channel Home in the file, which is applied."""
    configured = Configured(redis, tmp_path / "backend.json", write_back=True)
    home = {"uid": "home", "name": "Home", "feeds": [A]}
    await configured.apply({"users": {"ann": {"me": "https://ann.example/", "channels": [home]}}})
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


async def test_an_editor_that_was_open_for_long_undoes_nothing_of_the_apps(configured: Configured) -> None:
    """Changes by apps since the editor read the file stay, the edit is applied, and a warning reports it; afterwards
    the file has both.
    """
    buffer = configured.saved()
    await in_an_app(configured)
    configured.save(with_feed(buffer, C))
    [warning] = await apply(configured)
    assert warning == "backend.json was edited from an older version; changes made in apps since then are kept"
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


async def test_what_apps_took_out_doesnt_come_back_with_an_old_buffer(configured: Configured) -> None:
    """A feed that was unfollowed in an app isn't an edit of the file."""
    configured.save(with_feed(configured.saved(), B))
    await apply(configured)
    buffer = configured.saved()
    await configured.following.unfollow("ann", "home", A, NOW)
    assert await configured.configuration.write_back()
    configured.save(with_feed(buffer, C))
    await apply(configured)
    assert await configured.state() == {"ann": {"home": ("Home", [B, C])}}


async def test_what_apps_did_is_taken_out_by_hand(configured: Configured) -> None:
    """An edit of the current file is applied completely, even if it removes exactly the changes by an app."""
    await in_an_app(configured)
    document = configured.saved()
    document["users"]["ann"]["channels"].pop()
    configured.save(document)
    [warning] = await apply(configured)
    assert warning == "backend.json was reset to an older version; changes made in apps since then are undone"
    assert await configured.state() == {"ann": {"home": ("Home", [A, B])}}


async def test_an_edit_by_hand_is_taken_back_by_hand(configured: Configured) -> None:
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
    await apply(configured)
    assert await configured.state() == {"ann": {"home": ("Home", [A])}}
    assert before in [version.read_bytes() for version in kept(configured)]


async def test_a_version_is_kept_of_every_save(configured: Configured) -> None:
    """Saves by hand or by the server, newest last; those by hand are marked in their names."""
    await configured.following.follow("ann", "home", B, NOW)
    await configured.configuration.write_back()
    written = configured.file.read_bytes()
    configured.save(with_feed(configured.saved(), C))
    await apply(configured)
    versions = kept(configured)
    assert [is_saved(version.name) for version in versions] == [True, False, True]
    assert [version.read_bytes() for version in versions[1:]] == [written, configured.file.read_bytes()]


async def test_nothing_is_kept_where_the_server_doesnt_write(redis: Redis, tmp_path: Path) -> None:
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
