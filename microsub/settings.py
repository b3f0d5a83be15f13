"""Settings of a process: environment variables and flags, as one frozen value.

Each field of `Settings` declares one setting: kind, default, help. The command line makes its flags of them
(`SETTINGS`), and the reference page its table. A flag wins over a variable, a variable over the default; an empty
variable counts as absent.
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

from microsub.errors import ConfigError

PREFIX = "MICROSUB_"

ENV_FILE = "MICROSUB_ENV_FILE"
"""The variable that names a file with the server's other variables, for commands that are to find its data."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

METRICS_NETWORKS: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
"""Who sees metrics where the admin says nothing: the machine itself."""


@dataclass(frozen=True, slots=True)
class SettingKind:
    """What values a setting has: `word` on the reference page, `expected` in errors.

    `parse` raises ValueError for text that isn't `expected`.
    """

    word: str
    parse: Callable[[str], object]
    expected: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as data, of which flags, the reference page and error messages are made.

    `default` is the text that stands for the default, None where absence has a meaning of its own, which `help` then
    tells. The values of a `secret` setting may hold a password, which is masked where the value is shown.
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
        """What stands for the value behind the flag, such as `FOLDER`."""
        return "|".join(self.kind.choices) or self.kind.word.upper().replace(" ", "_")

    @property
    def described(self) -> str:
        """The help with the variable and the default, as help pages have it."""
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
    """All settings. `base_url` has no final slash; `write_back` None: as the Redis is."""

    host: str = setting(
        SettingKind("host name or address", _host, "a host name or an IP address, such as 127.0.0.1 or 0.0.0.0"),
        "127.0.0.1",
        "The address on which the server listens. The default is reachable from this machine alone.",
    )
    port: int = setting(
        _number(0, 65535, "a port number from 0 to 65535"),
        "8080",
        "The port on which the server listens; 0 takes any free one.",
    )
    base_url: str | None = setting(
        SettingKind(
            "URL", _base_url, "an http or https URL without query and credentials, such as https://reader.example"
        ),
        None,
        "The URL under which the outside world reaches the server. By default it is made of host and port: then people "
        "can sign in on this machine only, and no hub is asked to deliver posts.",
    )
    backend: Path = setting(_FILE, "backend.json", "The file that declares users, channels and feeds.")
    data_dir: Path = setting(
        _FOLDER,
        "data",
        "Where the embedded Redis keeps its data: a folder of the system user who runs the server, to which no other "
        "may write. Not used with a Redis of your own.",
    )
    redis_url: str | None = setting(
        SettingKind(
            "URL",
            _redis_url,
            "a URL such as redis://localhost:6379/0, rediss://…, unix:///run/redis.sock or redis+cluster://host:port,host:port",
        ),
        None,
        "The Redis to use. Without it the server starts one of its own for the data folder.",
        secret=True,
    )
    redis_replicas: int | None = setting(
        _number(0, 9),
        None,
        "How many replicas must have a change before it counts as made. By default one in a Redis Cluster, as long as "
        "the master has any; none elsewhere.",
    )
    allow_private_networks: tuple[Network, ...] = setting(
        _list_of_networks("10.0.0.0/8,fd00::/8"),
        "",
        "Private networks in which feeds may be fetched. By default none: loopback, private and link-local addresses "
        "are refused. This machine's own public addresses are refused as well, unless the host is that of "
        "`MICROSUB_BASE_URL` or of a user's page, and the port is 80 or 443.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        _list_of_networks("127.0.0.1/32,10.0.0.0/8"),
        "",
        "Where the web servers in front of this one are, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. "
        "By default none: the address that a client connects from is taken as its own.",
    )
    connections_per_address: int = setting(
        _number(0, 100_000),
        "256",
        "How many connections an IPv4 address, or a /64 network of IPv6, may have open; 0 sets no limit. Trusted "
        "proxies may have any number.",
    )
    metrics_networks: tuple[Network, ...] = setting(
        _list_of_networks("127.0.0.1/32,10.0.0.0/8"),
        ",".join(map(str, METRICS_NETWORKS)),
        "Networks whose clients may read `/metrics` and the details of `/health`. A trusted proxy says who the client "
        "is; requests through any other web server are refused.",
    )
    metrics_token: str | None = setting(
        SettingKind("text", _token, "16 or more printable ASCII characters without spaces"),
        None,
        "With this token as `Bearer`, programs anywhere read `/metrics` and the details of `/health`. By default none.",
        secret=True,
    )
    http_proxy: str | None = setting(
        SettingKind("URL", _url("http", "https"), "an http or https URL of a proxy, such as http://proxy.example:3128"),
        None,
        "The proxy through which everything is fetched. It has to refuse private addresses, since the server can't.",
        secret=True,
    )
    write_back: bool | None = setting(
        _ON_OR_OFF,
        None,
        "Whether what users change, in the browser and in apps, is written into the backend file. By default on with "
        "the embedded Redis, off with a Redis of your own.",
    )
    fetch_concurrency: int = setting(
        _number(1, 10_000),
        "200",
        "How many hosts one worker asks at the same time, each with one request. It asks fewer where the process may "
        "open few files (`ulimit -n`): a host takes up to four.",
    )
    item_cache_mb: int = setting(
        _number(0, 1_000_000, "a number of megabytes", "megabytes"),
        "64",
        "Memory that each web process uses to keep posts ready.",
    )
    search: bool = setting(
        _ON_OR_OFF,
        "on",
        "Whether posts can be searched. Each post takes one or two kilobytes of a file on every machine, and some "
        "processor time when it comes in.",
    )
    search_dir: Path | None = setting(
        _FOLDER,
        None,
        "Where this machine's index of posts lies, which is built again by itself when it is lost. By default the "
        "folder `search` of the data folder, also with a Redis of your own.",
    )
    hub_feeds: bool = setting(
        _ON_OR_OFF,
        "off",
        "Whether anybody may read what is stored of followed feeds at `/topics/feed.json?url=…`, and subscribe to it "
        "at the hub. Feeds whose address looks like a secret are left out.",
    )
    starter_feeds: Path | None = setting(
        _FILE,
        None,
        "The file with the feeds that an account without any is offered to start with, as `[[feed]]` tables of TOML "
        "with `name`, `url` and `about`; an empty file offers none. By default some sites of the IndieWeb.",
    )
    log_format: str = setting(
        _one_of("auto", "text", "json"),
        "auto",
        "How the log is written: text for people, JSON lines for machines; auto takes text on a terminal.",
    )
    log_level: str = setting(
        _one_of("debug", "info", "warning", "error"), "info", "The least important kind of line that is logged."
    )

    @property
    def embedded(self) -> bool:
        """Whether the server runs a Redis of its own."""
        return self.redis_url is None

    @property
    def index(self) -> Path:
        """The folder of this machine's index of posts."""
        return self.search_dir or self.data_dir / "search"

    @property
    def writes_back(self) -> bool:
        """Whether changes made through the API go into the backend file (`storage`, Write-back)."""
        return self.embedded if self.write_back is None else self.write_back

    @property
    def public_url(self) -> str:
        """`base_url`, or what host and port make of it; no slash at its end."""
        if self.base_url is not None:
            return self.base_url
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"


SETTINGS = tuple(Setting(one.name, **one.metadata) for one in fields(Settings))


def read_settings(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from `environ` and `flags` (name → text or finished value; None: not given).

    Raises ConfigError that names the variable or flag, what it holds and what it should.
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
    """The variables in a text as systemd's `EnvironmentFile=` has it: `NAME=value` or quoted.

    Empty lines and those that begin with `#` or `;` are comments. Raises ConfigError, which names the line.
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
    """`url` with `***` for user and password, for messages and logs; it may be invalid."""
    scheme, mark, rest = url.rpartition("://")
    place, slash, path = rest.partition("/")
    if not re.fullmatch(r"[^:@\[]+(:\d*)?|\[[^@]*\](:\d*)?|.*@.*|", place):
        place, slash, path = rest, "", ""  # no host: it may be the beginning of a password with a slash in it
    return url if "@" not in place else f"{scheme}{mark}***@{place.rpartition('@')[2]}{slash}{path}"


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """A warning for each unknown `MICROSUB_…` variable, with the likely intention."""
    known = [*(setting.variable for setting in SETTINGS), ENV_FILE]
    sentences = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            sentences.append(f"{name} is no setting" + (f"; did you mean {near[0]}?" if near else ""))
    return sentences
