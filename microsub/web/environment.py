"""The environment of templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, nodes
from jinja2.visitor import NodeTransformer
from markupsafe import Markup


def environment_of(folders: Sequence[Path], translate: Callable[[str], str]) -> Environment:
    """An environment for the templates in these folders, which escapes values and has translations.

    A text without values, `_("Saved")`, is translated when its template is compiled: a page has some two hundred.
    """
    made = _Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.i18n"],
    )
    made.policies["ext.i18n.trimmed"] = True
    made.fixed = _FixedTexts(translate)
    return made


class _FixedTexts(NodeTransformer):
    """Puts a translation in place of each call that has only a text."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        self._translate = translate

    def visit_Call(self, node: nodes.Call, *more: Any, **named: Any) -> nodes.Node:  # noqa: N802 - the visitor's name
        match node:
            case nodes.Call(node=nodes.Name(name="_"), args=[nodes.Const(value=str(text))], kwargs=[]):
                return nodes.Const(Markup(self._translate(text)) % {}, lineno=node.lineno)  # noqa: S704 - our own texts
        return self.generic_visit(node, *more, **named)


class _Environment(Environment):
    fixed: _FixedTexts

    def _parse(self, *source: Any) -> nodes.Template:
        parsed: nodes.Template = self.fixed.visit(super()._parse(*source))
        return parsed
