"""What a browser is asked when a passkey is made or used, and whether its answer holds. Pure.

https://www.w3.org/TR/webauthn-2/ (7.1 and 7.2, Relying Party operations), by the library `fido2`. The user is always
verified (a finger, a PIN), passkeys can be found without a name (discoverable), and attestation isn't asked for: what
device somebody keeps their key in is their own affair.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from fido2.cose import UnsupportedKey
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from microsub.errors import InvalidRequest

ALGORITHMS = (-8, -7, -257)
"""EdDSA, ES256 and RS256 (COSE): one of these is known to every authenticator."""

LONGEST_ID = 1023
"""Bytes of a credential's id, by the specification."""

LONGEST_KEY = 4096
"""Bytes of id and public key together: an RSA key of 16,384 bits, the largest that is ever checked, takes half."""

_TIMEOUT = 300_000
_TRANSPORTS = frozenset({"usb", "nfc", "ble", "smart-card", "hybrid", "internal"})
# What the library raises for an answer that isn't one; it reads JSON, CBOR and keys that strangers made.
_UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError, RecursionError),
    *(NotImplementedError, struct.error, InvalidSignature, UnsupportedAlgorithm),
)


class PasskeyRefused(InvalidRequest):
    """The answer of a browser or authenticator doesn't hold; the description says no more than that."""


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """Who asks: the host of our pages, and the one origin that answers may come from."""

    id: str
    origin: str


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """What an authenticator made: the credential's id in base64url, id and public key as attested, its counter."""

    id: str
    key: bytes
    count: int
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Presented:
    """What an answer claims, before anything of it is checked: a credential's id, and the handle of its user."""

    id: str
    handle: str


def relying_party(base_url: str | None) -> RelyingParty | None:
    """Who asks for passkeys at that address; None where browsers have none: without https, or at an IP address.

    `http://localhost` counts as safe, as it does for browsers.
    """
    parts = urlsplit(base_url or "")
    host = parts.hostname or ""
    if not host or _is_address(host) or (parts.scheme != "https" and host != "localhost"):
        return None
    host = host.encode("idna").decode() if not host.isascii() else host
    standard = {"https": 443, "http": 80}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, standard) else ""
    return RelyingParty(host, f"{parts.scheme}://{host}{port}")


def creation(
    party: RelyingParty, challenge: bytes, user: str, handle: str, held: Sequence[tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    """What `navigator.credentials.create` is given, as JSON. `held` are id and transports of the user's passkeys."""
    options, _ = _server(party).register_begin(
        PublicKeyCredentialUserEntity(id=bytes.fromhex(handle), name=user, display_name=user),
        [
            PublicKeyCredentialDescriptor(
                type=PublicKeyCredentialType.PUBLIC_KEY,
                id=websafe_decode(one),
                transports=[AuthenticatorTransport(way) for way in transports] or None,
            )
            for one, transports in held
        ],
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(options)


def request(party: RelyingParty, challenge: bytes, held: Sequence[str] = ()) -> dict[str, Any]:
    """What `navigator.credentials.get` is given, as JSON: for these passkeys, or for any."""
    descriptors = [
        PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=websafe_decode(one)) for one in held
    ]
    options, _ = _server(party).authenticate_begin(
        descriptors or None, user_verification=UserVerificationRequirement.REQUIRED, challenge=challenge
    )
    return dict(options)


def made(party: RelyingParty, challenge: bytes, answer: Mapping[str, Any]) -> NewPasskey:
    """The passkey that the browser made. Raises PasskeyRefused."""
    try:
        response = RegistrationResponse.from_dict(_plain(answer))
        _refuse_frames(response.response.client_data.cross_origin)
        data = _server(party).register_complete(_state(challenge), response)
        held = data.credential_data
        if held is None or isinstance(held.public_key, UnsupportedKey) or held.public_key[3] not in ALGORITHMS:
            raise PasskeyRefused("the passkey has a key of a kind that isn't known here")
        sizes_fit = 0 < len(held.credential_id) <= LONGEST_ID and len(held) <= LONGEST_KEY
        if response.raw_id != held.credential_id or not sizes_fit:
            raise PasskeyRefused("the passkey's answer doesn't hold")
        return NewPasskey(websafe_encode(held.credential_id), bytes(held), data.counter, _transports(answer))
    except _UNREADABLE:
        raise PasskeyRefused("the passkey's answer doesn't hold") from None


def presented(answer: Mapping[str, Any]) -> Presented:
    """Which passkey, of whom, an answer claims to come from. Raises PasskeyRefused where it is none."""
    try:
        response = AuthenticationResponse.from_dict(_plain(answer))
        return Presented(websafe_encode(response.raw_id), (response.response.user_handle or b"").hex())
    except _UNREADABLE:
        raise PasskeyRefused("the passkey's answer doesn't hold") from None


def used(party: RelyingParty, challenge: bytes, key: bytes, count: int, answer: Mapping[str, Any]) -> int:
    """The passkey's counter from now on, where the answer is right. Raises PasskeyRefused.

    A counter that doesn't grow may be that of a copy. Passkeys that are kept in sync have none, and say 0.
    """
    try:
        response = AuthenticationResponse.from_dict(_plain(answer))
        _refuse_frames(response.response.client_data.cross_origin)
        _server(party).authenticate_complete(_state(challenge), [AttestedCredentialData(key)], response)
        counter = int(response.response.authenticator_data.counter)
    except _UNREADABLE:
        raise PasskeyRefused("the passkey's answer doesn't hold") from None
    if (counter or count) and counter <= count:
        raise PasskeyRefused("the passkey's counter doesn't grow: there may be a copy of it")
    return counter


def _server(party: RelyingParty) -> Fido2Server:
    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=party.id, name=party.id),
        attestation=AttestationConveyancePreference.NONE,
        # The library's own check lets other ports and subdomains pass.
        verify_origin=lambda origin: origin == party.origin,
    )
    server.timeout = _TIMEOUT  # type: ignore[assignment]  # declared as None alone
    server.allowed_algorithms = [
        PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=alg) for alg in ALGORITHMS
    ]
    return server


def _state(challenge: bytes) -> dict[str, Any]:
    return {"challenge": websafe_encode(challenge), "user_verification": UserVerificationRequirement.REQUIRED}


def _refuse_frames(cross_origin: object) -> None:
    """Our pages are never shown inside another site's."""
    if cross_origin is not False:
        raise PasskeyRefused("the passkey was used inside another site's page")


def _plain(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an answer that are read here."""
    if answer["type"] != "public-key":
        raise ValueError("another type")
    parts = answer["response"]
    names = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")
    kept = {name: parts[name] for name in names if parts.get(name) is not None}
    if not all(isinstance(value, str) for value in (answer["id"], answer["rawId"], *kept.values())):
        raise ValueError("not text")
    return {"id": answer["id"], "rawId": answer["rawId"], "type": answer["type"], "response": kept}


def _transports(answer: Mapping[str, Any]) -> tuple[str, ...]:
    listed = answer["response"].get("transports") or ()
    return tuple(sorted(_TRANSPORTS.intersection(one for one in listed if isinstance(one, str))))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
