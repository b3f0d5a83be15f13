"""Sign-in, tokens and addresses."""

from __future__ import annotations

from urllib.parse import urlsplit

from microsub_conformance.native.apps import (
    CALLER,
    CAPY_SYNC,
    FLUENT,
    LIFEREA_CALLS,
    LIFEREA_ITEMS,
    NEWSBOAT,
    OLD_LIFEREA,
    READROPS,
    READROPS_SYNC,
    READYOU,
    READYOU_TYPES,
    RSS_GUARD,
)
from microsub_conformance.native.world import API, LONG, READ, NativeWorld, number
from microsub_conformance.requirement import Chapter
from microsub_conformance.verdict import NO_HEADER, Skip, expect

sign_in = Chapter("sign-in")
addresses = Chapter("addresses")

LOGIN = "accounts/ClientLogin"


@sign_in.requirement("lines", CALLER, FLUENT, NEWSBOAT, RSS_GUARD, LIFEREA_CALLS)
def lines(w: NativeWorld) -> None:
    """ClientLogin answers a form with lines of 'SID=', 'LSID=' and 'Auth='."""
    reply = w.client.send(LOGIN, form={**w.client.credentials, "service": "reader"})
    names = {line.partition("=")[0] for line in reply.body.decode().splitlines()}
    expect(reply.status == 200 and {"SID", "Auth"} <= names, "the lines SID, LSID and Auth", reply.text)


@sign_in.requirement("auth-characters", CALLER)
def auth_characters(w: NativeWorld) -> None:
    """The value of 'Auth' contains no '='."""
    reply = w.client.send(LOGIN, form=w.client.credentials)
    values = [line.partition("=")[2] for line in reply.body.decode().splitlines() if line.startswith("Auth=")]
    expect(all("=" not in value for value in values), "no '=' in the value of Auth", values)


@sign_in.requirement("multipart", READROPS_SYNC)
def multipart(w: NativeWorld) -> None:
    """ClientLogin takes multipart forms."""
    parts = (f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in w.client.credentials.items())  # fmt: skip
    body = "".join(parts) + "--b--\r\n"
    reply = w.client.send(LOGIN, body=body.encode(), kind="multipart/form-data; boundary=b")
    expect(reply.status == 200 and "Auth=" in reply.body.decode(), "a line Auth=", reply.text)


@sign_in.requirement("json", READYOU)
def as_json(w: NativeWorld) -> None:
    """With 'output=json', ClientLogin answers an object with 'Auth', or its lines."""
    reply = w.client.send(LOGIN, form={**w.client.credentials, "output": "json"})
    if "\nAuth=" not in reply.body.decode():
        expect(isinstance(reply.ok().get("Auth"), str), "'Auth' in a JSON object", reply.text)


@sign_in.requirement("wrong-password", READYOU)
def wrong_password(w: NativeWorld) -> None:
    """ClientLogin answers 401 to a wrong password."""
    reply = w.client.send(LOGIN, form={**w.client.credentials, "Passwd": "certainly-not"})
    expect(reply.status == 401, "status 401", reply.text)


@sign_in.requirement("unauthorized", READYOU, CALLER)
def unauthorized(w: NativeWorld) -> None:
    """A request with a wrong 'Auth' value gets 401, so that apps sign in again."""
    reply = w.client.send(API + "tag/list", headers={"Authorization": "GoogleLogin auth=wrong/wrong"})
    expect(reply.status == 401, "status 401", reply.text)


@sign_in.requirement("bad-token", CAPY_SYNC)
def bad_token(w: NativeWorld) -> None:
    """The reply to a wrong 'Auth' value has 'X-Reader-Google-Bad-Token: true', at which the app gets a new token."""
    reply = w.client.send(API + "tag/list", headers={"Authorization": "GoogleLogin auth=wrong/wrong"})
    found = reply.headers.get("X-Reader-Google-Bad-Token", NO_HEADER)
    expect(found.lower() == "true", "X-Reader-Google-Bad-Token: true", found)


@sign_in.requirement("token", CALLER, NEWSBOAT)
def token(w: NativeWorld) -> None:
    """The token for writes is one word that apps can put into a form without encoding it."""
    reply = w.client.get("token")
    text = reply.body.decode().removesuffix("\n")
    expect(reply.status == 200 and bool(text), "a token", reply.text)
    expect(not set(text) & set("&+%# \n\r"), "a token without spaces, '&', '+', '%' and '#'", text)


@sign_in.requirement("write-without-token", FLUENT, RSS_GUARD)
def write_without_token(w: NativeWorld) -> None:
    """Writes need no 'T': the header decides."""
    _write(w, "one", None)


@sign_in.requirement("token-with-newline", READROPS_SYNC, level="should")
def token_with_newline(w: NativeWorld) -> None:
    """Writes accept the token with a newline at its end, if the server sent one."""
    _write(w, "one", w.client.get("token").body.decode())


@sign_in.requirement("auth-as-token", LIFEREA_ITEMS)
def auth_as_token(w: NativeWorld) -> None:
    """'stream/items/contents' accepts the value of 'Auth' as 'T'."""
    one = number(w.scene.posts["one"])
    form = {"T": w.client.auth, "i": [f"{LONG}{one:016x}", str(one)]}
    found = w.client.send(f"{API}stream/items/contents?output=json", form=form).listed("items")
    expect(bool(found), "the requested item", found)


@sign_in.requirement("no-header", OLD_LIFEREA, level="should")
def no_header(w: NativeWorld) -> None:
    """'stream/items/contents' accepts the value of 'Auth' as 'T' without a header."""
    one = number(w.scene.posts["one"])
    form = {"T": w.client.auth, "i": [f"{LONG}{one:016x}", str(one)]}
    reply = w.client.send(f"{API}stream/items/contents?output=json", form=form, headers={"Authorization": ""})
    expect(bool(reply.listed("items")), "the requested item", reply.text)


@sign_in.requirement("user-info", READROPS("adapters/GReaderUserInfoAdapter.kt"), READYOU_TYPES)
def user_info(w: NativeWorld) -> None:
    """'user-info' has a 'userName' that isn't empty, and only strings."""
    found = w.client.json("user-info")
    expect(bool(found.get("userName")), "'userName'", found)
    names = ("userId", "userName", "userProfileId", "userEmail")
    expect(all(isinstance(found.get(name, ""), str) for name in names), "strings", found)


def _write(w: NativeWorld, slug: str, token: str | None) -> None:
    """Mark an item as read and unread with this token."""
    one = w.scene.posts[slug]
    for tag, unread in (("a", False), ("r", True)):
        form = {"i": one, tag: READ, **({} if token is None else {"T": token})}
        reply = w.client.send(f"{API}edit-tag", form=form)
        expect(reply.status == 200, "status 200", reply.text)
        expect(w.is_unread(one) == unread, "the mark to take effect", "no effect")


def _reached(w: NativeWorld, between: str) -> None:
    for path in (LOGIN, f"{API}token"):
        form = w.client.credentials if path == LOGIN else None
        reply = w.client.send(path, address=w.client.address + between, form=form)
        expect(reply.status == 200, f"status 200 for …{between}{path}", reply.text)


@addresses.requirement("two-slashes", FLUENT, NEWSBOAT, LIFEREA_CALLS, level="should")
def two_slashes(w: NativeWorld) -> None:
    """Paths may begin with two slashes, as after an address that ends with one."""
    _reached(w, "//")


@addresses.requirement("no-slash", READYOU, level="should")
def no_slash(w: NativeWorld) -> None:
    """Paths may begin without a slash, as after an address that doesn't end with one."""
    if not urlsplit(w.client.address).path:
        raise Skip("the address has no path")
    _reached(w, "")


@addresses.requirement("twice", RSS_GUARD, level="should")
def twice(w: NativeWorld) -> None:
    """The address of FreshRSS's API may follow the address, because its account type adds it to what people type."""
    _reached(w, "/api/greader.php/")
