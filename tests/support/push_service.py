"""A push service on 127.0.0.1, and browsers that decrypt its messages, based only on RFC 8291 and RFC 8188."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.web import Answer, Asked, Publisher

Private = ec.EllipticCurvePrivateKey


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def hkdf(salt: bytes, keying: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869, for at most one block."""
    return hmac.digest(hmac.digest(salt, keying, hashlib.sha256), info + b"\x01", hashlib.sha256)[:length]


@dataclass
class PushedBrowser:
    """A browser with a subscription: its keys and its messages."""

    address: str
    private: Private = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    @property
    def fields(self) -> dict[str, str]:
        """The form fields, as our script fills them in."""
        public = encoded(point(self.private.public_key()))
        return {"address": self.address, "public": public, "secret": encoded(self.secret)}

    def decrypt(self, body: bytes) -> bytes:
        """The text of a message with one record."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, sealed = body[21 : 21 + length], body[21 + length :]
        assert (size, length) == (4096, 65)
        assert len(body) <= 4096
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        own = point(self.private.public_key())
        shared = self.private.exchange(ec.ECDH(), key)
        keying = hkdf(self.secret, shared, b"WebPush: info\0" + own + sender, 32)
        opened = AESGCM(hkdf(salt, keying, b"Content-Encoding: aes128gcm\0", 16)).decrypt(
            hkdf(salt, keying, b"Content-Encoding: nonce\0", 12), sealed, None
        )
        text, delimiter, padding = opened.rpartition(b"\x02")
        assert delimiter
        assert not padding.strip(b"\0")
        return text


@dataclass
class PushService:
    """Accepts messages for one browser and answers with `status`."""

    site: Publisher
    path: str = "/push/1"
    status: int = 201
    headers: list[tuple[str, str]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.browser = PushedBrowser(self.site.serve(self.path, self._take))

    def _take(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return Answer(status=self.status, headers=self.headers)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages, as the browser decrypts them."""
        return [json.loads(self.browser.decrypt(asked.body)) for asked in self.asked]

    def take(self) -> list[tuple[str, str]]:
        """Title and text of the new messages since the last call."""
        found = [(one["title"], one["body"]) for one in self.messages]
        self.asked.clear()
        return found


def claims(authorization: str) -> tuple[dict[str, Any], str]:
    """The claims of a VAPID header after checking its signature, and the key."""
    scheme, _, rest = authorization.partition(" ")
    assert scheme == "vapid"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    signed, _, signature = parts["t"].rpartition(".")
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(parts["k"]))
    numbers = [int.from_bytes(half, "big") for half in (decoded(signature)[:32], decoded(signature)[32:])]
    key.verify(encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(SHA256()))
    head, body = (json.loads(decoded(part)) for part in signed.split("."))
    assert head == {"typ": "JWT", "alg": "ES256"}
    return body, parts["k"]
