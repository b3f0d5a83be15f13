"""A user's posts as three ways show them: a native app, a Microsub app and the page; and the model of what they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from tests.support.native_app import NativeApp, numbered
from tests.support.reader import Reader
from tests.support.visitor import Visitor, fields_of

STATE = "user/-/state/com.google/"
ALL, READ, STARRED = f"{STATE}reading-list", f"{STATE}read", f"{STATE}starred"
ON_PAGE = 20
"""Posts of the first page of a channel."""
LABELS = {"home": "user/-/label/Home", "later": "user/-/label/Later"}
PAGES = (*LABELS, "saved")


@dataclass
class Model:
    """The read state of each post in each of the two channels and in `saved`; ids are those of Microsub.

    A post arrives in `saved` as read, since saving makes nothing unread. With `everywhere`, a mark in one channel
    counts in all.
    """

    everywhere: bool = False

    shown: dict[str, dict[str, bool]] = field(default_factory=lambda: {"home": {}, "later": {}})
    saved: dict[str, bool] = field(default_factory=dict)

    def is_read(self, one: str) -> bool:
        """A post is read if it is read everywhere."""
        return all(part[one] for part in (*self.shown.values(), self.saved) if one in part)

    def posts(self) -> set[str]:
        return {one for part in (*self.shown.values(), self.saved) for one in part}

    def mark(self, ids: list[str], uids: tuple[str, ...], is_read: bool) -> None:
        if self.everywhere:
            uids = (*self.shown, "saved")
        for part in [self.saved if uid == "saved" else self.shown[uid] for uid in uids]:
            part.update({one: is_read for one in ids if one in part})

    def save(self, ids: list[str]) -> None:
        self.saved.update({one: True for one in ids if one in self.posts() and one not in self.saved})

    def copy(self, ids: list[str], uid: str) -> None:
        states = {one: self.is_read(one) for one in ids if one in self.posts()}
        self.shown[uid].update({one: state for one, state in states.items() if one not in self.shown[uid]})

    def take_off(self, ids: list[str], uid: str) -> None:
        """The last channel of a post gives it to the first that follows its feed, which is `home`."""
        other = "later" if uid == "home" else "home"
        for one in ids:
            if one in self.shown[uid] and (one in self.shown[other] or uid != "home"):
                state = self.shown[uid].pop(one)
                self.shown[other].setdefault(one, state)

    def remove(self, ids: list[str], uid: str) -> None:
        for one in ids:
            self.shown[uid].pop(one, None)


@dataclass
class Faces:
    """The three ways to Alice's posts."""

    app: NativeApp
    alice: Reader
    page: Visitor

    async def agree_with(self, model: Model, ids: list[str], history: list[str], pages: Sequence[str] = PAGES) -> None:
        """`pages` are the channels whose pages are read, which takes longer than all the rest."""
        told = "\n".join(history)
        there = model.posts()
        assert set(await self.app.ids()) == set(numbered(sorted(there))), told
        unread = {one for one in there if not model.is_read(one)}
        assert set(await self.app.ids(ALL, xt=READ)) == set(numbered(sorted(unread))), told
        assert set(await self.app.ids(STARRED)) == set(numbered(sorted(model.saved))), told
        counts = {one["id"]: one["count"] for one in (await self.app.json("unread-count"))["unreadcounts"]}
        assert counts.get(ALL, 0) == len(unread), told
        channels = await self.alice.channels()
        for uid, label in LABELS.items():
            shown = model.shown[uid]
            assert set(await self.app.ids(label)) == set(numbered(sorted(shown))), (uid, told)
            assert counts.get(label, 0) == len([one for one in shown if one in unread]), (uid, told)
            page = (await self.alice.get(action="timeline", channel=uid, limit=100))["items"]
            assert {one["_id"]: one["_is_read"] for one in page} == shown, (uid, told)
            assert channels[uid]["unread"] == list(shown.values()).count(False), (uid, told)
        for one in (await self.app.post("stream/items/contents", i=numbered(ids))).json()["items"]:
            given = str(int(one["id"][-16:], 16) - 10**15)
            assert (READ in one["categories"]) == model.is_read(given), (given, told)
            assert (STARRED in one["categories"]) == (given in model.saved), (given, told)
        for uid in pages:
            wanted = model.saved if uid == "saved" else model.shown[uid]
            html = await self.page.get(f"/channel/{uid}?show=all")
            shown = {post.attributes["data-id"]: post for post in html.tree.css(".post")}
            read = {one: _is_pressed(post, "read") for one, post in shown.items()}
            assert len(read) == min(len(wanted), ON_PAGE), (uid, read, wanted, told)
            assert read == {one: wanted.get(one) for one in read}, (uid, read, wanted, told)
            starred = {one for one, post in shown.items() if _is_pressed(post, "save")}
            assert starred == model.saved.keys() & read.keys(), (uid, told)
            for channel, states in model.shown.items():
                count = html.tree.css_first(f"[data-channel={channel}] [data-count]")
                assert int(count.text()) == list(states.values()).count(False), (uid, channel, told)

    async def press(self, name: str, one: str) -> None:
        html = await self.page.get("/channel/home?show=all")
        await self.page.post("/marks", {**fields_of(html.form("/marks")), name: one})

    async def mark_all_and_undo(self, uid: str) -> bool:
        """Whether the reply offered the undo: if it was lost, the repeated request has marked nothing."""
        html = await self.page.get(f"/channel/{uid}")
        marked = await self.page.post("/marks/all", fields_of(html.form("/marks/all")))
        html = await self.page.get(marked.location)
        await self.page.post("/marks/undo", fields_of(html.form("/marks/undo")))
        return "undo=" in marked.location


def _is_pressed(post: LexborNode, act: str) -> bool:
    return post.css_first(f"[data-act={act}]").attributes["aria-pressed"] == "true"


async def step(rng: random.Random, faces: Faces, model: Model, ids: list[str]) -> str:
    """One change, to the server and to the model; returns its description."""
    some = rng.sample(ids, rng.randint(1, 4))
    uid = rng.choice(("home", "later"))
    both = ("home", "later", "saved")
    is_read = rng.random() < 0.5
    what = rng.choice(
        (
            *("mark", "star", "label", "unlabel", "all", "m-mark", "m-one", "m-all", "m-save", "m-remove", "m-move"),
            *("page", "page", "at once", "undo"),
        )
    )
    native, alice = faces.app, faces.alice
    if what == "mark":
        await native.post("edit-tag", i=numbered(some), **{"a" if is_read else "r": READ})
        model.mark(some, both, is_read)
    elif what == "star":
        await native.post("edit-tag", i=numbered(some), **{"a" if is_read else "r": STARRED})
        if is_read:
            model.save(some)
        else:
            for one in some:
                model.saved.pop(one, None)
    elif what == "label":
        await native.post("edit-tag", i=numbered(some), a=LABELS[uid])
        model.copy(some, uid)
    elif what == "unlabel":
        await native.post("edit-tag", i=numbered(some), r=LABELS[uid])
        model.take_off(some, uid)
    elif what == "at once":
        await native.post("edit-tag", i=numbered(some), a=[READ, STARRED, LABELS[uid]])
        model.mark(some, both, True)
        model.save(some)
        model.copy(some, uid)
    elif what == "all":
        await native.post("mark-all-as-read", s=LABELS[uid])
        some = list(model.shown[uid])
        model.mark(some, both, True)
    elif what == "m-mark":
        method = "mark_read" if is_read else "mark_unread"
        await alice.post(action="timeline", method=method, channel="global", **{"entry[]": some})
        model.mark(some, both, is_read)
    elif what == "m-one":
        some = [one for one in some if one in model.shown[uid]]
        method = "mark_read" if is_read else "mark_unread"
        if some:
            await alice.post(action="timeline", method=method, channel=uid, **{"entry[]": some})
        model.mark(some, (uid,), is_read)
    elif what == "m-all":
        await alice.post(action="timeline", method="mark_read", channel=uid, last_read_entry="everything")
        some = list(model.shown[uid])
        model.mark(some, (uid,), True)
    elif what == "undo":
        some = [one for one, state in model.shown[uid].items() if not state]
        is_undone = await faces.mark_all_and_undo(uid)
        if not is_undone:
            model.mark(some, (uid,), True)
    elif what == "m-save":
        await alice.post(action="timeline", method="save" if is_read else "unsave", **{"entry[]": some})
        if is_read:
            model.save(some)
        else:
            for one in some:
                model.saved.pop(one, None)
    elif what == "m-remove":
        await alice.post(action="timeline", method="remove", channel=uid, **{"entry[]": some})
        model.remove(some, uid)
    elif what == "m-move":
        await alice.post(action="timeline", method="move", channel=uid, **{"entry[]": some})
        other = "later" if uid == "home" else "home"
        model.copy(some, uid)
        model.remove(some, other)
    else:
        some = [one for one in some if one in model.shown["home"]][:1]
        name = rng.choice(("read", "unread", "save", "unsave"))
        for one in some:
            await faces.press(name, one)
            if name in {"read", "unread"}:
                model.mark([one], ("home",), name == "read")
            elif name == "save":
                model.save([one])
            else:
                model.saved.pop(one, None)
        what = f"page {name}"
    return f"{what} {uid} {is_read} {some}"
