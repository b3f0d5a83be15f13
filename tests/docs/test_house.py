"""Each rule of `scripts/house.py` finds its violations. `scripts/check` applies the rules to the product."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import house, phrases

FILES = {
    "pyproject.toml": "[tool.house]\nmost_odd_phrases = 2\n[tool.house.budget]\nposts = [2, 60]\n",
    "microsub/posts/a.py": "from microsub.posts import b\n\nclass _Own: ...\n\nclass Post(_Own): ...\n\nb.Post(Post)\n",
    "microsub/posts/b.py": "class Post: ...\n\nclass _Own: ...\n\ndef lonely(): ...\n",
    "microsub/posts/lua/add.lua": "-- what\n-- nobody has told\tof\nreturn 1\n",
    "microsub_demo/c.py": "class _Own: ...\n",
    "microsub/redis/keys.py": 'read = key("r")\n\nwritten = key("w")\n',
    "microsub/redis/use.py": (
        "from microsub.redis import keys\n\n"
        'def use(redis): return redis([("SET", keys.written()), ("GET", keys.read())])\n\nuse(use)\n'
    ),
    "microsub/posts/store.py": (
        "from microsub.redis import keys\n\ndef get(redis): return redis.command('GET', keys.read())\n\nget(get)\n"
    ),
    "microsub/posts/use_case.py": (
        "import click\n\nfrom microsub.redis import keys\n\n@group.command('x')\ndef x(): ...\n\n"
        "def get(store): return store.ask([('GET', keys.read())])\n\nclick.command(get, x)\n"
    ),
    "docs/page.md": "It is mended and amended, by a bearer.\n",
    "docs/reference/glossary.md": "| repair | not: mend |\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> house.Tree:
    """A small repository that breaks every rule once."""
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return house.Tree(tmp_path)


def test_a_repeated_class_name_is_found(tree: house.Tree) -> None:
    """Public classes have one name; private ones don't count."""
    assert house.repeated_classes(tree) == ["class Post: microsub/posts/a.py:5, microsub/posts/b.py:1"]


def test_banned_words_are_found(tree: house.Tree) -> None:
    """They are found in Lua and documents, with several blanks and as whole words; the glossary may name them."""
    assert house.banned_words(tree) == ["microsub/posts/lua/add.lua:2: told of", "docs/page.md:1: mended"]


def test_functions_without_caller_are_found(tree: house.Tree) -> None:
    """A public function that the product never names has no caller."""
    assert house.callers.unused(tree.modules, tree.root) == ["microsub/posts/b.py:5: lonely"]


def test_a_key_that_is_written_and_never_read_is_found(tree: house.Tree) -> None:
    """A key that only occurs in writing commands has no reader."""
    assert house.unread_keys(tree) == ["microsub/redis/keys.py:3: written"]


def test_redis_commands_outside_of_stores_are_found(tree: house.Tree) -> None:
    """Sent or named for others to send; and a store that sends none is found too. Commands of click don't count."""
    assert house.without_store(tree, ["posts/store", "posts/b"]) == [
        "posts/use_case: sends commands to Redis and is no store",
        "posts/b: is no store any more",
    ]


def test_a_package_over_its_budget_is_found(tree: house.Tree) -> None:
    """By modules or by lines, or if it has no budget or no longer exists."""
    found = {"posts": (3, 50), "polling": (2, 61), "kit": (1, 1)}
    budget = {"posts": [2, 60], "polling": [2, 60], "old": [1, 1]}
    assert [line.partition(":")[0] for line in house.over_budget(found, budget)] == ["posts", "polling", "kit", "old"]
    assert house.sizes(tree)["posts"] == (4, 30)


def test_the_check_fails_where_a_number_is_exceeded(tree: house.Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints sizes and cases, and exits with 1; with sufficient limits, it exits with 0."""
    assert house.main(tree.root) == 1
    assert "banned_words: 2, allowed 0\n  microsub/posts/lua/add.lua:2: told of" in capsys.readouterr().out
    counted = "most_odd_phrases = 2\nrepeated_classes = 1\nbanned_words = 2\nwithout_caller = 1\nunread_keys = 2\n"
    counted += 'stores = ["posts/store", "posts/use_case"]\n'
    budget = "[tool.house.budget]\nposts = [4, 30]\nmicrosub_demo = [1, 1]\nredis = [2, 8]\n"
    (tree.root / "pyproject.toml").write_text("[tool.house]\n" + counted + budget)
    assert house.main(tree.root) == 0
    assert "unread_keys: 1, allowed 2: lower the number" in capsys.readouterr().out


ODD = """
with a lock, who asks for much at once waits for themselves alone
what isn't ours is as nothing
the messages of code which know no translation
a sentence, of which pages say the translation
parameters with values that are nobody else's affair
jobs that end unnoticed, and what goes astray
as many of them are unread as are to be
the hub is asked ever less
"""


@pytest.mark.parametrize("odd", ODD.strip().splitlines())
def test_odd_phrases_are_found(odd: str) -> None:
    """In docstrings, comments and messages, but not in code."""
    listed = phrases.kinds()
    for source in (f'"""{odd}."""\n', f"x = 1  # {odd}\n", f'raise ValueError("{odd}")\n'):
        assert list(phrases.phrases(source, listed)), source
    assert not list(phrases.phrases(f'"""A user with many requests delays only `{odd}`."""\n', listed))


def test_odd_names_of_tests_are_found(tmp_path: Path) -> None:
    """Data of tests doesn't count, and one phrase in a package is allowed."""
    names = ("what_comes_next", "who_lies_registers_nobody")
    source = "".join(f"def test_{name}() -> None:\n    x = 'it says so'\n" for name in names)
    for count in (1, 2):
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / "test_a.py").write_text("".join(source.splitlines(True)[: 2 * count]))
        assert len(phrases.too_odd(phrases.packages(tmp_path), 2)) == count - 1
