"""The page of keyboard shortcuts, and the table of keys on all pages."""

from __future__ import annotations

import pytest

from microsub.base.errors import InvalidRequest
from microsub.model.jf2 import Card, Entry
from microsub.web.shortcuts import SHORTCUTS, chosen_shortcuts, shortcuts, written
from tests.reader.conftest import ReadingVisitor, ids

PAGE = "/settings/shortcuts"


async def keys_of(ann: ReadingVisitor, path: str = "/channel/home") -> dict[str, str]:
    """The keys in the table of a page, by the action of the script."""
    rows = (await ann.get(path)).tree.css("#keys [data-key]")
    return {row.attributes["data-act"] or "": row.attributes["data-key"] or "" for row in rows}


async def choose(ann: ReadingVisitor, **fields: str) -> str:
    """The text of the page after the keys in these fields were chosen."""
    sent = await ann.browser.submit(await ann.get(PAGE), PAGE, **fields)
    return (await ann.get(sent.location)).text if sent.status == 303 else sent.text


async def test_the_table_of_keys_shows_chosen_ones(ann: ReadingVisitor) -> None:
    """Until the usual ones are restored."""
    usual = await keys_of(ann)
    assert len(usual) == len(SHORTCUTS)
    told = await choose(ann, next="x, arrowdown", previous="", display="g  y")
    assert "Saved, for all your browsers." in told
    for path in ("/channel/home", "/saved", "/settings", PAGE):
        changed = {key: value for key, value in (await keys_of(ann, path)).items() if value != usual[key]}
        assert changed == {"next": "x|ArrowDown", "go /display": "g y"}, path
        assert "previous" not in await keys_of(ann, path)
    fields = (await ann.get(PAGE)).tree.css(".own-keys input")
    assert [field.attributes["value"] for field in fields][:3] == ["x, ArrowDown", "", "n"]
    assert "usual keys again" in await choose(ann, restore="yes")
    assert await keys_of(ann) == usual


async def test_the_table_of_keys_has_groups(ann: ReadingVisitor) -> None:
    """As the page with the fields; their order suits two columns."""
    groups = (await ann.get("/channel/home")).tree.css("#keys tbody:has([data-key])")
    names = [" ".join(group.css_first("th").text().split()) for group in groups]
    assert names == ["Read posts", "Lists and channels", "Mark and save", "Go to pages"]
    first = [group.css_first("[data-key]").attributes["data-key"] for group in groups]
    assert first == ["j", "u", "m", "g h|g u"]


async def test_fields_have_group_headings(ann: ReadingVisitor) -> None:
    """Each action in one group, in the order of the table, and no group is left out."""
    page = await ann.get(PAGE)
    groups = page.tree.css("section[aria-labelledby]:has(.own-keys)")
    names = [str(one.css_first("h2").text()) for one in groups]
    assert names == ["Read posts", "Mark and save", "Lists and channels", "Go to pages"]
    fields = [[one.attributes["name"] for one in group.css(".own-keys input")] for group in groups]
    assert [name for group in fields for name in group] == list(SHORTCUTS)
    assert [(group[0], group[-1]) for group in fields] == [
        ("next", "answer"),
        ("read", "undo"),
        ("show", "previous-channel"),
        ("home", "keys"),
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"next": "k"},
            "next post, opened if a post is open: “k” is also the key of “previous post, opened if a post is open”",
        ),
        (
            {"previous": "j"},
            "previous post, opened if a post is open: “j” is also the key of “next post, opened if a post is open”",
        ),
        ({"next": "g"}, "next post, opened if a post is open: “g” begins “g h”, the keys of “go to unread posts”"),
        ({"next": "Escape"}, "“Escape” is no key; expected one character, or one of Space, Enter, Backspace"),
        ({"next": "{key}"}, "“{key}” is no key"),
        ({"next": "|"}, "“|” is no key"),
        ({"next": ", ,"}, "“,” is no key"),
        ({"next": "\u202e"}, "is no key"),
        ({"next": "a b c"}, "“a b c” has more than two keys; a sequence has two"),
        ({"next": "1,2,3,4,5,6"}, "found 6 keys, expected at most 4"),
        ({"next": "x" * 10_000}, "found 10000 characters, expected at most 100"),
    ],
)
async def test_keys_that_cannot_work_are_refused(ann: ReadingVisitor, fields: dict[str, str], said: str) -> None:
    """The page says why, keeps the fields, and nothing has changed."""
    usual = await keys_of(ann)
    told = await ann.browser.submit(await ann.get(PAGE), PAGE, **fields)
    assert told.status == 400
    assert said.lower() in (told.tree.css_first("[role=alert]").text()).lower()
    (wrong,) = told.tree.css(".own-keys [aria-invalid=true]")
    assert {wrong.attributes["name"]: wrong.attributes["value"]} == {name: keys[:100] for name, keys in fields.items()}
    assert await keys_of(ann) == usual


async def test_the_key_of_a_feed_leads_to_no_address_of_a_publisher(ann: ReadingVisitor) -> None:
    """Authors' pages may have `/feed/` in their addresses too."""
    author = Card(name="Gwen", url="https://evil.example/feed/1")
    await ann.publish_entry(Entry(guid="1", name="By a guest", url="https://blog.example/feed/2", author=author))
    page = await ann.get(f"/post/{ids(await ann.get('/channel/home'))[0]}")
    act = next(row.attributes["data-act"] or "" for row in page.tree.css("[data-key=F]"))
    links = page.tree.css(act.removeprefix("press ").rpartition(", ")[2])
    assert "https://evil.example/feed/1" in {link.attributes["href"] for link in page.tree.css(".byline a")}
    assert [(link.attributes["href"] or "").partition("/feed/")[0] for link in links] == [""]


async def test_keys_need_a_signed_in_user(ann: ReadingVisitor) -> None:
    """As all settings do."""
    ann.browser.client.cookies.clear()
    assert "/sign-in" in (await ann.browser.get(PAGE)).location


def test_only_keys_that_differ_are_stored() -> None:
    """So that later actions and keys of the table reach everybody. The table itself has no conflict."""
    fields = {name: written(keys) for name, (keys, _, _) in SHORTCUTS.items()}
    assert chosen_shortcuts(fields) == chosen_shortcuts({}) == ""
    stored = chosen_shortcuts({**fields, "undo": "Z, backspace,", "unknown": "j"})
    assert stored == '{"undo":"Z|Backspace"}'
    assert shortcuts(stored)["undo"] == ("Z|Backspace", *SHORTCUTS["undo"][1:])
    assert shortcuts(stored)["next"] == SHORTCUTS["next"]


def test_one_key_may_begin_several_sequences() -> None:
    """And a key that begins none may be the second one of a sequence."""
    assert chosen_shortcuts({"undo": "g z", "next": "h"}) == '{"next":"h","undo":"g z"}'
    with pytest.raises(InvalidRequest):
        chosen_shortcuts({"undo": "j z"})


@pytest.mark.parametrize(
    ("stored", "freed"),
    [
        ('{"undo":"Z"}', {}),
        ('{"undo":"j"}', {"next": ""}),
        ('{"undo":"f"}', {"save": "s"}),
        ('{"undo":"+ x"}', {"follow": ""}),
        ('{"next":"g"}', {"home": "", "everything": "", "saved": "", "search-all": ""}),
    ],
)
def test_a_users_key_keeps_its_action_if_the_table_gets_the_same(stored: str, freed: dict[str, str]) -> None:
    """A later version may use it for a new action, which then has no key, and the page of keys can be saved."""
    table = shortcuts(stored)
    assert {name: table[name][0] for name in freed} == freed
    kept = chosen_shortcuts({name: written(keys) for name, (keys, _, _) in table.items()})
    assert {name: keys for name, (keys, _, _) in shortcuts(kept).items()} == {
        name: keys for name, (keys, _, _) in table.items()
    }
