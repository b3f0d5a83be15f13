"""A minimal authenticator: creates passkeys and signs with them as in WebAuthn Level 2, with faults on request.

https://www.w3.org/TR/webauthn-2/#sctn-authenticator-data. ES256 keys; no attestation.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor

UP, UV, AT = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    """One device with at most one passkey. `counts` False: a synchronised passkey, whose counter stays 0."""

    origin: str
    counts: bool = True
    counter: int = 0
    handle: str = ""
    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(
        self,
        options: Mapping[str, Any],
        *,
        origin: str | None = None,
        flags: int = UP | UV,
        kind: str = "webauthn.create",
        algorithm: int = -7,
        **client: Any,
    ) -> dict[str, Any]:
        """The answer to `navigator.credentials.create`."""
        asked = options["publicKey"]
        self.handle = asked["user"]["id"]
        data = client_data(kind, asked["challenge"], origin or self.origin, **client)
        numbers = self._key.public_key().public_numbers()
        key = {1: 2, 3: algorithm, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + struct.pack(">H", len(self.id)) + self.id + cbor.encode(key)
        authenticator = self._data(asked["rp"]["id"], flags | AT) + attested
        document = cbor.encode({"fmt": "none", "attStmt": {}, "authData": authenticator})
        parts = {"clientDataJSON": b64(data), "attestationObject": b64(document), "transports": ["internal", "usb"]}
        return {"id": b64(self.id), "rawId": b64(self.id), "type": "public-key", "response": parts}

    def use(
        self,
        options: Mapping[str, Any],
        *,
        origin: str | None = None,
        party: str | None = None,
        flags: int = UP | UV,
        kind: str = "webauthn.get",
        **client: Any,
    ) -> dict[str, Any]:
        """The answer to `navigator.credentials.get`."""
        asked = options["publicKey"]
        if self.counts:
            self.counter += 1
        data = client_data(kind, asked["challenge"], origin or self.origin, **client)
        authenticator = self._data(party or asked["rpId"], flags)
        signature = self._key.sign(authenticator + hashlib.sha256(data).digest(), ec.ECDSA(hashes.SHA256()))
        parts = {
            "clientDataJSON": b64(data),
            "authenticatorData": b64(authenticator),
            "signature": b64(signature),
            "userHandle": self.handle,
        }
        return {"id": b64(self.id), "rawId": b64(self.id), "type": "public-key", "response": parts}

    def _data(self, party: str, flags: int) -> bytes:
        return hashlib.sha256(party.encode()).digest() + struct.pack(">BI", flags, self.counter)


def client_data(kind: str, challenge: str, origin: str, **more: Any) -> bytes:
    return json.dumps({"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": False, **more}).encode()


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
