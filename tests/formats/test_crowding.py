"""Tags with more attributes than parsers can process are found before parsing."""

from __future__ import annotations

import pytest

from microsub.formats.html.trees import MOST_ATTRIBUTES, is_crowded, tree_of
from microsub.identity.protocol.clients import App, read_client

SEPARATED = {
    "spaces": " a{n}=1",
    "without values": " a{n}",
    "slashes": "/a{n}",
    "quotes with the end of a tag in them": " a{n}='>'",
    "double quotes": ' a{n}=">"',
    "quotes without a space behind": " x='>'a{n}='>'",
    "one and the same": " a",
    "line breaks": "\n\ta{n} = x",
    "another tag's beginning": " <a{n}",
}


def tag(form: str, number: int) -> str:
    return f"<p>x</p><div x{''.join(form.format(n=n) for n in range(number))}>"


@pytest.mark.parametrize("form", SEPARATED.values(), ids=SEPARATED)
def test_a_crowded_tag_is_found(form: str) -> None:
    """With any separator between the attributes; as text, as bytes, and escaped."""
    text = tag(form, MOST_ATTRIBUTES + 5)
    for found in (text, text.encode(), text.replace("<div", "&lt;div")):
        assert is_crowded(found)
        assert is_crowded(found * 3)
    assert not is_crowded(tag(form, 400))


@pytest.mark.parametrize(
    "text",
    [
        "<a b=c>" * 5000,
        "<p>" + "word " * 5000,
        "a < b and " * 5000,
        '<img alt="' + "word " * 5000 + '">',
        "<p>" + "&lt;a b=c>" * 5000,
        "<" * 100_000,
        "<a" + " " * 100_000,
        ("<x " * (MOST_ATTRIBUTES - 5) + ">") * 80,
        "",
    ],
)
def test_other_documents_are_not_crowded(text: str) -> None:
    """Many tags, long texts and long values don't count; the check reads each document only once."""
    assert not is_crowded(text)
    assert not is_crowded(text.encode())


def test_crowded_documents_are_kept_from_parsers() -> None:
    """The result is empty."""
    text = tag(" a{n}", 6000)
    page = f'<link rel="redirect_uri" href="/x"><div class="h-app"><p class="p-name">App</p></div>{text}'
    assert tree_of(page).css("link") == []
    app = "https://app.example/"
    assert read_client(page.encode(), app, app, "text/html", None) == App(app)
