"""Every test can fail by what it compares: it asserts, expects an error, or calls a helper that does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.tidy.tree import PACKAGE, ROOT, TESTS, functions, parsed, sources

EXPECTING = {"raises", "warns", "fail", "deprecated_call"}  # of pytest
HELPERS = [*sorted(TESTS.rglob("*.py")), *sorted((PACKAGE / "testing").rglob("*.py")), *ROOT.glob("interop/*.py")]
TEST_FILES = [path for path in HELPERS if path.name.startswith("test_")]


def compares(nodes: Iterable[ast.AST]) -> bool:
    """Is there an assertion among these, or an error that is raised or expected as one?"""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Raise) and node.exc is not None and "AssertionError" in ast.unparse(node.exc))
        or (isinstance(node, ast.Attribute) and node.attr in EXPECTING and ast.unparse(node.value) == "pytest")
        for node in nodes
    )


def called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What is called or, by a fixture, returned to be called: `run` for run(), `.run` for world.run()."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield f".{node.func.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
            yield node.value.id


def asserting(trees: Iterable[ast.AST], methods_elsewhere: set[str]) -> set[str]:
    """Helpers that compare, themselves or through another helper.

    A method with the name of one of the product's methods does not count: nothing here tells whose it is.
    """
    bodies = []
    for tree in trees:
        for name, function in functions(tree):
            last = name.rpartition(".")[2]
            nodes = [*ast.walk(function)]
            if not function.args.args or function.args.args[0].arg != "self":
                bodies.append((last, nodes))
            elif last not in methods_elsewhere:
                bodies.append((f".{last}", nodes))
    found = {name for name, nodes in bodies if compares(nodes)}
    links = [(name, {*called(nodes)}) for name, nodes in bodies]
    while more := {name for name, names in links if name not in found and names & found}:
        found |= more
    return found


PRODUCT = {
    name.rpartition(".")[2]
    for path in sources(".py")
    if "testing" not in path.parts
    for name, _ in functions(parsed(path))
}
ASSERTING = asserting((parsed(path) for path in HELPERS), PRODUCT)


def silent(tree: ast.AST, helpers: set[str]) -> list[str]:
    """Tests without a comparison."""
    found = []
    for name, function in functions(tree):
        if name.rpartition(".")[2].startswith("test_") and is_collected(name):
            nodes = [*ast.walk(function)]
            if not compares(nodes) and not helpers & {*called(nodes)}:
                found.append(name)
    return found


def is_collected(name: str) -> bool:
    """Pytest collects functions of modules and of Test classes."""
    owner = name.rpartition(".")[0]
    return not owner or owner.startswith("Test")


def test_every_test_compares_something() -> None:
    found = [f"{path.relative_to(TESTS)}::{name}" for path in TEST_FILES for name in silent(parsed(path), ASSERTING)]
    assert found == [], "assert what must hold; that nothing raises shows little"


@pytest.mark.parametrize(
    ("body", "is_silent"),
    [
        ("assert f()", False),
        ("with pytest.raises(ValueError):\n  f()", False),
        ("check(f())", False),
        ("through(f())", False),
        ("world.check()", True),
        ("world.expect_order()", False),
        ("world.send()", True),
        ("f()", True),
        ("silent()", True),
        ("with suppress(ValueError):\n  f()", True),
    ],
)
def test_the_rule_sees_what_it_should(body: str, is_silent: bool) -> None:
    helpers = ast.parse(
        "def check(x):\n assert x\ndef through(x):\n check(x)\ndef silent():\n return 1\n"
        "class World:\n def expect_order(self):\n  assert self\n def send(self):\n  assert self"
    )
    tree = ast.parse("def test_one():\n" + "\n".join(f"  {line}" for line in body.split("\n")))
    assert bool(silent(tree, asserting([helpers], {"send"}))) == is_silent
