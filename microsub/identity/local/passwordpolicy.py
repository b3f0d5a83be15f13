"""Which passwords may be chosen, and the one form in which they are compared. Pure.

NIST SP 800-63B-4, 3.1.1.2: length counts, composition rules don't; Unicode is brought to one form (RFC 8265 takes NFC,
which tells apart what keyboards and password managers write alike; NFKC doesn't).
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from microsub.errors import InvalidRequest

SHORTEST = 15
LONGEST = 256
"""Characters of a password; 15 is what NIST asks of one that no second factor stands beside."""

_FEWEST_DIFFERENT = 5
_OWN_PART = 8
"""Characters that must be left of a password when the user's name is taken out of it."""

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "password", "microsub", "letmein")

_PHRASES = (
    *("correcthorsebatterystaple", "thequickbrownfoxjumpsoverthelazydog", "loremipsumdolorsitamet"),
    *("tobeornottobethatisthequestion", "tobeornottobe", "maytheforcebewithyou", "allyourbasearebelongtous"),
    *("winteriscoming", "iloveyouverymuch", "openthepodbaydoors", "livelongandprosper", "nevergonnagiveyouup"),
    *("itwasthebestoftimes", "callmeishmael", "inthebeginningwastheword", "fourwordsatrandom", "passwordpassword"),
)
"""Examples and sayings that are long and that everybody knows, without spaces and punctuation."""


def normal(password: str) -> str | None:
    """The password as it is hashed and compared; None for what can't be anybody's, as it is too long or no text."""
    # NFKC makes some characters into eighteen, so the length is looked at before.
    if not password or len(password) > LONGEST:
        return None
    text = unicodedata.normalize("NFKC", password)
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs
        return None
    return text


def chosen(password: str, user: str) -> str:
    """A new password of `user` in its normal form. Raises InvalidRequest, which says what it should be like instead."""
    text = normal(password)
    if len(password) > LONGEST:
        raise InvalidRequest(f"the password has more than {LONGEST} characters")
    if text is None or len(text) < SHORTEST:
        raise InvalidRequest(f"the password has fewer than {SHORTEST} characters; a few words in a row will do")
    if any(unicodedata.category(letter) == "Cc" for letter in text):
        raise InvalidRequest("the password holds a line break, a tab or another control character")
    plain = text.casefold()
    if len(set(plain)) < _FEWEST_DIFFERENT:
        raise InvalidRequest("the password has too few different characters")
    if len(plain.replace(user.casefold(), "")) < _OWN_PART:
        raise InvalidRequest("the password is little more than the name of the user")
    if _is_common(plain):
        raise InvalidRequest("the password is a run of keys or a word that everybody tries first")
    if _is_known(plain):
        raise InvalidRequest("the password is a well-known phrase or example, which is tried first")
    return text


def _is_common(plain: str) -> bool:
    """Whether little is left besides runs like 12345678 or abcdef, rows of keys, and the words that are tried first."""
    rest = plain
    for row in _ROWS:
        rest = rest.replace(row, "").replace(row[::-1], "")
    return _without_runs(rest) < _FEWEST_DIFFERENT


def _is_known(plain: str) -> bool:
    """Whether little is left besides a well-known phrase, however it is spaced."""
    letters = "".join(letter for letter in plain if letter.isalnum())
    rests = (letters.replace(phrase, "") for phrase in _PHRASES if phrase in letters)
    return any(len(rest) < _FEWEST_DIFFERENT for rest in rests)


def _without_runs(text: str) -> int:
    """How many characters neither repeat nor follow the one before them, up or down."""
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(text)]
    return (1 if text else 0) + sum(step > 1 for step in steps)
