"""Settings from environment and flags."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from microsub.base.errors import ConfigError
from microsub.base.settings import (
    SETTINGS,
    Setting,
    Settings,
    mask_password,
    misspelt_variables,
    read_settings,
    variables,
)
from tests.support import cases


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_explained(setting: Setting) -> None:
    """Each has a help sentence, and an expected value for the error."""
    assert setting.help.endswith(".")
    assert setting.kind.expected
    assert setting.kind


def test_an_empty_environment_means_defaults() -> None:
    """An empty environment is usable."""
    assert read_settings({}) == Settings()


def test_an_empty_variable_counts_as_absent() -> None:
    """`MICROSUB_PORT=` in an env file changes nothing."""
    assert read_settings({"MICROSUB_PORT": " "}).port == 8080


def test_values_are_read_from_the_environment() -> None:
    """Each variable gets its type."""
    settings = read_settings(
        {
            "MICROSUB_HOST": "::1",
            "MICROSUB_PORT": "9",
            "MICROSUB_BASE_URL": "https://r.example/sub/",
            "MICROSUB_BACKEND": "/etc/b.json",
            "MICROSUB_DATA_DIR": "/var/lib/m",
            "MICROSUB_REDIS_URL": "redis://:pw@h:1/2",
            "MICROSUB_ALLOW_PRIVATE_NETWORKS": "10.0.0.0/8, fd00::/8",
            "MICROSUB_HTTP_PROXY": "http://p.example:3128",
            "MICROSUB_WRITE_BACK": "on",
            "MICROSUB_LOG_FORMAT": "JSON",
        }
    )
    assert settings == Settings(
        host="::1",
        port=9,
        base_url="https://r.example/sub",
        backend=Path("/etc/b.json"),
        data_dir=Path("/var/lib/m"),
        redis_url="redis://:pw@h:1/2",
        allow_private_networks=(ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")),
        http_proxy="http://p.example:3128",
        write_back=True,
        log_format="json",
    )


@pytest.mark.parametrize(
    "url",
    ["redis+cluster://h", "redis+cluster://h:1", "rediss+cluster://u:p,w@a:1,b,[::1]:7?ssl_ca_certs=/c.pem"],
)
def test_a_cluster_may_be_named_by_several_nodes(url: str) -> None:
    """A node that is down at the start is then no problem."""
    assert read_settings({"MICROSUB_REDIS_URL": url}).redis_url == url


def test_a_flag_wins_over_a_variable() -> None:
    """The flag is the more recent choice."""
    assert read_settings({"MICROSUB_PORT": "1"}, {"port": "2", "host": None}).port == 2


def test_a_flag_may_bring_a_finished_value() -> None:
    """This supports a command line library that converts values itself."""
    assert read_settings({}, {"port": 7, "write_back": False}).port == 7


@pytest.mark.parametrize(("name", "value"), cases("a_wrong_value_is_named_with_what_was_expected", "name", "value"))
def test_a_wrong_value_is_named_with_what_was_expected(name: str, value: str) -> None:
    """The message has the variable, the value found and the one expected."""
    with pytest.raises(ConfigError) as caught:
        read_settings({name: value})
    setting = next(setting for setting in SETTINGS if setting.variable == name)
    assert str(caught.value) == f"{name}: found '{value}', expected {setting.kind.expected}"


def test_a_wrong_flag_is_named_as_flag() -> None:
    """The message names the flag as it was typed."""
    with pytest.raises(ConfigError, match=r"^--port: found 'x'"):
        read_settings({}, {"port": "x"})


def test_a_password_is_not_shown_in_an_error() -> None:
    """A wrong Redis URL is reported without its password."""
    with pytest.raises(ConfigError) as caught:
        read_settings({"MICROSUB_REDIS_URL": "rdis://user:secret@h:1"})
    assert "secret" not in str(caught.value)
    assert "rdis://***@h:1" in str(caught.value)


@pytest.mark.parametrize("url", ["redis://u:secret@h:x", "secret@h", "redis://u:secret@[h"])
def test_masking_works_on_anything(url: str) -> None:
    """Text that isn't a URL reveals nothing either."""
    assert "secret" not in mask_password(url)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://h.example/@name/feed", "https://h.example/@name/feed"),
        ("https://u:p@h.example/@name", "https://***@h.example/@name"),
        ("redis://:p/w@h:1/2", "redis://***@h:1/2"),
        ("https://h.example/", "https://h.example/"),
    ],
)
def test_only_user_and_password_are_masked(url: str, masked: str) -> None:
    """A later `@` belongs to the path."""
    assert mask_password(url) == masked


def test_write_back_follows_the_kind_of_redis() -> None:
    """On with the embedded one, off with another one, unless it is set."""
    assert Settings().writes_back
    assert not Settings(redis_url="redis://h").writes_back
    assert Settings(redis_url="redis://h", write_back=True).writes_back


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (Settings(), "http://127.0.0.1:8080"),
        (Settings(host="0.0.0.0", port=1), "http://127.0.0.1:1"),
        (Settings(host="::1"), "http://[::1]:8080"),
        (Settings(host="::"), "http://[::1]:8080"),
        (Settings(base_url="https://r.example"), "https://r.example"),
    ],
)
def test_the_public_url_is_one_that_can_be_called(settings: Settings, url: str) -> None:
    """A wildcard address can't be opened in a browser."""
    assert settings.public_url == url


def test_a_misspelt_variable_is_noticed() -> None:
    """`MICROSUB_REDISURL` has no effect, which causes a warning."""
    assert misspelt_variables({"MICROSUB_REDISURL": "x", "MICROSUB_PORT": "1", "HOME": "/"}) == [
        "MICROSUB_REDISURL is not a setting; did you mean MICROSUB_REDIS_URL?"
    ]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {
            "MICROSUB_HOST": "0.0.0.0",
            "MICROSUB_PORT": "0",
            "MICROSUB_BASE_URL": "https://reader.example",
            "MICROSUB_BACKEND": "a file.json",
            "MICROSUB_REDIS_URL": "redis://:secret@redis.example/1",
            "MICROSUB_REDIS_REPLICAS": "2",
            "MICROSUB_ALLOW_PRIVATE_NETWORKS": "10.0.0.0/8,fd00::/8",
            "MICROSUB_WRITE_BACK": "off",
            "MICROSUB_LOG_LEVEL": "debug",
        },
    ],
)
def test_a_child_process_has_the_same_settings(environ: dict[str, str]) -> None:
    """Values from flags, variables or neither are read again from the variables."""
    settings = read_settings(environ)
    assert read_settings(variables(settings)) == settings
