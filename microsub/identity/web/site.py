"""What every page needs, made once for the application."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from microsub import __version__
from microsub.kit.http.address import PublicAddress
from microsub.surface import IdentityServices, Services

_HERE = Path(__file__).parent
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of ours as it is served; `mark` is the beginning of its SHA-256."""

    body: bytes
    content_type: str
    mark: str


class Templates:
    """The templates, and the files that pages refer to. `prefix` stands before each path of ours."""

    def __init__(self, prefix: str = "") -> None:
        self.files = _static_files()
        self._prefix = prefix
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(href=self.href, static=self.static, version=__version__)
        self._environment.filters.update(moment=moment)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """The page as text. A value that a template asks for and isn't given is a bug."""
        return self._environment.get_template(template).render(values)

    def href(self, path: str) -> str:
        """A path of ours as it stands in a link."""
        return self._prefix + path

    def static(self, name: str) -> str:
        """The address of a file in `static/`; another one whenever the file changes."""
        return f"{self._prefix}/static/{name}?v={self.files[name].mark}"


def moment(seconds: float) -> str:
    """A Unix time for people: `21 November 2026, 09:30 UTC`."""
    time = datetime.fromtimestamp(seconds, UTC)
    return f"{time.day} {time:%B %Y, %H:%M} UTC"


def _static_files() -> dict[str, StaticFile]:
    found = {}
    for path in sorted((_HERE / "static").iterdir()):
        if path.suffix in _KINDS:
            body = path.read_bytes()
            found[path.name] = StaticFile(body, _KINDS[path.suffix], hashlib.sha256(body).hexdigest()[:12])
    return found


@dataclass(frozen=True, slots=True)
class PageSite:
    """Services, templates, and the address under which people see them."""

    services: Services
    address: PublicAddress
    pages: Templates

    @property
    def identity(self) -> IdentityServices:
        """The use cases of identity."""
        return self.services.identity


def make_site(services: Services, base_url: str | None) -> PageSite:
    """The site for an application that the outside sees at `base_url`."""
    address = PublicAddress(base_url)
    return PageSite(services, address, Templates(address.prefix))


def static_routes(site: PageSite) -> list[Route]:
    """The route of this module."""

    async def static(request: Request) -> Response:
        file = site.pages.files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        headers = {"etag": f'"{file.mark}"', "cache-control": "public, max-age=604800"}
        headers |= {"content-type": file.content_type, "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers)

    return [Route("/static/{name}", static, methods=["GET"])]
