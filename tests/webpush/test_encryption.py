"""Encryption of messages for browsers: the example of RFC 8291, and messages of all sizes."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from microsub.base.errors import InvalidRequest
from microsub.webpush.encryption import MOST_BYTES, ServerKey, browser_keys, encrypted
from tests.support.push_service import PushedBrowser, claims, decoded, encoded, point

# RFC 8291, section 5 and appendix A.
TEXT = b"When I grow up, I want to be a watermelon"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
RECEIVER = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
PUBLIC = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
SECRET, SALT = "BTBZMqHH6r4Tts7J_aSIgg", "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
    "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def private(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decoded(text), "big"), ec.SECP256R1())


def test_the_example_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key and salt give its body, and its browser can decrypt it."""
    monkeypatch.setattr("microsub.webpush.encryption.generate_private_key", lambda _curve: private(SENDER))
    monkeypatch.setattr("secrets.token_bytes", lambda _size: decoded(SALT))
    assert encoded(encrypted(TEXT, *browser_keys(PUBLIC, SECRET))) == BODY
    assert PushedBrowser("", private(RECEIVER), decoded(SECRET)).decrypt(decoded(BODY)) == TEXT


@pytest.mark.parametrize("size", [0, 1, 500, MOST_BYTES])
def test_messages_of_any_size_are_decrypted(size: int) -> None:
    """Each message has a new key, and none is larger than push services accept."""
    browser = PushedBrowser("")
    keys = browser_keys(browser.fields["public"], browser.fields["secret"])
    first, second = encrypted(b"x" * size, *keys), encrypted(b"x" * size, *keys)
    assert browser.decrypt(first) == browser.decrypt(second) == b"x" * size
    assert first[:86] != second[:86]


@pytest.mark.parametrize(
    ("public", "secret"),
    [
        ("", SECRET),
        (PUBLIC, ""),
        (PUBLIC, SECRET + "AA"),
        (PUBLIC[:-2] + "AA", SECRET),
        (encoded(b"\x04" + bytes(64)), SECRET),
        (encoded(bytes([2]) + decoded(PUBLIC)[1:33]), SECRET),
        ("ü" * 87, SECRET),
    ],
)
def test_invalid_keys_are_refused(public: str, secret: str) -> None:
    """A point that isn't on the curve would reveal the encrypted text."""
    with pytest.raises(InvalidRequest):
        browser_keys(public, secret)


def test_the_server_says_who_it_is() -> None:
    """The key that browsers know signs it, for one push service and half a day."""
    key = ServerKey.of(ServerKey.new_text())
    said, public = claims(key.authorization("https://push.example:443/send/abc", "https://reader.example", 1000.0))
    assert said == {"aud": "https://push.example", "exp": 1000 + 12 * 3600, "sub": "https://reader.example"}
    assert public == key.public
    assert len(decoded(public)) == len(point(private(SENDER).public_key())) == 65
    assert "sub" not in claims(key.authorization("https://push.example/", "", 1000.0))[0]
