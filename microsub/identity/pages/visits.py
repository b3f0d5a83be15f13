"""Visits that begin or end a session, or prove who the user is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from microsub.accounts import Sessions, SignedInPerson
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.identity.clients import Asker
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.passkeys import PasskeyMessage, relying_party
from microsub.identity.passwords import repeated_password
from microsub.identity.protocol.documents import is_own, profile_page
from microsub.web.headers import own_path, page_headers
from microsub.web.visit import PageVisit


async def sign_in(
    local: LocalSignIn, person: SignedInPerson, visit: PageVisit, *, next_: str = "", known: bool = True
) -> Response:
    """Begin a session in this browser, replacing any earlier one, and redirect to `next_`.

    `known`: the user has signed in with their own credentials here, so this browser gets its own limit of attempts.
    Raises Unauthorized if the user is disabled or gone.
    """
    agent, before = visit.request.headers.get("user-agent", ""), visit.cookie("session")
    cookie = await local.sessions.begin(person.user, person.me, person.how, agent, visit.now, instead_of=before)
    changed = visit.change_session(cookie)
    if known:
        _, devices = await asyncio.gather(changed, local.remember(person.user, visit.cookie("devices"), visit.now))
        visit.keep_cookie("devices", devices)
    else:
        await changed
    return visit.go(next_ or person.next or "/")


async def sign_in_as(local: LocalSignIn, user: str, how: str, visit: PageVisit, *, next_: str = "") -> Response:
    """`sign_in` for a user who has proven their identity in this request, or in its session."""
    return await sign_in(local, await local.person(user, how), visit, next_=next_)


async def sign_out(sessions: Sessions, visit: PageVisit) -> None:
    """End this browser's session."""
    if visit.session is not None:
        await sessions.end(visit.session.user, visit.session.id)
    await visit.change_session(None)


def asker(visit: PageVisit) -> Asker:
    """The visitor for whom this server fetches an app's metadata."""
    return Asker(visit.address, visit.user)


def has_hosted_profile(visit: PageVisit) -> bool:
    """Whether the signed-in user has no page of their own, but the one that this server provides."""
    session = visit.require_session()
    return session.me.endswith(profile_page("", session.user)) and is_own(session.me, visit.base)


# --- passwords and passkeys in forms --------------------------------------------------------------------------------


def chosen_password(visit: PageVisit) -> str:
    """The password that was entered twice. Raises InvalidRequest if the two differ."""
    return repeated_password(visit.form.get("password", ""), visit.form.get("again", ""))


def can_use_passkeys(visit: PageVisit) -> bool:
    """Whether browsers support passkeys at the address under which this one sees us."""
    return relying_party(visit.base) is not None


def passkey_question(asked: PasskeyMessage) -> Response:
    """The passkey options for the browser's script, see `static/passkeys.js`."""
    body = orjson.dumps({"secret": asked.secret, "options": asked.content})
    return Response(body, headers={**page_headers(), "content-type": "application/json"})


def passkey_answer(visit: PageVisit) -> PasskeyMessage:
    """The passkey answer that the script has put into a form. Raises InvalidRequest."""
    try:
        answer: Any = orjson.loads(visit.form.get("answer", ""))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        text = N_("The form contains no passkey response. Passkeys require JavaScript.")
        raise InvalidRequest(text)
    return PasskeyMessage(visit.form.get("secret", ""), answer)


def next_path(values: Mapping[str, str]) -> str:
    """The path to go to after a sign-in or a confirmation: one of ours, or empty."""
    return own_path(values.get("next", "")) or ""
