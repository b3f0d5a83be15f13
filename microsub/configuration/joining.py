"""Who may make an account by signing in, and how much one user may have: parts of backend.json as frozen values."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import idna

Openness = Literal["nobody", "domains", "everybody"]

MOST_REGISTERED = 1000
"""Accounts that people may make themselves, where the admin says nothing else."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """How much one user may have; None means: as the level above says, 0 means without limit.

    `feeds` counts a feed once for each channel that follows it, `tokens` what the user has let apps have and the tokens
    that the admin made, `requests` those to the Microsub endpoint in a minute, `rules` the mutes and blocks of all
    channels together.
    """

    channels: int | None = None
    feeds: int | None = None
    tokens: int | None = None
    requests: int | None = None
    rules: int | None = None

    def over(self, above: Quotas) -> Quotas:
        """These quotas, and those of the level above where these say nothing."""
        return Quotas(
            **{
                name: getattr(above, name) if getattr(self, name) is None else getattr(self, name)
                for name in QUOTA_NAMES
            }
        )


QUOTA_NAMES: tuple[str, ...] = tuple(entry.name for entry in fields(Quotas))

MOST_RULES = 1000
"""Mutes and blocks of one user, where the admin says nothing else: each is looked at whenever a post comes in."""

OF_DECLARED = Quotas(channels=0, feeds=0, tokens=0, requests=0, rules=MOST_RULES)
"""For users whom the admin has made, where the admin says nothing else."""
OF_REGISTERED = Quotas(channels=50, feeds=500, tokens=50, requests=600, rules=MOST_RULES)
"""For those who registered themselves, where the admin says nothing else."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Who gets an account by signing in: nobody, those whose site lies on one of `domains`, or everybody.

    Never whom `refuse` names, by domain or by profile URL. `most` is how many accounts there may be that people made
    themselves, 0 for any number. `quotas` hold only what is declared: use `Quotas.over(OF_REGISTERED)`.
    """

    open: Openness = "nobody"
    domains: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    most: int = MOST_REGISTERED
    quotas: Quotas = field(default_factory=Quotas)


_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


def domain(text: str) -> str | None:
    """A domain as it is compared: lower case, international names as punycode, no dot at the end; else None.

    Refused are single labels, since `com` or `localhost` would mean everybody there, IP addresses, wildcards and URLs.
    """
    name = text.strip().lower().removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    labels = name.split(".")
    if len(name) > 253 or len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return None if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1]) else name


def within(host: str, name: str) -> bool:
    """Whether `host` is the domain `name` or below it; both as `domain` writes them. `notann.example` isn't within
    `ann.example`.
    """
    return host == name or host.endswith(f".{name}")


def comparable_person(me: str) -> str:
    """The form in which two spellings of one person's address are equal: http or https, with or without a slash at the
    end, the host in any case, in its own script or as punycode. What can't be read stays as it is.
    """
    written = me.strip() if "://" in me else f"https://{me.strip()}"
    try:
        parts = urlsplit(written)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return me
    with suppress(idna.IDNAError, UnicodeError):
        host = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    place = host if port in (None, 80, 443) else f"{host}:{port}"
    return urlunsplit(("", place, parts.path.rstrip("/"), parts.query, ""))


def quotas_from(part: Any) -> Quotas:
    """The quotas in an object of backend.json that was found valid."""
    return Quotas(**{name: int(part[name]) for name in QUOTA_NAMES if part.get(name) is not None})


def quotas_part(quotas: Quotas) -> dict[str, int]:
    """The object of these quotas."""
    return {name: value for name in QUOTA_NAMES if (value := getattr(quotas, name)) is not None}


def registration_from(part: Any) -> Registration:
    """The value of `settings.registration`, which was found valid."""
    return Registration(
        open=part.get("open", "nobody"),
        domains=tuple(part.get("domains", ())),
        refuse=tuple(part.get("refuse", ())),
        most=int(part.get("most", MOST_REGISTERED)),
        quotas=quotas_from(part.get("quotas", {})),
    )


def registration_part(registration: Registration) -> dict[str, Any]:
    """The object of this value; what stands at its default is left out."""
    found: dict[str, Any] = {
        "open": None if registration.open == "nobody" else registration.open,
        "domains": list(registration.domains),
        "refuse": list(registration.refuse),
        "most": None if registration.most == MOST_REGISTERED else registration.most,
        "quotas": quotas_part(registration.quotas),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}
