"""The head of a module: it says what the module owns, and what it must not know is not imported."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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


def test_what_a_head_forbids_is_not_imported() -> None:
    broken = [
        f"{named(path)}: must not know {word}, but imports {name}"
        for path in MODULES
        for word in forbidden(head(path))
        for name in imports(path)
        if any(name == banned or name.startswith(f"{banned}.") for banned in PACKAGES[word])
    ]
    assert broken == [], "mend the head, or the imports"


def test_the_rule_sees_what_it_should(tmp_path: Path) -> None:
    path = tmp_path / "part.py"
    path.write_text('"""A part.\n\nOwns  x. Must not know   queues, Spark.\n"""\nimport pyspark.sql')
    assert forbidden(head(path)) == {"Spark"}
    assert imports(path) == {"pyspark.sql"}
