"""Odd phrases in docstrings, comments, messages and names of tests: counted by the kinds in `phrases.toml`.

`python scripts/phrases.py` prints each package with its phrases per 1,000 lines, `python scripts/phrases.py PACKAGE …`
the phrases of these packages. `scripts/house.py` compares them with `most_odd_phrases` in `[tool.house]`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TEXTS = re.compile(
    r'"""(?P<docstring>.+?)"""|#:? (?P<comment>[^\n]*)|def (?P<name>test_\w+)'
    r"""|"(?P<message>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL,
)
_SENTENCE = re.compile("[a-z]+ [a-z]+ ")
"""Other strings are keys, formats and the like."""
_CODE = re.compile(r"`[^`]*`|\bNone\b|https?://\S+|\{[^}]*\}")

Kinds = Mapping[str, re.Pattern[str]]


def kinds() -> Kinds:
    """The kinds of phrases, each with one expression of all its patterns."""
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {kind: re.compile("|".join(f"(?:{one})" for one in row["patterns"])) for kind, row in listed.items()}


def phrases(source: str, listed: Kinds, *, of_tests: bool = False) -> Iterator[tuple[int, str]]:
    """The odd phrases of a module, each with its line. Strings of tests are data, not messages."""
    for text in _TEXTS.finditer(source):
        group, words = text.lastgroup, text[text.lastgroup or 0]
        if group is None or (group == "message" and (of_tests or not _SENTENCE.search(words))):
            continue
        plain = " ".join(_CODE.sub("`", words.replace("_", " ") if group == "name" else words).lower().split())
        for kind, pattern in listed.items():
            for match in pattern.finditer(plain):
                line = source.count("\n", 0, text.start()) + 1
                yield line, f"{kind}: {plain[max(0, match.start() - 25) : match.end() + 25]}"


def packages(root: Path = ROOT) -> dict[str, tuple[int, list[str]]]:
    """Package → its lines and odd phrases; `tests` is one package, `microsub` the modules outside of packages."""
    listed, lines, odd = kinds(), Counter[str](), defaultdict[str, list[str]](list)
    for path in [*sorted(root.glob("microsub*/**/*.py")), *sorted(root.glob("tests/**/*.py"))]:
        parts, source = path.relative_to(root).parts, path.read_text("utf-8")
        of_tests = parts[0] == "tests"
        name = parts[1] if parts[0] == "microsub" and len(parts) > 2 else parts[0]
        lines[name] += source.count("\n")
        odd[name] += [f"{'/'.join(parts)}:{line}: {one}" for line, one in phrases(source, listed, of_tests=of_tests)]
    return {name: (lines[name], odd[name]) for name in lines}


def too_odd(found: Mapping[str, tuple[int, list[str]]], most: float) -> list[str]:
    """Packages with more than `most` odd phrases in 1,000 lines, with the phrases. Each package may have one."""
    return [
        "\n    ".join([f"{name}: {len(odd)} in {lines} lines, at most {most} in 1,000", *odd])
        for name, (lines, odd) in found.items()
        if len(odd) > max(1, most * lines / 1000)
    ]


def main() -> None:
    """Print the figures, or the phrases of the given packages."""
    for name, (lines, odd) in sorted(packages().items()):
        if not sys.argv[1:]:
            print(f"{name:16} {1000 * len(odd) / max(1, lines):4.1f}")
        elif name in sys.argv[1:]:
            print("\n".join(odd))


if __name__ == "__main__":
    main()
