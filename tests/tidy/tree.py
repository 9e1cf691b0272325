"""The source tree as the tidy tests see it, and how a list of exceptions shrinks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rocketlake"
TESTS = ROOT / "tests"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*endings: str) -> list[Path]:
    """The files of the package with these endings."""
    return sorted(path for ending in endings for path in PACKAGE.rglob(f"*{ending}"))


def named(path: Path) -> str:
    """A path as the lists of exceptions write it: from the package on."""
    return str(path.relative_to(PACKAGE))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its name, as `Class.function`; also those inside functions."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield inside + child.name, child
        deeper = f"{inside}{child.name}." if isinstance(child, Function | ast.ClassDef) else inside
        yield from functions(child, deeper)


def check_exceptions(found: Iterable[str], allowed: Iterable[str], cure: str) -> None:
    """The list of exceptions says exactly what breaks the rule: it may shrink, and then its line goes."""
    broken, listed = set(found), set(allowed)
    new, kept = sorted(broken - listed), sorted(listed - broken)
    assert not new, f"{cure}: {', '.join(new)}"
    assert not kept, f"take out of the list of exceptions what keeps the rule now: {', '.join(kept)}"
