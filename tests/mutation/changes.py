"""The small changes that cosmic-ray can make to a module, without those that nobody would notice by their place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec


@dataclass(frozen=True)
class Change:
    """One of them."""

    spec: MutationSpec

    @property
    def place(self) -> tuple[int, int]:
        """Line, from 1, and column."""
        line, column = self.spec.start_pos
        return line, column

    def made(self, source: str) -> str:
        """The source with it."""
        operator = get_operator(self.spec.operator_name)(**(self.spec.operator_args or {}))
        changed = mutate_code(source, operator, self.spec.occurrence)
        assert isinstance(changed, str)
        return changed


def changes_of(module: Path) -> list[Change]:
    """By their places; in one order each time."""
    with TemporaryDirectory() as folder, use_db(str(Path(folder, "changes")), WorkDB.Mode.create) as found:
        init([module], found, {})
        specs = [spec for item in found.work_items for spec in item.mutations if not says_nothing(spec)]
    order = {name: number for number, name in enumerate(operator_names())}
    specs.sort(key=lambda spec: (spec.start_pos, order[spec.operator_name], spec.occurrence))
    return [Change(spec) for spec in specs]


def says_nothing(spec: MutationSpec) -> bool:
    """Whether it is within an annotation, which nobody evaluates, or says whether objects can be altered."""
    return any(start <= spec.start_pos and spec.end_pos <= end for start, end in _spans(Path(spec.module_path)))


@cache
def _spans(module: Path) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    return tuple(
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in _unevaluated(ast.parse(module.read_text()))
    )


def _unevaluated(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.ClassDef):
            yield from node.decorator_list
            yield from (keyword.value for keyword in node.keywords)
