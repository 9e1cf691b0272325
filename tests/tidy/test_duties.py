"""Endless loops and tasks stand in base/service.py only: elsewhere one unexpected exception would end a duty for good.

testing/ is left out: it holds the drivers of simulations, which await in place what they start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.tree import PACKAGE, named, parsed, sources

PLACE = PACKAGE / "base" / "service.py"
MODULES = [path for path in sources(".py") if path != PLACE and "testing" not in path.parts]
TASK_MAKERS = ("create_task", "ensure_future")


def endless_loops(tree: ast.AST) -> Iterator[ast.While]:
    """`while True` of coroutines, without a way out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            for loop in _own_nodes(node):
                if isinstance(loop, ast.While) and _is_constant(loop.test) and not _has_way_out(loop):
                    yield loop


def made_tasks(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that make a task, except those of a TaskGroup, which awaits it in place."""
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.unparse(item.context_expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            owner = function.value if isinstance(function, ast.Attribute) else None
            if name in TASK_MAKERS and not (isinstance(owner, ast.Name) and owner.id in groups):
                yield node


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or loop, without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def _is_constant(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _has_way_out(loop: ast.While) -> bool:
    return any(isinstance(node, ast.Return) for node in _own_nodes(loop)) or any(_breaks(node) for node in loop.body)


def _breaks(node: ast.AST) -> bool:
    """Does it end the loop around it, not one of its own?"""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.While | ast.For | ast.AsyncFor | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    return any(_breaks(child) for child in ast.iter_child_nodes(node))


def test_no_endless_loop_outside_service() -> None:
    loops = [f"{named(path)}:{node.lineno}" for path in MODULES for node in endless_loops(parsed(path))]
    assert loops == [], "use Service.every or Service.keep"


def test_no_task_is_made_outside_service() -> None:
    tasks = [f"{named(path)}:{node.lineno}" for path in MODULES for node in made_tasks(parsed(path))]
    assert tasks == [], "use Service.spawn: an error of a task that nobody owns is never seen"


@pytest.mark.parametrize(
    ("body", "loops", "tasks"),
    [
        ("while True:\n  await f()", 1, 0),
        ("while 1:\n  for each in g:\n    break", 1, 0),
        ("while True:\n  if await f():\n    break", 0, 0),
        ("while True:\n  def inner():\n    return 1\n  await f()", 1, 0),
        ("while True:\n  return await f()", 0, 0),
        ("asyncio.get_running_loop().create_task(f())", 0, 1),
        ("asyncio.ensure_future(f())", 0, 1),
        ("async with asyncio.TaskGroup() as tasks:\n  tasks.create_task(f())", 0, 0),
    ],
)
def test_the_rule_sees_what_it_should(body: str, loops: int, tasks: int) -> None:
    tree = ast.parse("async def f():\n" + "\n".join(f"  {line}" for line in body.split("\n")))
    assert (len([*endless_loops(tree)]), len([*made_tasks(tree)])) == (loops, tasks)
