"""Settings of a process: environment variables and flags, as one frozen value.

Each field of `Settings` declares one setting: kind, default, help. The command line's flags and the reference page's
table are generated from them (`SETTINGS`). A flag overrides a variable, a variable the default; an empty variable
counts as absent.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from microsub.base.errors import ConfigError

PREFIX = "MICROSUB_"

ENV_FILE = "MICROSUB_ENV_FILE"
"""The variable that names a file with the server's other variables, so that commands find its data."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

METRICS_NETWORKS: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
"""The default networks that may read metrics: this machine itself."""


@dataclass(frozen=True, slots=True)
class SettingKind:
    """The valid values of a setting: `word` names them on the reference page, `expected` in errors.

    `parse` raises ValueError for text that isn't `expected`.
    """

    word: str
    parse: Callable[[str], object]
    expected: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as data, from which flags, the reference page and error messages are made.

    `default` is the default as text. None means that absence has a meaning of its own, which `help` explains. Values
    of a `secret` setting may contain a password, which is masked when the value is shown.
    """

    name: str
    kind: SettingKind
    default: str | None
    help: str
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable, such as `MICROSUB_DATA_DIR`."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The command line flag, such as `--data-dir`."""
        return "--" + self.name.replace("_", "-")

    @property
    def placeholder(self) -> str:
        """The placeholder for the value after the flag, such as `FOLDER`."""
        return "|".join(self.kind.choices) or self.kind.word.upper().replace(" ", "_")

    @property
    def described(self) -> str:
        """The help with the variable and the default, for help pages."""
        return f"{self.help} [{self.variable}]" + (f" [default: {self.default}]" if self.default else "")


def setting(kind: SettingKind, default: str | None, text: str, **more: Any) -> Any:
    """The field of a setting; `text` is its help."""
    metadata = {"kind": kind, "default": default, "help": text, **more}
    return field(default=None if default is None else kind.parse(default), metadata=metadata)


def _token(text: str) -> str:
    if not re.fullmatch(r"[!-~]{16,}", text):
        raise ValueError(text)
    return text


def _host(text: str) -> str:
    if re.search(r"[\s/@]", text) or "://" in text:
        raise ValueError(text)
    return text.removeprefix("[").removesuffix("]")


def _number(lowest: int, highest: int, expected: str = "", word: str = "number") -> SettingKind:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
            raise ValueError(text)
        return int(text)

    return SettingKind(word, parse, expected or f"a number from {lowest} to {highest}")


def _path(text: str) -> Path:
    if "\0" in text:
        raise ValueError(text)
    return Path(text).expanduser()


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        parts = urlsplit(text)
        if parts.scheme not in schemes or not parts.hostname or re.search(r"\s", text):
            raise ValueError(text)
        _ = parts.port  # raises ValueError for an invalid port
        return text

    return parse


def _base_url(text: str) -> str:
    _url("http", "https")(text)
    parts = urlsplit(text)
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(text)
    return text.rstrip("/")


def _redis_url(text: str) -> str:
    if text.startswith("unix://"):
        if not urlsplit(text).path.startswith("/"):
            raise ValueError(text)
        return text
    if text.startswith(("redis+cluster://", "rediss+cluster://")):
        places = urlsplit(text).netloc.rpartition("@")[2].split(",")  # several nodes of one cluster
        for place in places:
            _url("redis")(f"redis://{place}")
        return text
    return _url("redis", "rediss")(text)


def _networks(text: str) -> tuple[Network, ...]:
    words = [word for word in re.split(r"[\s,]+", text) if word]
    return tuple(ipaddress.ip_network(word, strict=True) for word in words)


def _list_of_networks(example: str) -> SettingKind:
    expected = f"networks in CIDR form, separated by commas, such as {example} (no host bits set)"
    return SettingKind("list of networks", _networks, expected)


def _switch(text: str) -> bool:
    word = text.lower()
    if word in {"on", "true", "yes", "1"}:
        return True
    if word in {"off", "false", "no", "0"}:
        return False
    raise ValueError(text)


def _one_of(*choices: str) -> SettingKind:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return SettingKind("word", parse, f"one of {', '.join(choices)}", choices)


_FILE = SettingKind("file", _path, "the path of a file")
_FOLDER = SettingKind("folder", _path, "the path of a folder")
_ON_OR_OFF = SettingKind("on or off", _switch, "on or off")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `base_url` has no final slash; `write_back` None depends on the Redis."""

    host: str = setting(
        SettingKind("host name or address", _host, "a host name or an IP address, such as 127.0.0.1 or 0.0.0.0"),
        "127.0.0.1",
        "The address on which the server listens. The default is reachable only from this machine.",
    )
    port: int = setting(
        _number(0, 65535, "a port number from 0 to 65535"),
        "8080",
        "The port on which the server listens; 0 picks a free one.",
    )
    base_url: str | None = setting(
        SettingKind(
            "URL", _base_url, "an http or https URL without query or credentials, such as https://reader.example"
        ),
        None,
        "The public URL of the server. By default it is made from host and port; then people can sign in only on this "
        "machine, and the server doesn't subscribe to hubs.",
    )
    backend: Path = setting(_FILE, "backend.json", "The file that declares users, channels and feeds.")
    data_dir: Path = setting(
        _FOLDER,
        "data",
        "The folder in which the embedded engine stores its data. It must belong to the system user who runs the "
        "server, and nobody else may write to it. Not used with a Redis of your own.",
    )
    key_file: Path | None = setting(
        _FILE,
        None,
        "The file with the key that encrypts credentials of feeds, made when users first give some. All machines of a "
        "server need the same one, and backups don't contain it. By default `sealing-key` in the data folder, also "
        "with a Redis of your own.",
    )
    redis_url: str | None = setting(
        SettingKind(
            "URL",
            _redis_url,
            "a URL such as redis://localhost:6379/0, rediss://…, unix:///run/redis.sock or redis+cluster://host:port,host:port",
        ),
        None,
        "The Redis to use. By default the server starts its own in the data folder.",
        secret=True,
    )
    redis_replicas: int | None = setting(
        _number(0, 9),
        None,
        "How many replicas must confirm a change before it counts as stored. Default: 1 in a Redis Cluster if the "
        "master has a replica, otherwise 0.",
    )
    redis_server: Path | None = setting(
        _FILE,
        None,
        "The program of the embedded engine. By default `valkey-server` or `redis-server` from PATH, otherwise the "
        "Valkey that is installed with the server; among these the one that wrote the data, or that can read it.",
    )
    redis_memory_mb: int | None = setting(
        _number(0, 100_000_000, "a number of megabytes", "megabytes"),
        None,
        "Memory that the embedded engine may use for data; beyond it, posts can be read, but nothing is stored until "
        "there is room. 0 means no limit. By default two thirds of the machine's memory, or of the container's. It "
        "applies from the next start of that engine on.",
    )
    allow_private_networks: tuple[Network, ...] = setting(
        _list_of_networks("10.0.0.0/8,fd00::/8"),
        "",
        "Private networks from which feeds may be fetched, such as 192.168.0.0/16. By default none: loopback, private "
        "and link-local addresses are refused. This machine's own public addresses are refused as well, unless the "
        "host is that of `MICROSUB_BASE_URL` or of a user's page and the port is 80 or 443.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        _list_of_networks("127.0.0.1/32,10.0.0.0/8"),
        "",
        "Networks of the reverse proxies in front of this server, whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        "trusted. By default none: the address that a connection comes from counts as the client's.",
    )
    connections_per_address: int = setting(
        _number(0, 100_000),
        "256",
        "How many connections one IPv4 address, or one /64 network of IPv6, may have open at a time; 0 means no limit. "
        "Trusted proxies have no limit.",
    )
    metrics_networks: tuple[Network, ...] = setting(
        _list_of_networks("127.0.0.1/32,10.0.0.0/8"),
        ",".join(map(str, METRICS_NETWORKS)),
        "Networks whose clients may read `/metrics` and the details of `/health`. Behind a trusted proxy the client's "
        "address counts; requests through any other proxy are refused.",
    )
    metrics_token: str | None = setting(
        SettingKind("text", _token, "16 or more printable ASCII characters without spaces"),
        None,
        "A bearer token with which any program can read `/metrics` and the details of `/health`. By default none.",
        secret=True,
    )
    http_proxy: str | None = setting(
        SettingKind("URL", _url("http", "https"), "an http or https URL of a proxy, such as http://proxy.example:3128"),
        None,
        "The proxy for all fetches. The proxy has to refuse private addresses, because the server can't.",
        secret=True,
    )
    write_back: bool | None = setting(
        _ON_OR_OFF,
        None,
        "Whether users' changes, made in the browser or in apps, are written to the backend file. By default on with "
        "the embedded engine, off with a Redis of your own.",
    )
    fetch_concurrency: int = setting(
        _number(1, 10_000),
        "200",
        "How many hosts one worker polls at the same time, with one request each. A low limit on open files "
        "(`ulimit -n`) reduces it: each host needs up to four.",
    )
    item_cache_mb: int = setting(
        _number(0, 1_000_000, "a number of megabytes", "megabytes"),
        "64",
        "Memory that each web process uses to cache posts.",
    )
    search: bool = setting(
        _ON_OR_OFF,
        "on",
        "Whether posts can be searched. Each post takes one or two kilobytes of disk space on every machine, and some "
        "processor time when it arrives.",
    )
    search_dir: Path | None = setting(
        _FOLDER,
        None,
        "The folder of this machine's index of posts. A lost index is rebuilt automatically. By default `search` in "
        "the data folder, also with a Redis of your own.",
    )
    hub_feeds: bool = setting(
        _ON_OR_OFF,
        "off",
        "Whether anybody may read the stored posts of followed feeds at `/topics/feed.json?url=…` and subscribe to "
        "them at the hub. Feeds whose address looks like a secret are left out.",
    )
    starter_feeds: Path | None = setting(
        _FILE,
        None,
        "A TOML file with the feeds that are suggested to users who follow nothing yet: `[[feed]]` tables with "
        "`name`, `url` and `about`. An empty file suggests none. By default a few IndieWeb sites.",
    )
    log_format: str = setting(
        _one_of("auto", "text", "json"),
        "auto",
        "The format of the log: text for people, json (one object per line) for programs. With auto, a server writes "
        "text to a terminal and json otherwise.",
    )
    log_level: str = setting(_one_of("debug", "info", "warning", "error"), "info", "The lowest level that is logged.")

    @property
    def embedded(self) -> bool:
        """Whether the server runs a Redis of its own."""
        return self.redis_url is None

    @property
    def sealing_key(self) -> Path:
        """The file with the key that encrypts credentials of feeds."""
        return self.key_file or self.data_dir / "sealing-key"

    @property
    def index(self) -> Path:
        """The folder of this machine's index of posts."""
        return self.search_dir or self.data_dir / "search"

    @property
    def writes_back(self) -> bool:
        """Whether changes made through the API are written to the backend file (`storage`, Write-back)."""
        return self.embedded if self.write_back is None else self.write_back

    @property
    def public_url(self) -> str:
        """`base_url`, or a URL of host and port; no slash at its end."""
        if self.base_url is not None:
            return self.base_url
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"


SETTINGS = tuple(Setting(one.name, **one.metadata) for one in fields(Settings))


def read_settings(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from `environ` and `flags` (name → text or parsed value; None: not given).

    Raises ConfigError, which names the variable or flag, its value and what was expected.
    """
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        given = (flags or {}).get(setting.name)
        if given is not None:
            values[setting.name] = _parse(setting, given, setting.flag) if isinstance(given, str) else given
        elif text := environ.get(setting.variable, "").strip():
            values[setting.name] = _parse(setting, text, setting.variable)
    return Settings(**values)


def env_file(text: str, name: str) -> dict[str, str]:
    """The variables of a text in the format of systemd's `EnvironmentFile=`: `NAME=value`, or quoted.

    Empty lines and lines that begin with `#` or `;` are skipped. Raises ConfigError, which names the line.
    """
    found = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line[0] in "#;":
            continue
        variable, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise ConfigError(file=name, path="", line=number, found=f"'{line[:40]}'", expected="NAME=value")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found[variable] = value[1:-1] if quoted else value
    return found


def variables(settings: Settings) -> dict[str, str]:
    """The environment from which `read_settings` makes these settings in another process."""
    return {setting.variable: _as_text(getattr(settings, setting.name)) for setting in SETTINGS}


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parse(setting: Setting, text: str, source: str) -> object:
    try:
        return setting.kind.parse(text.strip())
    except ValueError:
        shown = "***" if setting.name == "metrics_token" else mask_password(text) if setting.secret else text
        raise ConfigError(file=source, path="", found=f"'{shown}'", expected=setting.kind.expected) from None


def mask_password(url: str) -> str:
    """`url`, which may be invalid, with `***` for user and password, for messages and logs."""
    scheme, mark, rest = url.rpartition("://")
    place, slash, path = rest.partition("/")
    if not re.fullmatch(r"[^:@\[]+(:\d*)?|\[[^@]*\](:\d*)?|.*@.*|", place):
        place, slash, path = rest, "", ""  # no host: it may be the beginning of a password with a slash in it
    return url if "@" not in place else f"{scheme}{mark}***@{place.rpartition('@')[2]}{slash}{path}"


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """A warning for each unknown `MICROSUB_…` variable, with the closest known name."""
    known = [*(setting.variable for setting in SETTINGS), ENV_FILE]
    sentences = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            sentences.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return sentences
