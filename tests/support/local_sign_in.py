"""Steps of people who sign in with a password or passkey of the server, over the application without a network."""

from __future__ import annotations

import json
from typing import Any

from microsub.identity.local.passkeys import PasskeyAnswer
from tests.support.authenticator import Authenticator
from tests.support.readers import Instance
from tests.support.visitor import Shown, Visitor

ORIGIN = "https://reader.example"
SIGN_IN, BY_PASSWORD = "/sign-in", "/sign-in/local"
PASSWORD = "correct horse battery"
SESSION, DEVICES = "__Host-microsub-session", "__Host-microsub-devices"


async def tried(visitor: Visitor, who: str = "ann", password: str = PASSWORD, path: str = SIGN_IN) -> Shown:
    """Send the form with name and password."""
    return await visitor.submit(await visitor.get(path), BY_PASSWORD, who=who, password=password)


async def options_from(visitor: Visitor, page: Shown, begin: str, **fields: str) -> dict[str, Any]:
    """What static/passkeys.js is given for the part of the page that begins there."""
    part = next(node for node in page.tree.css("[data-passkey]") if node.attributes["data-begin"] == begin)
    token = {part.attributes["data-token-field"] or "": part.attributes["data-token"]}
    shown = await visitor.post(begin, {**fields, **token})
    assert shown.status == 200, shown.text
    assert shown.response.headers["content-type"] == "application/json"
    assert shown.response.headers["cache-control"] == "no-store"
    found: dict[str, Any] = json.loads(shown.response.text)
    return found


async def with_passkey(visitor: Visitor, device: Authenticator, path: str = SIGN_IN, **lies: Any) -> Shown:
    """Sign in by passkey."""
    page = await visitor.get(path)
    asked = await options_from(visitor, page, "/sign-in/passkey/begin")
    answer = json.dumps(device.use(asked["options"], **lies))
    return await visitor.submit(page, "/sign-in/passkey", secret=asked["secret"], answer=answer)


async def passkey_of(server: Instance, user: str = "ann") -> Authenticator:
    """A device with a passkey of the user, called Stick."""
    device = Authenticator(ORIGIN)
    passkeys = server.identity.local.passkeys
    asked = await passkeys.ask_to_make(ORIGIN, user)
    await passkeys.make(ORIGIN, user, PasskeyAnswer(asked.secret, device.make(asked.options)), "Stick", server.now)
    return device
