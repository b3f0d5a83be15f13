"""Translations of the pages: `python scripts/texts.py` updates and compiles the catalogues.

Each folder with pages has a catalogue for each language, `texts/<language>.po`, which people edit; the server reads the
`.mo` next to it. English texts are in the code: in templates (`_("…")`, `{% trans %}`), in Python (`N_("…")`,
`Sentence("…")`, `translate_count`), and in tables of sentences (`*.toml`). The script adds new texts without a
translation and removes unused ones. With `--missing`, it prints untranslated texts and writes nothing.
"""

from __future__ import annotations

import ast
import gettext
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from jinja2 import Environment

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "microsub"
LANGUAGES = ("de",)
FURTHER = {
    "identity/pages": ("accounts", "greader", "identity", "identity/store", "identity/page_check"),
    "reader/reading": ("reader",),
    "web": ("base",),
    "reader/feeds": ("feeds", "model", "polling", "timelines"),
    "reader/settings": ("transfer", "webpush"),
}
"""Folders whose modules use texts of another folder's catalogue."""

Text = tuple[str, str]
"""A text and its plural, which may be empty."""


def folders() -> list[Path]:
    """Every folder with pages."""
    return sorted(path.parent for path in PACKAGE.rglob("templates") if path.is_dir())


def texts(folder: Path) -> dict[Text, list[str]]:
    """The texts of a folder, each with the files that use it."""
    found: dict[Text, list[str]] = {}
    beside = [PACKAGE / name for name in FURTHER.get(str(folder.relative_to(PACKAGE)), ())]
    written = [path for place in (folder, folder / "templates", *beside) for path in place.glob("*.*")]
    for path in sorted(path for path in written if path.suffix in _READERS):
        said = _READERS[path.suffix](path)
        for text in said:
            files = found.setdefault(text, [])
            if (place := str(path.relative_to(ROOT))) not in files:
                files.append(place)
    return found


def _in_template(path: Path) -> Iterator[Text]:
    environment = Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    environment.policies["ext.i18n.trimmed"] = True
    for _, _, said in environment.extract_translations(path.read_text("utf-8")):  # type: ignore[attr-defined]
        one, many = said[:2] if isinstance(said, tuple) else (said, "")
        if one:
            yield one, many or ""


def _in_module(path: Path) -> Iterator[Text]:
    plural: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "translate_count":
            one, many = node.args[0], node.args[1]
            plural |= {id(one), id(many)}
            yield _marked(one), _marked(many)
        elif name in {"N_", "Sentence"} and id(node) not in plural and isinstance(node.args[0], ast.Constant):
            yield _marked(node), ""


def _in_table(path: Path) -> Iterator[Text]:
    """The texts of a table of sentences, from the columns that people read."""
    for row in tomllib.loads(path.read_text("utf-8")).values():
        if not isinstance(row, dict):  # a list of things, not sentences
            continue
        said = "shown" if "shown" in row else "text"
        yield from ((row[column], "") for column in ("about", said, "fix") if row.get(column))


def _marked(node: ast.expr) -> str:
    return str(ast.literal_eval(node.args[0])) if isinstance(node, ast.Call) else ""


_READERS = {".html": _in_template, ".py": _in_module, ".toml": _in_table}


def write(folder: Path, language: str) -> list[str]:
    """Update a catalogue and compile it; returns untranslated texts."""
    path = folder / "texts" / f"{language}.po"
    path.parent.mkdir(exist_ok=True)
    edited, compiled, lacking = catalogue(folder, language)
    path.write_bytes(edited)
    path.with_suffix(".mo").write_bytes(compiled)
    return lacking


def catalogue(folder: Path, language: str) -> tuple[bytes, bytes, list[str]]:
    """The contents of the catalogue's two files, and the untranslated texts; writes nothing."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po, write_po

    path = folder / "texts" / f"{language}.po"
    known = read_po(path.open("rb"), locale=language) if path.exists() else Catalog(locale=language)
    header = f"# Texts of {folder.relative_to(PACKAGE)} in {language}; `python scripts/texts.py` adds what is new."
    about = {"project": "microsub-server", "version": "1", "msgid_bugs_address": "-", "last_translator": "-"}
    times = {"creation_date": _NO_TIME, "revision_date": _NO_TIME}
    made = Catalog(language, fuzzy=False, header_comment=header, language_team="-", **about, **times)
    for (one, many), files in sorted(texts(folder).items()):
        before = known.get(one)
        said = before.string if before is not None else ""
        made.add((one, many) if many else one, said, locations=[(file, None) for file in files])
    edited, compiled = BytesIO(), BytesIO()
    write_po(edited, made, width=120, sort_output=True, omit_header=False)
    write_mo(compiled, made)
    lacking = [str(message.id) for message in made if message.id and not _is_whole(message.string)]
    return edited.getvalue(), compiled.getvalue(), lacking


def _is_whole(said: object) -> bool:
    return all(said) if isinstance(said, tuple | list) else bool(said)


def missing(folder: Path, language: str) -> list[str]:
    """The texts of a folder that are missing from the compiled catalogue."""
    path = folder / "texts" / f"{language}.mo"
    known = gettext.NullTranslations()
    if path.exists():
        with path.open("rb") as file:
            known = gettext.GNUTranslations(file)
    known.add_fallback(_Missing())
    said = {text: known.ngettext(*text, 2) if text[1] else known.gettext(text[0]) for text in texts(folder)}
    return [one for (one, _), translated in said.items() if not translated]


_NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Replaces the time of writing, so that equal texts make equal files."""


class _Missing(gettext.NullTranslations):
    """Has no translations: every text is empty."""

    def gettext(self, message: str) -> str:
        return ""

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return ""


def main() -> int:
    """Write all catalogues, or print missing texts."""
    is_looking = "--missing" in sys.argv[1:]
    lacking = 0
    for folder in folders():
        for language in LANGUAGES:
            found = missing(folder, language) if is_looking else write(folder, language)
            lacking += len(found)
            for text in found:
                print(f"{folder.relative_to(PACKAGE)}: {language}: {text}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
