"""Forms of this server's pages: their fields, the browser's secret cookie, and CSRF tokens."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request

from microsub.base.digests import is_same, keyed_digest
from microsub.base.errors import Forbidden, InvalidRequest, TooLarge
from microsub.base.texts import N_, Sentence, size
from microsub.web.headers import client_of, origin
from microsub.web.params import form_with_files, is_multipart, read_body
from microsub.web.types import FORM

FIELD = "form_token"
MAX_BODY = 1 << 16
MAX_FIELDS = 500

_OURS = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` for our pages and for the user's own doing."""


class SentForm(ImmutableMultiDict[str, str]):
    """The fields of a form by name. `getlist` gives all values of a field, such as ticked boxes."""

    def text(self, name: str) -> str:
        """The value without spaces around it; empty if the field is missing."""
        return str(self.get(name, "")).strip()


class FormRefused(Forbidden):
    """A form with a wrong or missing CSRF token. The description says what to do."""


async def read_form(request: Request) -> SentForm:
    """The fields of an urlencoded body.

    Raises TooLarge over 64 KiB, InvalidRequest for anything else, also for an incomplete body.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise InvalidRequest(Sentence("a form was expected, found '{kind}'", kind=kind[:80]))
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise TooLarge(Sentence("the form is too large: more than {most}", most=size(MAX_BODY)))
    except ClientDisconnect:
        raise InvalidRequest(N_("the form is incomplete: the connection was closed before its end")) from None
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidRequest(N_("the form can't be read: it isn't UTF-8, or has too many fields")) from None
    return SentForm(pairs)


async def read_upload(request: Request, name: str, most: int) -> tuple[SentForm, bytes]:
    """The fields of a form with a file, and the content of the file field `name`, at most `most` bytes, or b"".

    Raises TooLarge, and InvalidRequest for anything else.
    """
    try:
        body = await read_body(request.scope, request.receive, most + MAX_BODY)
    except TooLarge:
        text = N_("the file is too large: this server accepts at most {most}")
        raise TooLarge(Sentence(text, most=size(most))) from None
    if not is_multipart(body):
        raise InvalidRequest("a form with a file was expected, sent as multipart/form-data")
    fields, files = await form_with_files(body, client_of(request.scope), 1)
    return SentForm(fields), dict(files).get(name, b"")


def form_token(browser: str, session: str, path: str) -> str:
    """The CSRF token of a form that is sent to `path`.

    `browser` is the secret cookie, `session` the session's id or empty.
    """
    mask = secrets.token_hex(8)
    return f"{mask}.{_mac(browser, session, path, mask)}"


def began_elsewhere(request: Request, base: str) -> bool:
    """Whether another site led the browser to this page, not its user or one of our pages.

    Content shared with the installed app and addresses that are typed or bookmarked come from the user.
    """
    referrer = request.headers.get("referer", "")
    known = "none" if not referrer or f"{referrer}/".startswith(f"{origin(base)}/") else "cross-site"
    return request.headers.get("sec-fetch-site", known) not in _OURS


def check_form(request: Request, form: SentForm, base: str, browser: str, session: str, path: str) -> None:
    """Check the CSRF token, and the site that sent the form. Raises FormRefused."""
    site, source = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin", origin(base))
    if site not in _OURS or source != origin(base):
        raise FormRefused(
            Sentence(
                "This form was sent from another site. Open {base}/ and send the form from there.",
                base=base,
            )
        )
    if not browser:
        raise FormRefused(
            N_(
                "Your browser sent no cookie with this form. Allow cookies for this site, "
                "open the page again and resubmit the form."
            )
        )
    mask, _, mac = form.text(FIELD).partition(".")
    if not is_same(mac, _mac(browser, session, path, mask)):
        raise FormRefused(
            N_(
                "This form has expired, because you have signed in or out, or is from another page. "
                "Open the page again and resubmit the form."
            )
        )


def _mac(browser: str, session: str, path: str, mask: str) -> str:
    return keyed_digest(browser, f"form\n{session}\n{path}\n{mask}")


def cookie_value(headers: Iterable[str], name: str) -> str:
    """The last cookie of that name, as written; empty for none.

    Our cookies need no quotes; removing those of others, as Starlette does, may take time with the square of a length.
    Other Unicode blanks are part of the name: browsers let a neighbouring domain set a cookie whose name has one before
    `__Host-`.
    """
    found = re.findall(rf";[ \t]*{name}[ \t]*=([^;]*)", f";{';'.join(headers)}")
    return str(found[-1]).strip() if found else ""
