"""Forms: what was sent, and whether one of our own pages asked for it.

Every form carries a token that is made of the browser's secret cookie, the session and the path that the form goes to.
Its mask differs in each page, so that it can't be guessed from the size of compressed pages. Beside it the browser's
own word counts: `Sec-Fetch-Site` (https://www.w3.org/TR/fetch-metadata/), and `Origin` where that is missing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl

from starlette.requests import Request

from microsub.errors import Forbidden, InvalidRequest, TooLarge
from microsub.kit.http.address import origin

FIELD = "form_token"
MAX_BODY = 1 << 16
MAX_FIELDS = 500


class SentForm(Mapping[str, str]):
    """The fields of a form by name; the first value of each."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs
        self._first = dict(reversed(pairs))

    def __getitem__(self, name: str) -> str:
        return self._first[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def all(self, name: str) -> list[str]:
        """Every value of that name, such as those of ticked boxes."""
        return [value for key, value in self._pairs if key == name]

    def text(self, name: str) -> str:
        """The value without spaces around it; empty where the field is missing."""
        return self._first.get(name, "").strip()


class FormRefused(Forbidden):
    """A form that none of our pages in this browser has asked for; the description says what to do."""


async def read_form(request: Request) -> SentForm:
    """The fields of an urlencoded body. Raises TooLarge over 64 KiB, InvalidRequest for anything else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest(f"a form was expected, found '{kind[:80]}'")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge(f"the form is too large: more than {MAX_BODY} bytes")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidRequest("the form can't be read: found other than UTF-8, or too many fields") from None
    return SentForm(pairs)


def form_token(browser: str, session: str, path: str) -> str:
    """The token for a form that goes to `path`; `browser` is the secret cookie, `session` the session's id or empty."""
    mask = secrets.token_hex(8)
    return f"{mask}.{_mac(browser, session, path, mask)}"


def check_form(request: Request, form: SentForm, base: str, browser: str, session: str, path: str) -> None:
    """Make sure that one of our pages in this browser has asked for this. Raises FormRefused."""
    _check_site(request, base)
    if not browser:
        raise FormRefused(
            "Your browser sent no cookie with this form. Let it keep cookies for this site, open the page again and "
            "send the form once more."
        )
    mask, _, mac = form.get(FIELD, "").partition(".")
    if not hmac.compare_digest(mac.encode("utf-8", "replace"), _mac(browser, session, path, mask).encode()):
        raise FormRefused(
            "This form is from before you signed in or out, or from another page. Open the page again and send it "
            "once more."
        )


def _check_site(request: Request, base: str) -> None:
    site, source = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    is_foreign = (site is not None and site not in {"same-origin", "none"}) or (
        source is not None and source != origin(base)
    )
    if is_foreign:
        raise FormRefused(
            f"This form was sent from another site. Open this server's pages at {base}/ and send the form from there."
        )


def _mac(browser: str, session: str, path: str, mask: str) -> str:
    return hmac.new(browser.encode(), f"form\n{session}\n{path}\n{mask}".encode(), hashlib.sha256).hexdigest()
