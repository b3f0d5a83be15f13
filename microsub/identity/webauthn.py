"""Checks the answers of browsers and authenticators for passkeys (https://www.w3.org/TR/webauthn-3/). Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from fido2.cose import UnsupportedKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    RegistrationResponse,
)

from microsub.accounts import Passkey
from microsub.base.digests import base64url
from microsub.base.texts import N_
from microsub.base.urls import host_of
from microsub.identity.passkeys import ALGORITHMS, PasskeyRefused

LONGEST_ID = 1023
"""Maximum bytes of a credential's id, by the specification."""

LONGEST_KEY = 4096
"""Bytes of id and public key together: an RSA key of 16,384 bits, the largest supported, needs half."""

_TRANSPORTS = frozenset({"usb", "nfc", "ble", "smart-card", "hybrid", "internal"})
_INVALID = N_("the passkey's response is invalid")


def attested(party: str, challenge: bytes, answer: Mapping[str, Any], name: str, now: float) -> Passkey:
    """The passkey that the browser created, with a name and the Unix time. Raises PasskeyRefused."""
    try:
        response = RegistrationResponse.from_dict(_readable(answer))
        _refuse_frames(response.response.client_data.cross_origin)
        data = _server(party).register_complete(_state(challenge), response)
        held = data.credential_data
        if held is None or isinstance(held.public_key, UnsupportedKey) or held.public_key[3] not in ALGORITHMS:
            raise PasskeyRefused(N_("this kind of passkey is not supported"))
        sizes_fit = 0 < len(held.credential_id) <= LONGEST_ID and len(held) <= LONGEST_KEY
        if response.raw_id != held.credential_id or not sizes_fit:
            raise PasskeyRefused(_INVALID)
        listed = answer["response"].get("transports") or ()
        transports = tuple(sorted(_TRANSPORTS.intersection(one for one in listed if isinstance(one, str))))
        return Passkey(base64url(held.credential_id), name, bytes(held), data.counter, now, None, transports)
    except _unreadable():
        raise PasskeyRefused(_INVALID) from None


def presented_credential(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The id of the passkey that an answer claims to use, and its user's handle.

    Raises PasskeyRefused.
    """
    try:
        response = AuthenticationResponse.from_dict(_readable(answer))
        return base64url(response.raw_id), (response.response.user_handle or b"").hex()
    except _unreadable():
        raise PasskeyRefused(_INVALID) from None


def verified_count(party: str, challenge: bytes, key: bytes, count: int, answer: Mapping[str, Any]) -> int:
    """The passkey's new counter, if the answer is valid. Raises PasskeyRefused.

    A counter that doesn't grow may be that of a copy. Synchronised passkeys have no counter, and return 0.
    """
    try:
        response = AuthenticationResponse.from_dict(_readable(answer))
        _refuse_frames(response.response.client_data.cross_origin)
        _server(party).authenticate_complete(_state(challenge), [AttestedCredentialData(key)], response)
        counter = int(response.response.authenticator_data.counter)
    except _unreadable():
        raise PasskeyRefused(_INVALID) from None
    if (counter or count) and counter <= count:
        raise PasskeyRefused(N_("the passkey's counter didn't increase: the passkey may have been copied"))
    return counter


def _server(party: str) -> Fido2Server:
    return Fido2Server(
        PublicKeyCredentialRpEntity(id=host_of(party), name=host_of(party)),
        attestation=AttestationConveyancePreference.NONE,
        # The library's own check accepts other ports and subdomains.
        verify_origin=lambda origin: origin == party,
    )


def _unreadable() -> tuple[type[Exception], ...]:
    """Convert the errors that the library raises for invalid responses, which are foreign input."""
    return (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError, RecursionError),
        *(NotImplementedError, struct.error, InvalidSignature, UnsupportedAlgorithm),
    )


def _state(challenge: bytes) -> dict[str, Any]:
    return {"challenge": base64url(challenge), "user_verification": "required"}


def _refuse_frames(cross_origin: object) -> None:
    """Refuse answers from frames: our pages are never shown inside another site's."""
    if cross_origin is not False:
        raise PasskeyRefused(N_("the passkey was used inside another site's page"))


def _readable(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an answer that are read here."""
    if answer["type"] != "public-key":
        raise ValueError("another type")
    parts = answer["response"]
    names = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")
    kept = {name: parts[name] for name in names if parts.get(name) is not None}
    if not all(isinstance(value, str) for value in (answer["id"], answer["rawId"], *kept.values())):
        raise ValueError("not text")
    return {"id": answer["id"], "rawId": answer["rawId"], "type": answer["type"], "response": kept}
