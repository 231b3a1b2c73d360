# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of the planner's code that mutants.py changes, and the changed code.

A mutant compares another way, takes `and` for `or`, leaves `not` out, adds instead of subtracting,
has another number or truth value, or returns nothing. Texts stay: the golden files of sentences
judge them. So do annotations, which nothing evaluates, and tables of numbers.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PLANNER = Path(__file__).resolve().parents[2] / "plugins/plugin_utils/_planner"
Change = Callable[[], None]
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
LONGEST = 90  # characters of code in a key
# `-` of these fails at once, in whatever test comes first
TEXTS = (
    ast.JoinedStr,
    ast.List,
    ast.Tuple,
    ast.ListComp,
)


@dataclass(frozen=True)
class Site:
    """A place to change. index: its number in its file; key: what is changed, without a line, so
    that it outlives other edits.
    """

    path: str
    function: str
    line: int
    index: int
    key: str


@dataclass(frozen=True)
class Mutation:
    """A place in a tree, and what changes the tree there."""

    node: ast.AST
    function: str
    change: Change


class Finder(ast.NodeVisitor):
    """Lists the mutations of a tree in the order of the text."""

    def __init__(self) -> None:
        self.found: list[Mutation] = []
        self.names: list[str] = []
        self.depth = 0  # of the tuples around

    def add(self, node: ast.AST, change: Change) -> None:
        self.found.append(Mutation(node, ".".join(self.names) or "<module>", change))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for one in node.body:
            self.visit(one)
        self.names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        for default in defaults:
            self.visit(default)
        self.names.append(node.name)
        for one in node.body:
            self.visit(one)
        self.names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            self.add(node, lambda: node.ops.__setitem__(0, COMPARED[type(node.ops[0])]()))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.add(
            node,
            lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()),
        )
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            # bool() keeps the type, so that only the sense is another.
            self.add(node, lambda: setattr(node, "op", None))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        texts = any(
            isinstance(side, TEXTS)
            or (isinstance(side, ast.Constant) and not isinstance(side.value, int))
            for side in sides
        )
        if isinstance(node.op, ast.Add | ast.Sub) and not texts:
            self.add(
                node,
                lambda: setattr(
                    node, "op", ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
                ),
            )
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.depth > 1 and not self.names:
            # of a row of a table, which repeats what upstream says: a test could only repeat it
            # once more
            return
        if isinstance(node.value, bool):
            self.add(node, lambda: setattr(node, "value", not node.value))
        elif isinstance(node.value, int):
            self.add(node, lambda: setattr(node, "value", node.value + 1))  # type: ignore[operator]

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.add(node, lambda: setattr(node, "value", ast.Constant(None)))
        self.generic_visit(node)


class Positive(ast.NodeTransformer):
    """Puts bool(x) where a `not x` has lost its operator."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return (
            ast.Call(ast.Name("bool", ast.Load()), [node.operand], []) if node.op is None else node
        )


def list_mutations(tree: ast.Module) -> list[Mutation]:
    """Return the mutations of a tree in the order of the text."""
    finder = Finder()
    finder.visit(tree)
    return finder.found


def mutate(source: str, index: int) -> ast.Module:
    """Return the tree of a source with its mutation of that number."""
    tree = ast.parse(source)
    list_mutations(tree)[index].change()
    Positive().visit(tree)
    return ast.fix_missing_locations(tree)


def find_sites(planner: Path) -> Iterator[Site]:
    """Yield all places of the planner that can be changed."""
    for path in sorted(planner.rglob("*.py")):
        yield from find_sites_in(str(path.relative_to(planner)), path.read_text())


def find_sites_in(path: str, source: str) -> Iterator[Site]:
    """Yield the places of one file. Equal changes of one function are numbered."""
    counts: Counter[str] = Counter()
    for index, mutation in enumerate(list_mutations(ast.parse(source))):
        key = f"{path}:{mutation.function}: {describe(mutation)}"
        counts[key] += 1
        numbered = key if counts[key] == 1 else f"{key} #{counts[key]}"
        yield Site(path, mutation.function, getattr(mutation.node, "lineno", 0), index, numbered)


def describe(mutation: Mutation) -> str:
    """Return what is changed into what."""
    node = mutation.node
    before = ast.unparse(node)
    mutation.change()
    after = (
        f"bool({ast.unparse(node.operand)})" if isinstance(node, ast.UnaryOp) else ast.unparse(node)
    )
    return f"{shorten(before)} -> {shorten(after)}"


def shorten(text: str) -> str:
    """Return a text that fits into a row of a table."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def sample(sites: Sequence[Site], count: int, seed: int) -> list[Site]:
    """Return so many sites. One that stays as it is stays in the sample, whatever happens to
    others.
    """
    ranked = sorted(sites, key=lambda site: hashlib.sha256(f"{seed} {site.key}".encode()).digest())
    return sorted(ranked[:count], key=lambda site: (site.path, site.index))
