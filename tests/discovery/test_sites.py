"""The table of sites is checked when it is loaded: an error names the row and the expected value."""

from __future__ import annotations

import pytest

from microsub.formats.feed_links.sites import sites, sites_of
from tests.support import cases

ROW = """
[words]
END = '/?'
[[site]]
name = "moss"
host = 'moss\\.example'
path = '/(?P<who>\\w+)%END%'
feeds = [{ url = "{origin}/{who}.atom", format = "atom" }]
"""


def test_a_row_is_read() -> None:
    """Named words in patterns are replaced by their values."""
    (site,) = sites_of(ROW)
    assert site.path.fullmatch("/ann/")
    assert (site.feeds[0].url, site.feeds[0].format) == ("{origin}/{who}.atom", "atom")


@pytest.mark.parametrize(
    ("right", "wrong", "message"), cases("a_wrong_row_is_an_error_that_names_it", "right", "wrong", "message")
)
def test_a_wrong_row_is_an_error_that_names_it(right: str, wrong: str, message: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(ValueError, match=f"site 'moss': .*{message}"):
        sites_of(ROW.replace(right, wrong))


def test_two_rows_of_one_name_are_an_error() -> None:
    """The name of a row finds its document in the tests."""
    row = ROW.partition("[[site]]")[2]
    with pytest.raises(ValueError, match="another row has the same name"):
        sites_of(f"{ROW}[[site]]{row}")


def test_the_table_is_there() -> None:
    """The installed package contains it."""
    assert len(sites()) >= 80
