"""Passkeys: valid responses, and all kinds of invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from microsub.accounts.credentials import InvitationSpent, LocalCredentials
from microsub.accounts.store import Accounts
from microsub.base.errors import InvalidRequest, NotImplementedHere
from microsub.identity.passkeys import PasskeyMessage, PasskeyRefused, Passkeys, relying_party
from microsub.redis.protocol import Redis
from tests.support.authenticator import UP, UV, Authenticator, b64, unb64
from tests.support.one_reader import ANN, NOW

ORIGIN = "https://reader.example"
Answer = dict[str, Any]


@pytest.fixture
async def store(redis: Redis) -> LocalCredentials:
    await Accounts(redis).add_user(ANN, "", NOW)
    await Accounts(redis).add_user("bob", "", NOW)
    return LocalCredentials(redis)


@pytest.fixture
def passkeys(store: LocalCredentials) -> Passkeys:
    return Passkeys(store)


async def enrolled(passkeys: Passkeys, user: str = ANN, **about: Any) -> Authenticator:
    device = Authenticator(ORIGIN, **about)
    asked = await passkeys.ask_to_make(ORIGIN, user)
    await passkeys.make(ORIGIN, user, PasskeyMessage(asked.secret, device.make(asked.content)), "Telephone", NOW)
    return device


async def signed_in(passkeys: Passkeys, device: Authenticator, **lies: Any) -> str:
    asked = await passkeys.ask_to_use(ORIGIN)
    return await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, device.use(asked.content, **lies)), NOW + 1)


@pytest.mark.parametrize(
    ("base_url", "party"),
    [
        ("https://reader.example", "https://reader.example"),
        ("https://reader.example:8443/path", "https://reader.example:8443"),
        ("https://Reader.example:443", "https://reader.example"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("http://reader.example", None),
        ("http://127.0.0.1:8080", None),
        ("https://192.0.2.1", None),
        ("https://[::1]:8080", None),
        (None, None),
    ],
)
def test_the_relying_party_is_our_host(base_url: str | None, party: str | None) -> None:
    """The address needs https or localhost; an IP address can't have passkeys."""
    assert relying_party(base_url) == party


async def test_an_ip_address_has_no_passkeys(passkeys: Passkeys) -> None:
    """The page says how to enable them."""
    base = "http://127.0.0.1:8080"
    for call in (
        passkeys.ask_to_make(base, ANN),
        passkeys.ask_to_use(base),
        passkeys.use(base, PasskeyMessage("", {}), NOW),
    ):
        with pytest.raises(NotImplementedHere, match="BASE_URL"):
            await call


async def test_a_browser_gets_the_options_of_a_passkey(passkeys: Passkeys) -> None:
    """It requests user verification and a discoverable credential, but no attestation; it doesn't contain a name."""
    await enrolled(passkeys)
    asked = (await passkeys.ask_to_make(ORIGIN, ANN)).content["publicKey"]
    assert asked["rp"] == {"id": "reader.example", "name": "reader.example"}
    assert asked["authenticatorSelection"]["residentKey"] == "required"
    assert asked["authenticatorSelection"]["userVerification"] == "required"
    assert asked["attestation"] == "none"
    assert {one["alg"] for one in asked["pubKeyCredParams"]} == {-7, -8, -257}
    assert ANN not in asked["user"]["id"]
    assert len(asked["excludeCredentials"]) == 1
    assert len(unb64(asked["challenge"])) == 32
    asked = (await passkeys.ask_to_use(ORIGIN)).content["publicKey"]
    assert asked["userVerification"] == "required"
    assert asked["rpId"] == "reader.example"
    assert not asked.get("allowCredentials")


async def test_a_passkey_signs_its_user_in_without_a_name(passkeys: Passkeys, store: LocalCredentials) -> None:
    """Counter and time of use are stored."""
    mine, bobs = await enrolled(passkeys), await enrolled(passkeys, "bob")
    assert await signed_in(passkeys, mine) == ANN
    assert await signed_in(passkeys, bobs) == "bob"
    assert await signed_in(passkeys, mine) == ANN
    (kept,) = (await store.overview(ANN))[1]
    assert (kept.count, kept.used, kept.name, kept.transports) == (2, NOW + 1, "Telephone", ("internal", "usb"))


async def test_a_passkey_without_a_counter_works(passkeys: Passkeys) -> None:
    """Passkeys that are synchronised between devices always send 0."""
    device = await enrolled(passkeys, counts=False)
    for _ in range(3):
        assert await signed_in(passkeys, device) == ANN


async def test_a_copy_is_noticed_by_its_counter(passkeys: Passkeys) -> None:
    """A counter that stays the same or decreases is refused, also if it becomes 0."""
    device = await enrolled(passkeys)
    assert await signed_in(passkeys, device) == ANN
    assert await signed_in(passkeys, device) == ANN
    for counter in (1, 0):
        device.counter = counter
        with pytest.raises(PasskeyRefused, match="copied"):
            await signed_in(passkeys, device)
    device.counts, device.counter = False, 0
    with pytest.raises(PasskeyRefused, match="copied"):
        await signed_in(passkeys, device)


@pytest.mark.parametrize(
    "lies",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://sub.reader.example"},
        {"origin": "https://reader.example:444"},
        {"origin": "http://reader.example"},
        {"origin": "https://reader.example.evil.example"},
        {"party": "evil.example"},
        {"flags": UP},
        {"flags": UV},
        {"flags": 0},
        {"kind": "webauthn.create"},
        {"crossOrigin": True},
        {"crossOrigin": "false"},
    ],
)
async def test_answers_from_elsewhere_or_without_the_user_are_refused(passkeys: Passkeys, lies: Answer) -> None:
    """Other origins, other relying parties, frames, and a user who isn't present or verified are refused."""
    device = await enrolled(passkeys)
    with pytest.raises(PasskeyRefused):
        await signed_in(passkeys, device, **lies)


@pytest.mark.parametrize(
    "lies",
    [
        {"origin": "https://evil.example"},
        {"flags": UP},
        {"flags": UV},
        {"kind": "webauthn.get"},
        {"crossOrigin": True},
        {"algorithm": -65535},
        {"algorithm": -36},
    ],
)
async def test_a_passkey_is_made_here_by_its_user_only(
    passkeys: Passkeys, store: LocalCredentials, lies: Answer
) -> None:
    """The same checks apply to new passkeys, and to keys of unknown types."""
    asked = await passkeys.ask_to_make(ORIGIN, ANN)
    with pytest.raises(PasskeyRefused):
        await passkeys.make(
            ORIGIN, ANN, PasskeyMessage(asked.secret, Authenticator(ORIGIN).make(asked.content, **lies)), "x", NOW
        )
    assert (await store.overview(ANN))[1] == ()


async def test_a_challenge_is_good_once_and_for_its_purpose(passkeys: Passkeys) -> None:
    """It can't be used again, nor for another challenge, user or purpose."""
    device = await enrolled(passkeys, counts=False)
    asked = await passkeys.ask_to_use(ORIGIN)
    answer = device.use(asked.content)
    assert await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, answer), NOW) == ANN
    again = await passkeys.ask_to_use(ORIGIN)
    for secret in (asked.secret, again.secret, "", "made up"):
        with pytest.raises(PasskeyRefused):
            await passkeys.use(ORIGIN, PasskeyMessage(secret, answer), NOW)
    making = await passkeys.ask_to_make(ORIGIN, ANN)
    with pytest.raises(PasskeyRefused):
        await passkeys.use(ORIGIN, PasskeyMessage(making.secret, device.use(as_request(making.content))), NOW)
    making = await passkeys.ask_to_make(ORIGIN, ANN)
    made = Authenticator(ORIGIN).make(making.content)
    with pytest.raises(PasskeyRefused):
        await passkeys.make(ORIGIN, "bob", PasskeyMessage(making.secret, made), "x", NOW)


async def test_a_passkey_proves_one_certain_user(passkeys: Passkeys) -> None:
    """If a user has to confirm their identity, another user's valid passkey isn't accepted."""
    mine, bobs = await enrolled(passkeys), await enrolled(passkeys, "bob")
    asked = await passkeys.ask_to_use(ORIGIN, ANN)
    assert [one["id"] for one in asked.content["publicKey"]["allowCredentials"]] == [b64(mine.id)]
    with pytest.raises(PasskeyRefused):
        await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, bobs.use(asked.content)), NOW)
    asked = await passkeys.ask_to_use(ORIGIN, ANN)
    answer = mine.use(asked.content)
    del answer["response"]["userHandle"]
    assert await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, answer), NOW) == ANN


async def test_another_users_handle_opens_nothing(passkeys: Passkeys) -> None:
    """A valid passkey that claims to be another user's isn't accepted."""
    mine, bobs = await enrolled(passkeys), await enrolled(passkeys, "bob")
    bobs.handle = mine.handle
    with pytest.raises(PasskeyRefused):
        await signed_in(passkeys, bobs)
    asked = await passkeys.ask_to_use(ORIGIN)
    answer = bobs.use(asked.content)
    answer["id"] = answer["rawId"] = b64(mine.id)
    with pytest.raises(PasskeyRefused):
        await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, answer), NOW)


def as_request(options: Answer) -> Answer:
    """Convert options for creating a passkey into options for using one."""
    return {"publicKey": {**options["publicKey"], "rpId": "reader.example"}}


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer.clear(),
        lambda answer: answer.pop("response"),
        lambda answer: answer.update(response=None),
        lambda answer: answer.update(response=[]),
        lambda answer: answer.update(rawId="x"),
        lambda answer: answer.update(id=7),
        lambda answer: answer.update(type="password"),
        lambda answer: answer["response"].pop("signature"),
        lambda answer: answer["response"].update(signature=""),
        lambda answer: answer["response"].update(signature=b64(b"\x30\x00")),
        lambda answer: answer["response"].update(clientDataJSON="!!!"),
        lambda answer: answer["response"].update(clientDataJSON=b64(b"[1]")),
        lambda answer: answer["response"].update(clientDataJSON=b64(b"[" * 100_000)),
        lambda answer: answer["response"].update(clientDataJSON=b64(b"\xff")),
        lambda answer: answer["response"].update(authenticatorData=b64(b"short")),
        lambda answer: answer["response"].update(authenticatorData={"a": 1}),
        lambda answer: answer["response"].update(userHandle="ä"),
        lambda answer: answer["response"].update(userHandle=b64(b"x" * 5000)),
    ],
)
async def test_rubbish_is_refused(passkeys: Passkeys, change: Callable[[Answer], Any]) -> None:
    """Arbitrary input doesn't cause a server error."""
    device = await enrolled(passkeys)
    asked = await passkeys.ask_to_use(ORIGIN)
    answer = device.use(asked.content)
    change(answer)
    with pytest.raises(PasskeyRefused):
        await passkeys.use(ORIGIN, PasskeyMessage(asked.secret, answer), NOW)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"\xa0",
        b"\xa3cfmtdnonegattStmt\xa0hauthDataX\x05short",
        b"\x9f" * 50_000,
        b"\x81" * 50_000,
        b"\xbf\xff",
        b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
async def test_rubbish_makes_no_passkey(passkeys: Passkeys, document: bytes) -> None:
    """A broken attestation object is refused too, however deep or long it claims to be."""
    asked = await passkeys.ask_to_make(ORIGIN, ANN)
    answer = Authenticator(ORIGIN).make(asked.content)
    answer["response"]["attestationObject"] = b64(document)
    with pytest.raises(PasskeyRefused):
        await passkeys.make(ORIGIN, ANN, PasskeyMessage(asked.secret, answer), "x", NOW)


async def test_a_foreign_signature_is_refused(passkeys: Passkeys) -> None:
    """Knowledge of id and handle isn't enough without the key."""
    mine = await enrolled(passkeys)
    thief = Authenticator(ORIGIN, counter=50, handle=mine.handle, id=mine.id)
    with pytest.raises(PasskeyRefused):
        await signed_in(passkeys, thief)


async def test_passkeys_are_named_and_removed(passkeys: Passkeys, store: LocalCredentials) -> None:
    """Only the owner can do this; a removed passkey and a disabled user's passkey don't work."""
    first, second = await enrolled(passkeys), await enrolled(passkeys)
    assert await passkeys.rename(ANN, b64(first.id), "  My   stick ")
    assert not await passkeys.rename("bob", b64(first.id), "x")
    assert {one.name for one in (await store.overview(ANN))[1]} == {"My stick", "Telephone"}
    for name in ("", "  ", "x" * 65, "a\x07b"):
        with pytest.raises(InvalidRequest):
            await passkeys.rename(ANN, b64(first.id), name)
    assert not await store.remove_passkey("bob", b64(first.id))
    assert await store.remove_passkey(ANN, b64(first.id))
    with pytest.raises(PasskeyRefused):
        await signed_in(passkeys, first)
    assert await signed_in(passkeys, second) == ANN
    await Accounts(store._redis).disable_user(ANN, NOW)
    with pytest.raises(PasskeyRefused):
        await signed_in(passkeys, second)


async def test_one_passkey_isnt_kept_twice_and_an_invitation_makes_one(
    passkeys: Passkeys, store: LocalCredentials
) -> None:
    """A user can't register the same passkey twice, and a spent code doesn't create one."""
    device = await enrolled(passkeys)
    asked = await passkeys.ask_to_make(ORIGIN, ANN)
    with pytest.raises(InvalidRequest, match="already registered"):
        await passkeys.make(ORIGIN, ANN, PasskeyMessage(asked.secret, device.make(asked.content)), "x", NOW)
    code = await store.invite(ANN)
    for expected in (None, InvitationSpent):
        asked = await passkeys.ask_to_make(ORIGIN, ANN)
        answered = PasskeyMessage(asked.secret, Authenticator(ORIGIN).make(asked.content))
        made = passkeys.make(ORIGIN, ANN, answered, "x", NOW, invitation=code)
        if expected is None:
            await made
        else:
            with pytest.raises(expected):
                await made
    assert len((await store.overview(ANN))[1]) == 2
