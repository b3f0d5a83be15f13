"""Messages from other parts of the program are in German on German pages."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from microsub.base.errors import QuotaReached
from microsub.model import query
from microsub.reader import FOLDERS
from microsub.reader.reading.posts import PostForms
from microsub.transfer.outlines import read_list
from microsub.web.pages import FOLDER, Templates
from tests.search.test_query import INVALID, NOW

TEMPLATES = Templates([FOLDER, *FOLDERS])
SAID = (
    ("the limit for feeds is reached: 3 of 3", "die Grenze für Feeds ist erreicht: 3 von 3"),
    (
        str(QuotaReached("items of the output feed 'a {b}'", 2, 2)),
        "die Grenze für Einträge des Ausgabe-Feeds „a {b}“ ist erreicht: 2 von 2",
    ),
    (
        "the list can't be used: line 1: the list is empty, expected OPML",
        "die Liste ist nicht zu gebrauchen: Zeile 1: die Liste ist leer, erwartet wird OPML",
    ),
    ("there is no channel 'a b'", "einen Kanal „a b“ gibt es nicht"),
    ("a sentence that nobody knows", "a sentence that nobody knows"),
)


@pytest.mark.parametrize(("said", "wanted"), SAID)
def test_rendered_sentences_are_translated(said: str, wanted: str) -> None:
    """With its values, and within other sentences."""
    assert TEMPLATES.translated(said, "de") == wanted
    assert TEMPLATES.translated(said, "en") == said


def test_the_code_of_an_error_is_left_out() -> None:
    """A page shows the sentence after it."""
    said = "http: the server answered 500"
    assert TEMPLATES.translated(said, "en") == "the server answered 500"
    assert TEMPLATES.translated(said, "de") == "der Server antwortet mit 500"


@pytest.mark.parametrize(
    "found",
    [
        "isn't known, or has no public address",
        "isn't a public address",
        "is on this server's own machine, where only its users' pages are read",
    ],
)
def test_users_see_no_advice_on_settings(found: str) -> None:
    """Only the admin can change the list of allowed private networks."""
    said = f"inside.example {found}"
    assert TEMPLATES.translated(said, "en") == said
    assert TEMPLATES.translated(said, "de").startswith("inside.example ")
    assert TEMPLATES.translated(said, "de") != said


def test_each_reason_of_a_list_is_known() -> None:
    """The reasons are those for the lists of other readers."""
    lists = Path("tests/data/opml").glob("*.opml")
    reasons = {one.why for path in lists for one in read_list(path.read_bytes()).problems}
    assert reasons
    assert [why for why in reasons if TEMPLATES.translated(why, "de") == why] == []


def test_each_error_of_a_query_is_known() -> None:
    """Each place where a query is refused is reached; only the text that the user typed stays, in quotation marks."""
    tree = ast.parse(inspect.getsource(query))
    places = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    reached, english = set(), []
    for text, *_ in INVALID:
        with pytest.raises(query.QueryUnreadable) as refused:
            query.parsed(text, NOW)
        reached.add(refused.traceback[-1].lineno + 1)
        found, expected = refused.value.found, refused.value.expected
        said = TEMPLATES.translated(str(refused.value), "de")
        what, why = TEMPLATES.translated(found, "de"), TEMPLATES.translated(expected, "de")
        if not found.startswith("'"):  # a limit, which has a sentence of its own
            assert said.startswith("die Suche ist zu lang: sie kann höchstens ")
            continue
        assert said == f"die Suche ist bei {what} nicht zu verstehen: nötig ist {why}"
        english += [text for text, other in ((found, what), (expected, why)) if text == other and text[0] != "'"]
    assert (reached, english) == (places, [])


@pytest.mark.parametrize(
    ("seconds", "english", "german"),
    [
        (66, "checked every minute", "jede Minute abgefragt"),
        (300, "checked every 5 minutes", "alle 5 Minuten abgefragt"),
        (3600, "checked every hour", "jede Stunde abgefragt"),
        (5400, "checked every hour and a half", "alle anderthalb Stunden abgefragt"),
        (7200, "checked every 2 hours", "alle 2 Stunden abgefragt"),
        (86_400, "checked every day", "jeden Tag abgefragt"),
        (172_800, "checked every 2 days", "alle 2 Tage abgefragt"),
    ],
)
def test_intervals_are_in_words(seconds: int, english: str, german: str) -> None:
    for language, wanted in (("en", english), ("de", german)):
        assert str(TEMPLATES.macro("health.html", "polled", language)(seconds)).strip() == wanted


async def test_notices_are_in_the_language_of_the_page() -> None:
    """With the reason in it; posts of others in the same channel stay as they are."""
    text = (
        "“Blog” (https://a.example/feed) is gone: its publisher answers 410 Gone. It is no longer polled. Its earlier "
    )
    text += "posts remain. There is no need to follow it any longer."
    said = {"name": "Blog is gone", "content": {"html": text, "text": text}}
    other = {"name": "Blog is gone", "content": {"html": "Sad.", "text": "Sad."}}
    mention = {"content": {"html": "<b>Summer</b> is gone", "text": "Summer is gone"}}
    items = [
        {"type": "entry", "_id": "1", "_channel": {"uid": uid, "name": uid}, **wire}
        for uid, wire in (("home", said), *(("notifications", one) for one in (said, other, mention)))
    ]
    forms = PostForms(str, {}, "whole", said=lambda one: TEMPLATES.translated(one, "de"))
    shared, notice, foreign, mentioned = forms.views(items)
    assert notice.title == "Blog gibt es nicht mehr"
    assert "410 Gone" in notice.body
    assert "https://a.example/feed" in notice.body
    assert "nicht mehr abgefragt" in notice.body
    assert (shared.title, foreign.title) == ("Blog is gone", "Blog is gone")
    assert mentioned.body == "<b>Summer</b> is gone"


@pytest.mark.parametrize(("day", "wanted"), [("3 March 2026", "3. März 2026"), ("31 May 2026", "31. Mai 2026")])
def test_days_in_notices_have_the_months_of_the_page(day: str, wanted: str) -> None:
    """The text of a notice is stored in English; on the page its day is as all days are."""
    text = f"“Blog” could not be read since {day}. Last error: timeout. It is tried again once a day. Its earlier posts"
    text += " remain."
    german = TEMPLATES.translated(text, "de")
    assert wanted in german
    assert day not in german
    assert TEMPLATES.translated(text, "en") == text
    odd = TEMPLATES.translated(text.replace(day, "some day"), "de")
    assert "some day" in odd
