"""The head of a module: it says what the module owns, and what it must not know is not imported."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import check_exceptions, named, parsed, sources

MODULES = [path for path in sources(".py") if path.name not in ("__init__.py", "__main__.py")]
PACKAGES = {
    "a socket": ("socket", "ssl"),
    "sockets": ("socket", "ssl"),
    "the network": ("socket", "ssl", "rocketlake.net"),
    "asyncio": ("asyncio",),
    "clocks": ("time", "rocketlake.base.clock"),
    "the clock": ("time", "rocketlake.base.clock"),
    "Spark": ("pyspark",),
    "the store": ("rocketlake.store",),
    "requests": ("rocketlake.net.request.Request",),
    "the wire": ("rocketlake.protocol",),
}
"""What a head may forbid, and the imports that would break it. Words beyond these are for people."""


def head(path: Path) -> str:
    return ast.get_docstring(parsed(path)) or ""


def forbidden(text: str) -> set[str]:
    """The words of this list that stand, alone between commas, after "Must not know"."""
    found = re.search(r"Must not know\s+(.*?)(?:[.;:(]|\n\n|$)", text, re.DOTALL)
    words = re.split(r",|\bor\b|\bnor\b", " ".join(found[1].split())) if found else []
    return {word.strip() for word in words} & PACKAGES.keys()


def imports(path: Path) -> set[str]:
    """Modules whose values are used at run time; those imported for a checker only are left out."""
    found = set()
    for node in runtime(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def runtime(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        found += [child, *runtime(child)]
    return found


def test_each_module_says_what_it_owns_and_must_not_know() -> None:
    silent = [
        named(path)
        for path in MODULES
        if not re.search(r"^Owns\s", head(path), re.MULTILINE) or "Must not know" not in head(path)
    ]
    check_exceptions(silent, (), 'say it in the docstring of the module: "Owns ...", "Must not know ..."')


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_what_a_head_forbids_is_not_imported(path: Path) -> None:
    banned = {name for word in forbidden(head(path)) for name in PACKAGES[word]}
    broken = {name for name in imports(path) if any(name == one or name.startswith(f"{one}.") for one in banned)}
    assert broken == set(), "mend the head, or the imports"
