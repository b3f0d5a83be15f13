"""Messages that only one browser can read (RFC 8291, RFC 8188), and the key that identifies this server (RFC 8292).

A push service forwards messages but can't read them: it sees their size, their time, and the server that sent them.
"""

from __future__ import annotations

import secrets

import orjson
from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from microsub.base.digests import base64url, from_base64url
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.web.headers import origin

MOST_BYTES = 3993
"""Bytes of a text whose message fits into the 4,096 bytes that every push service accepts (RFC 8030, 7.2)."""

_CURVE = SECP256R1()
_POINT, _SCALAR, _SECRET, _SALT = 65, 32, 16, 16
"""Bytes of a public and a private key, of a browser's secret, and of a message's salt."""
_RECORD = 4096
_LAST = b"\x02"
"""The delimiter at the end of a message's only record (RFC 8188, 2)."""
_ASSERTED = 12 * 3600
"""Seconds for which the proof of our identity to a push service is valid; at most 24 hours (RFC 8292, 2)."""


def browser_keys(public: str, secret: str) -> tuple[bytes, bytes]:
    """A browser's public key and its secret, from `p256dh` and `auth` of the Push API.

    Raises InvalidRequest for a key that isn't a point of the curve.
    """
    try:
        key, shared = from_base64url(public), from_base64url(secret)
        _public_key(key)
    except (ValueError, InvalidKey):
        raise InvalidRequest(N_("Your browser sent invalid encryption keys.")) from None
    if len(key) != _POINT or len(shared) != _SECRET:
        raise InvalidRequest(N_("Your browser sent invalid encryption keys."))
    return key, shared


def encrypted(text: bytes, browser: bytes, secret: bytes) -> bytes:
    """The body of a message with this text, of at most `MOST_BYTES`, for the browser with that public key and secret.

    Each time with a new key and salt.
    """
    own, salt = generate_private_key(_CURVE), secrets.token_bytes(_SALT)
    public = _point(own.public_key())
    shared = own.exchange(ECDH(), _public_key(browser))
    keying = _derived(secret, shared, b"WebPush: info\0" + browser + public, 32)
    key = _derived(salt, keying, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(salt, keying, b"Content-Encoding: nonce\0", 12)
    head = salt + _RECORD.to_bytes(4, "big") + bytes([_POINT]) + public
    return head + AESGCM(key).encrypt(nonce, text + _LAST, None)


class ServerKey:
    """The server's key pair, which proves to push services that messages are from the server with the address."""

    def __init__(self, private: EllipticCurvePrivateKey) -> None:
        self._private = private
        self.public = base64url(_point(private.public_key()))
        """The key in the form for browsers (`applicationServerKey`)."""

    @classmethod
    def of(cls, text: str) -> ServerKey:
        """Read a key created by `new_text`."""
        return cls(derive_private_key(int.from_bytes(from_base64url(text), "big"), _CURVE))

    @staticmethod
    def new_text() -> str:
        """A new key, in its stored form."""
        number = generate_private_key(_CURVE).private_numbers().private_value
        return base64url(number.to_bytes(_SCALAR, "big"))

    def authorization(self, endpoint: str, contact: str, now: float) -> str:
        """The `Authorization` of a message to that address; `contact` is our URL, or empty."""
        claims = {"aud": origin(endpoint), "exp": int(now) + _ASSERTED}
        if contact:
            claims["sub"] = contact
        signed = b".".join(base64url(orjson.dumps(one)).encode() for one in ({"typ": "JWT", "alg": "ES256"}, claims))
        numbers = decode_dss_signature(self._private.sign(signed, ECDSA(SHA256())))
        signature = b"".join(number.to_bytes(_SCALAR, "big") for number in numbers)
        return f"vapid t={signed.decode()}.{base64url(signature)}, k={self.public}"


def _derived(salt: bytes, keying: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(keying)


def _point(key: EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _public_key(point: bytes) -> EllipticCurvePublicKey:
    return EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
