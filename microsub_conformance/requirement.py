"""Requirements: data with a check function, collected in chapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Level = Literal["must", "should"]
Need = Literal["second user", "read token", "user endpoint"]
Check = Callable[[Any], None]
"""A function of the world: `World` for Microsub, `NativeWorld` for the Google Reader API."""

SPEC = "spec"
DESIGN = "design"
SPEC_URL = "https://indieweb.org/Microsub-spec"
DESIGN_REFERENCE = "API reference of microsub-server"


def client(name: str) -> str:
    """The source of a requirement that the reader app `name` relies on."""
    return f"client:{name}"


class Evidence(NamedTuple):
    """An app that relies on a behaviour, and the file of its code where that is seen."""

    app: str
    place: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One externally visible behaviour of a server.

    `id` is `<chapter>.<slug>`; `title` is a sentence that is true of a conforming server; `source` is `spec`, `design`
    or `client:<names>`, with commas between them; `reference` is a URL, a section of a page, or files of apps' code.
    `check` returns if the server conforms, and raises `Violation` or `Skip` otherwise. It is skipped unless everything
    in `needs` is given.
    """

    id: str
    title: str
    source: str
    reference: str
    level: Level
    check: Check
    needs: frozenset[Need] = frozenset()

    @property
    def group(self) -> str:
        """The first word of the source: `spec`, `client` or `design`."""
        return self.source.partition(":")[0]

    @property
    def apps(self) -> list[str]:
        """The apps that rely on it, as far as they are named."""
        return self.source.partition(":")[2].split(", ") if self.group == "client" else []


@dataclass(frozen=True, slots=True)
class Chapter:
    """Requirements on one subject, in the order in which they are checked."""

    name: str
    anchor: str = ""
    section: str = ""
    requirements: list[Requirement] = field(default_factory=list)

    def requirement(
        self, slug: str, *seen: Evidence, source: str = SPEC, level: Level = "must", needs: tuple[Need, ...] = ()
    ) -> Callable[[Check], Check]:
        """Add the decorated check as a requirement of this chapter; its docstring is the title.

        Where it was `seen` gives its source and reference.
        """
        if seen:
            source = client(", ".join(one.app for one in seen))
            reference = "; ".join(one.place for one in seen)
        elif source == SPEC:
            reference = SPEC_URL + (f"#{self.anchor}" if self.anchor else "")
        else:
            reference = f"{DESIGN_REFERENCE}: {self.section}"

        def add(check: Check) -> Check:
            title = " ".join((check.__doc__ or "").split())
            self.requirements.append(
                Requirement(f"{self.name}.{slug}", title, source, reference, level, check, frozenset(needs))
            )
            return check

        return add
