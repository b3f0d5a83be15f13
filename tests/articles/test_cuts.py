"""Twenty feeds made to be cut or whole: the automatic choice is right for nineteen at least."""

from __future__ import annotations

import pytest

from microsub.articles.cuts import JUDGED, VOTED, Judgement, is_cut
from microsub.base.clock import DAY


def words(count: int, start: int = 0) -> str:
    return " ".join(f"word{number}" for number in range(start, start + count))


HERE, THERE = "https://paper.example/1", "https://other.example/1"

FEEDS = {
    "the first paragraph and an ellipsis": (words(60) + "…", words(900), HERE, True),
    "WordPress' excerpt": (words(55) + " [&hellip;]".replace("&hellip;", "…"), words(400), HERE, True),
    "a sentence written for the feed": ("Nobody knows where the ferry is.", words(700), HERE, True),
    "no text at all": ("", words(500), HERE, True),
    "half of it, with a link to the rest": (words(350) + " Continue reading →", words(900), HERE, True),
    "WordPress' last line": (words(50) + " The post One appeared first on The Paper.", words(300), HERE, True),
    "the first sentence in German": (words(30) + " Weiterlesen", words(400), HERE, True),
    "an extract of another site's page": (words(80), words(800), THERE, True),
    "three hundred words of two thousand, marked": (words(300) + " [...]", words(2000), HERE, True),
    "the title again": ("The ferry is late", words(350), HERE, True),
    "the whole essay": (words(2000), words(2010), HERE, False),
    "the whole essay, with comments on the page": (words(1200), words(4000), HERE, False),
    "a short post, whole": (words(90), words(95), HERE, False),
    "a short post and two comments": (words(120), words(170), HERE, False),
    "a comic with a line": ("The secret text", words(40), HERE, False),
    "a link blog": (words(60, 5000), words(1500), THERE, False),
    "a link and nothing else": ("Comments", words(1500), THERE, False),
    "release notes, longer than their page": (words(200), words(60), HERE, False),
    "a weather report": (words(50), words(100), HERE, False),
    "a newsletter with a footer on the page": (words(800), words(1000), HERE, False),
}


def test_nineteen_of_twenty_feeds_are_recognised() -> None:
    right = [name for name, (own, there, link, cut) in FEEDS.items() if is_cut(own, there, link, HERE) is cut]
    assert len(FEEDS) == 20
    assert len(right) >= 19, set(FEEDS) - set(right)


def test_three_comparisons_decide_and_later_ones_change_it() -> None:
    found = Judgement.of({}, 0.0)
    verdicts = []
    for cut in (True, True, False, False, False, True, True):
        found = found.after(is_cut=cut, now=0.0)
        verdicts.append(found.is_cut)
    assert verdicts == [None, None, True, False, False, False, True]


@pytest.mark.parametrize(("days", "wanted"), [(29, False), (31, True)])
def test_a_feed_with_whole_posts_is_compared_again_after_a_month(days: int, wanted: bool) -> None:
    extra = {VOTED: "www", JUDGED: "1000"}
    assert Judgement.of(extra, 1000 + days * DAY).wants(0) is wanted
