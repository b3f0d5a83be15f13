"""Templates, static files and texts of pages, found in folders that features bring.

A folder may have `templates/`, `static/` and `texts/`. All folders share their names, so a feature can extend another
one's template. Texts are gettext catalogues, one file for each language.
"""

from __future__ import annotations

import asyncio
import gettext
import gzip
import io
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub import (
    __version__,
    web,  # jinja2 is loaded with the first page
)
from microsub.base.clock import DAY, HOUR, MINUTE
from microsub.base.digests import sha256_hex
from microsub.base.texts import N_ as N_  # noqa: PLC0414 - pages take it from here
from microsub.base.texts import SentenceTable, program, translated
from microsub.web.looks import Looks, rule_of

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
"""Templates, static files and texts that all pages share."""
LANGUAGES = {"en": "English", "de": "Deutsch"}
"""The languages of pages with their own names; the first is the language of the code."""
DEFAULT_LANGUAGE = "en"
SHEET = "pages.css"
"""The style sheet of all pages; that of an instance with a colour of its own is made from it."""

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
_YEAR = 31_536_000
_DRAWN = 64
"""Parts of pages that are kept, of some 8 KB each: `{{ drawn_once(file, macro, argument) }}`."""
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
"""In an `Accept-Encoding` header that accepts it (RFC 9110, 12.5.3)."""
_COMMENTS = re.compile(rb"(?ms)^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/)$")
"""Lines of comments in a script, which browsers don't get; others keep their numbers."""
_SHORT, _LONG, _LEVEL, _LONGEST_NAME = 1400, 200_000, 4, 100
"""Characters of a page that needs no compression, and of one that is compressed in a thread; the level, which takes a
millisecond for 100 KB.
"""


@cache
def _static_files(folders: tuple[Path, ...]) -> tuple[dict[str, tuple[bytes, str]], dict[str, str]]:
    """The content and type of each file in `static/`, and its mark, by names.

    A mark is the beginning of a SHA-256. All scripts have the same one, because they import each other by name.
    """
    paths = sorted(path for folder in folders for path in (folder / "static").glob("*"))
    files = {path.name: (_body(path), _KINDS[path.suffix]) for path in paths if path.suffix in _KINDS}
    marks = {name: sha256_hex(body)[:12] for name, (body, _) in files.items()}
    scripts = [name for name in files if name.endswith(".js")]
    return files, marks | dict.fromkeys(scripts, sha256_hex("".join(marks[name] for name in scripts))[:12])


def _body(path: Path) -> bytes:
    body = path.read_bytes()
    return _COMMENTS.sub(lambda found: b"\n" * found[0].count(b"\n"), body) if path.suffix == ".js" else body


class Templates:
    """The templates of `folders`, and the files that pages refer to.

    `prefix` is put before each path of this server; `values` are known to all templates.
    """

    def __init__(self, folders: Sequence[Path], prefix: str = "", **values: Any) -> None:
        self._folders = folders
        self._values = values
        self._prefix = prefix
        self.files, self.marks = _static_files(tuple(folders))
        """Each file's content and its type, and the part of its address that changes with its content, by name."""
        self.environment: Callable[[str], Environment] = cache(self._environment)
        self.texts: Callable[[str], gettext.NullTranslations] = cache(self._texts)

    def render(self, template: str, values: Mapping[str, Any], language: str = DEFAULT_LANGUAGE) -> str:
        """The page as text. A missing value that the template uses is a bug."""
        return self.environment(language).get_template(template).render(values)

    def macro(self, template: str, name: str, language: str) -> Callable[..., str]:
        """A macro of a template that uses only its arguments. It returns HTML."""
        found: Callable[..., str] = getattr(self.environment(language).get_template(template).module, name)
        return found

    def href(self, path: str) -> str:
        """A path of this server for use in a link."""
        return self._prefix + path

    def static(self, name: str) -> str:
        """The address of a file in `static/`, which changes with the file. KeyError is a bug."""
        return f"{self._prefix}/static/{self.marks[name]}/{name}"

    def sheet(self, looks: Looks) -> str:
        """The address of the style sheet of all pages, with the instance's colour."""
        return f"{self._prefix}/static/{self.marks[SHEET]}/{looks.sheet}" if looks.sheet else self.static(SHEET)

    def translated(self, text: object, language: str) -> str:
        """A text of the program in that language, or unchanged without a translation."""
        known = _sentences().found(text) if isinstance(text, str) else text
        return translated(known, self.texts(language).gettext)

    def _texts(self, language: str) -> gettext.NullTranslations:
        """The texts of all folders in that language, with the code's texts as fallback."""
        found = gettext.NullTranslations()
        for path in sorted(path for folder in self._folders for path in (folder / "texts").glob(f"{language}.mo")):
            with path.open("rb") as file:
                catalogue = gettext.GNUTranslations(file)
            catalogue.add_fallback(found)
            found = catalogue
        return found

    def _environment(self, language: str) -> Environment:
        texts = self.texts(language)
        made = web.environment_of([folder / "templates" for folder in self._folders], texts.gettext)
        made.install_gettext_callables(texts.gettext, texts.ngettext, newstyle=True)  # type: ignore[attr-defined]
        made.globals.update(href=self.href, static=self.static, sheet=self.sheet, figure=figure, program=program)
        made.globals.update(version=__version__, language=language, **self._values)
        made.globals["drawn_once"] = lru_cache(_DRAWN)(lambda file, name, *by: self.macro(file, name, language)(*by))
        made.filters.update(
            moment=lambda seconds: _time_element(seconds, "%Y-%m-%dT%H:%M:%SZ", moment(seconds, texts.gettext)),
            day=lambda seconds: _time_element(seconds, "%Y-%m-%d", day(seconds, texts.gettext)),
            age=lambda seconds, now: _time_element(
                seconds, "%Y-%m-%dT%H:%M:%SZ", age(now - seconds, texts.gettext), moment(seconds, texts.gettext)
            ),
            translated=lambda text: self.translated(text, language),
            sentence=sentence,
            playing_time=playing_time,
        )
        return made


@cache
def _sentences() -> SentenceTable:
    """Messages of code without access to translations."""
    return SentenceTable.read(Path(__file__).with_name("sentences.toml"))


_MONTHS = (
    *(N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June")),
    *(N_("July"), N_("August"), N_("September"), N_("October"), N_("November"), N_("December")),
)


def day(seconds: float, translate: Callable[[str], str] = str) -> str:
    """The day of a Unix time in UTC, for people: `21 November 2026`."""
    time = datetime.fromtimestamp(seconds, UTC)
    form = translate(N_("{day} {month} {year}"))
    return form.format(day=time.day, month=translate(_MONTHS[time.month - 1]), year=time.year)


def moment(seconds: float, translate: Callable[[str], str] = str) -> str:
    """A Unix time for people: `21 November 2026, 09:30 UTC`."""
    return f"{day(seconds, translate)}, {datetime.fromtimestamp(seconds, UTC):%H:%M} UTC"


def age(seconds: float, translate: Callable[[str], str] = str) -> str:
    """A time that has passed, short for people: `3 h`. Less than a minute, and the future, is `now`."""
    length, unit = next((one for one in _AGES if seconds >= one[0]), (MINUTE, N_("now")))
    return translate(unit).format(number=int(seconds // length))


_AGES = (
    *((365 * DAY, N_("{number} y")), (30 * DAY, N_("{number} mo")), (DAY, N_("{number} d")), (HOUR, N_("{number} h"))),
    (MINUTE, N_("{number} min")),
)


def _time_element(seconds: float, form: str, text: str, exact: str = "") -> Markup:
    """A time as HTML; `exact` says what an age stands for.

    `times.js` shows it in the browser's time zone, but leaves whole days and ages as they are.
    """
    time = f"{datetime.fromtimestamp(int(seconds), UTC):{form}}"
    title = f' title="{escape(exact)}" data-age' if exact else ""
    return Markup(f'<time datetime="{time}"{title}>{escape(text)}</time>')  # noqa: S704 - what isn't ours is escaped


def playing_time(seconds: float) -> str:
    """A place in a recording, as players show it: `1:06`, or `1:02:03` after the first hour."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def figure(number: float) -> str:
    """A whole number with narrow spaces between thousands, which are right in all languages: `12 345`."""
    return f"{round(number):,}".replace(",", "\u202f")


def sentence(text: str) -> str:
    """A text with a capital letter and a full stop. A host name at its beginning stays as it is."""
    begins_with_name = "." in text.partition(" ")[0].rstrip(".")
    begun = text if begins_with_name else text[:1].upper() + text[1:]
    return begun + ("" if begun.endswith((".", "?", "!")) else ".")


def preferred_language(accepted: str) -> str:
    """The language of pages that an `Accept-Language` header prefers (RFC 9110, 12.5.4)."""
    return max(_weights(accepted[:1000]), default=(0.0, 0, DEFAULT_LANGUAGE))[2]


def _weights(accepted: str) -> Iterable[tuple[float, int, str]]:
    """Weight, negated position and name of each language of pages in the header."""
    for place, part in enumerate(accepted.split(",")):
        name, _, parameter = part.strip().lower().partition(";")
        language = name.strip().partition("-")[0]
        weight = parameter.strip().removeprefix("q=")
        value = float(weight) if weight.replace(".", "", 1).isdecimal() and weight.isascii() else 1.0
        if language in LANGUAGES and value > 0:
            yield value, -place, language


def accepts_gzip(request: Request) -> bool:
    """Whether the browser reads gzip."""
    return _GZIP.search(request.headers.get("accept-encoding", "")) is not None


def html_response(text: str, status: int, headers: Mapping[str, str], request: Request) -> Response:
    """A page; compressed if it was asked for by GET from a browser that reads that.

    Its length would give away secrets beside what others have written (https://breachattack.com). Those of a page are
    the tokens of its forms, which differ each time; a name of random length in front hides a few bytes more or less.
    Replies to forms aren't compressed, because some show a secret.
    """
    more = {"vary": "Accept-Encoding"}
    if request.method == "GET" and len(text) > _SHORT and accepts_gzip(request):
        more["content-encoding"] = "gzip"
        if len(text) > _LONG:
            return _LongPage(text, status, {**headers, **more})
        return HTMLResponse(_compressed(text.encode()), status, {**headers, **more})
    return HTMLResponse(text, status, {**headers, **more})


class _LongPage(HTMLResponse):
    """A page that is compressed in a thread when it is sent: a post of megabytes would take the event loop for long."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body = await asyncio.to_thread(_compressed, bytes(self.body))
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def _compressed(body: bytes) -> bytes:
    packed = io.BytesIO()
    name = "-" * (1 + secrets.randbelow(_LONGEST_NAME))
    with gzip.GzipFile(name, "wb", _LEVEL, packed, mtime=0) as file:
        file.write(body)
    return packed.getvalue()


def static_route(templates: Templates) -> Route:
    """The route of static files. Files requested by a page of another version are served, but not cached.

    Texts are compressed.
    """
    compressed = lru_cache(maxsize=256)(gzip.compress)

    async def static(request: Request) -> Response:
        name, mark = request.path_params["file"], request.path_params["mark"]
        if name in templates.files:
            body, kind = templates.files[name]
            is_current = mark == templates.marks[name]
        elif (colored := rule_of(name)) is not None:
            body, kind = templates.files[SHEET]
            body, is_current = body + colored, mark == templates.marks[SHEET]
        else:
            raise HTTPException(404)
        keep = f"public, max-age={_YEAR}, immutable" if is_current else "no-cache"
        headers = {"cache-control": keep, "content-type": kind, "x-content-type-options": "nosniff"}
        if kind.startswith("text/"):
            headers["vary"] = "Accept-Encoding"
            if accepts_gzip(request):
                body, headers["content-encoding"] = compressed(body), "gzip"
        return Response(body, headers=headers)

    return Route("/static/{mark}/{file}", static, methods=["GET"])
