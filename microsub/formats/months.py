"""Names of months and zones as they occur in the dates of feeds; data for `dates`."""

from __future__ import annotations

import unicodedata

# The first three or four letters, without accents. English, German, French, Spanish, Italian, Portuguese, Dutch, the
# Scandinavian languages, Polish, Czech, Romanian, Hungarian, Turkish, Greek, Russian and Ukrainian.
_NAMES = (
    "jan janv ene gen ian led sty oca ιαν янв січ",
    "feb fev fevr unor lut sub φεβ фев лют",
    "mar mars marz mrt mrz maer brez μαρ мар бер",
    "apr avr abr kwi dub nis απρ апр кві",
    "may mai mag mei maj kve μαι май мая тра",
    "jun juin giu iun cze cerv haz ιουν июн чер",
    "jul juil lug iul lip tem ιουλ июл лип",
    "aug aou aout ago sie srp agu αυγ авг сер",
    "sep set sept wrz zari eyl σεπ сен вер",
    "oct okt ott out paz rij eki οκτ окт жов",
    "nov noie lis kas νοε ноя лис",
    "dec des dez dic gru pros ara δεκ дек гру",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}

# Minutes east of Greenwich. Names that several countries use mean the one with the most feeds.
_ZONES = {
    "utc ut gmt z wet": 0, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600, "ast": -240, "adt": -180, "nst": -210,
    "brt art": -180, "bst west cet met mez": 60, "cest mest mesz eet sast": 120, "eest msk": 180, "msd": 240,
    "ist": 330, "sgt hkt awst": 480, "jst kst": 540, "acst": 570, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780,
}  # fmt: skip
ZONES = {name: minutes for names, minutes in _ZONES.items() for name in names.split()}

# Between summer and winter time these differ: what is meant is the time of that place. In capitals only.
PLACES = {"ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver", "PT": "America/Los_Angeles"}


def plain_word(word: str) -> str:
    """`word` in small letters without accents: `Décembre` and `decembre` are one."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))
