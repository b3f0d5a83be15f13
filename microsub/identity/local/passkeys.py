"""Passkeys of users: made, used, named, removed.

A challenge is good once, within five minutes, and only in the browser that was given the secret beside it.
"""

from __future__ import annotations

import ipaddress
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

from microsub.errors import InvalidRequest, NotImplementedHere
from microsub.identity.store.credentials import LocalCredentials, Passkey

ALGORITHMS = (-8, -7, -257)
"""EdDSA, ES256 and RS256 (COSE): one of these is known to every authenticator."""

LONGEST_ID = 1023
"""Bytes of a credential's id, by the specification."""

LONGEST_KEY = 4096
"""Bytes of id and public key together: an RSA key of 16,384 bits, the largest that is ever checked, takes half."""

_CEREMONY_MILLISECONDS = 300_000
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
class PresentedPasskey:
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


def creation_options(
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


def request_options(party: RelyingParty, challenge: bytes, held: Sequence[str] = ()) -> dict[str, Any]:
    """What `navigator.credentials.get` is given, as JSON: for these passkeys, or for any."""
    descriptors = [
        PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=websafe_decode(one)) for one in held
    ]
    options, _ = _server(party).authenticate_begin(
        descriptors or None, user_verification=UserVerificationRequirement.REQUIRED, challenge=challenge
    )
    return dict(options)


def attested(party: RelyingParty, challenge: bytes, answer: Mapping[str, Any]) -> NewPasskey:
    """The passkey that the browser made. Raises PasskeyRefused."""
    try:
        response = RegistrationResponse.from_dict(_readable(answer))
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


def presented_credential(answer: Mapping[str, Any]) -> PresentedPasskey:
    """Which passkey, of whom, an answer claims to come from. Raises PasskeyRefused where it is none."""
    try:
        response = AuthenticationResponse.from_dict(_readable(answer))
        return PresentedPasskey(websafe_encode(response.raw_id), (response.response.user_handle or b"").hex())
    except _UNREADABLE:
        raise PasskeyRefused("the passkey's answer doesn't hold") from None


def verified_count(party: RelyingParty, challenge: bytes, key: bytes, count: int, answer: Mapping[str, Any]) -> int:
    """The passkey's counter from now on, where the answer is right. Raises PasskeyRefused.

    A counter that doesn't grow may be that of a copy. Passkeys that are kept in sync have none, and say 0.
    """
    try:
        response = AuthenticationResponse.from_dict(_readable(answer))
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
    server.timeout = _CEREMONY_MILLISECONDS  # type: ignore[assignment]  # declared as None alone
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


def _transports(answer: Mapping[str, Any]) -> tuple[str, ...]:
    listed = answer["response"].get("transports") or ()
    return tuple(sorted(_TRANSPORTS.intersection(one for one in listed if isinstance(one, str))))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class PasskeyQuestion:
    """What goes to a browser: `options` for `navigator.credentials`, and a secret that comes back with the answer."""

    options: Mapping[str, Any]
    secret: str


@dataclass(frozen=True, slots=True)
class PasskeyAnswer:
    """What comes back: the secret of `PasskeyQuestion`, and the answer of `navigator.credentials` as JSON has it."""

    secret: str
    answer: Mapping[str, Any]


class Passkeys:
    """Passkeys for our own pages. `base` is the address at which the browser sees them."""

    def __init__(self, store: LocalCredentials) -> None:
        self._store = store

    # --- making one

    async def ask_to_make(self, base: str, user: str) -> PasskeyQuestion:
        """Begin to make a passkey of the user, who has been recognised. Raises NotFound, NotImplementedHere."""
        party = _party(base)
        challenge = secrets.token_bytes(32)
        held = (await self._store.overview(user)).passkeys
        handle = await self._store.handle(user)
        options = creation_options(party, challenge, user, handle, [(one.id, one.transports) for one in held])
        secret = await self._store.begin_ceremony(_ceremony("make", challenge, user))
        return PasskeyQuestion(options, secret)

    async def make(
        self,
        base: str,
        user: str,
        answered: PasskeyAnswer,
        name: str,
        now: float,
        *,
        invitation: str | None = None,
    ) -> Passkey:
        """Keep the passkey that the browser made for `ask_to_make` of the same user; `invitation` is used up by it.

        Raises PasskeyRefused, InvalidRequest (a name that can't be taken, too many, known already, an invitation
        that is spent), NotFound.
        """
        party = _party(base)
        name = passkey_name(name)
        about = await self._store.end_ceremony(answered.secret)
        if about is None or (about["what"], about["user"]) != ("make", user):
            raise PasskeyRefused("the passkey's answer came too late, or twice")
        new = attested(party, websafe_decode(about["challenge"]), answered.answer)
        passkey = Passkey(new.id, name, new.key, new.count, now, None, new.transports)
        await self._store.add_passkey(user, passkey, invitation=invitation)
        return passkey

    # --- using one

    async def ask_to_use(self, base: str, user: str = "") -> PasskeyQuestion:
        """Begin to recognise anybody, or one certain user. Raises NotImplementedHere."""
        party = _party(base)
        challenge = secrets.token_bytes(32)
        held = (await self._store.overview(user)).passkeys if user else ()
        secret = await self._store.begin_ceremony(_ceremony("use", challenge, user))
        return PasskeyQuestion(request_options(party, challenge, [one.id for one in held]), secret)

    async def use(self, base: str, answered: PasskeyAnswer, now: float) -> str:
        """The user whose passkey answered `ask_to_use`. Raises PasskeyRefused.

        Counting attempts is left to the caller.
        """
        party = _party(base)
        about = await self._store.end_ceremony(answered.secret)
        if about is None or about["what"] != "use":
            raise PasskeyRefused("the passkey's answer came too late, or twice")
        claim = presented_credential(answered.answer)
        # Where a certain user was asked for, an authenticator may leave the handle out.
        user = await self._store.user_of(claim.handle) if claim.handle else about["user"]
        if not user or (about["user"] and user != about["user"]):
            raise PasskeyRefused("this passkey isn't known here")
        passkey = await self._store.passkey(user, claim.id)
        if passkey is None:
            raise PasskeyRefused("this passkey isn't known here")
        count = verified_count(party, websafe_decode(about["challenge"]), passkey.key, passkey.count, answered.answer)
        if not await self._store.change_passkey(user, passkey, replace(passkey, count=count, used=now)):
            raise PasskeyRefused("this passkey was used or removed at the same moment")
        return str(user)

    # --- what there is

    async def rename(self, user: str, credential_id: str, name: str) -> bool:
        """Give a passkey another name; whether there is such a one. Raises InvalidRequest."""
        name = passkey_name(name)
        passkey = await self._store.passkey(user, credential_id)
        return passkey is not None and await self._store.change_passkey(user, passkey, replace(passkey, name=name))

    async def remove(self, user: str, credential_id: str) -> bool:
        """Remove a passkey; whether there was one."""
        return await self._store.remove_passkey(user, credential_id)


def _party(base: str) -> RelyingParty:
    party = relying_party(base)
    if party is None:
        raise NotImplementedHere(
            "there are no passkeys at this address: the server needs a name and https (MICROSUB_BASE_URL)"
        )
    return party


def passkey_name(name: str) -> str:
    """A passkey's name as it is kept. Raises InvalidRequest."""
    text = " ".join(name.split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise InvalidRequest(f"the name of a passkey has 1 to {LONGEST_NAME} characters")
    return text


def _ceremony(what: str, challenge: bytes, user: str) -> dict[str, str]:
    return {"what": what, "challenge": websafe_encode(challenge), "user": user}
