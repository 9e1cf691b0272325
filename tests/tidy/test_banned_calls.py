"""Calls that have one place, or none: a second clock, sleeping threads, code from text, words on standard output.

Tasks and endless loops: test_duties.py.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.tidy.tree import check_exceptions, named, parsed, sources

CODE_FROM_TEXT = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "marshal.loads", "pickle.loads"}
SECOND_CLOCKS: set[str] = set()
SLEEPING = {
    "spark/pipeline/runner.py",  # the driver's own thread watches queries of Spark; no event loop runs there
}
PRINTING = {
    # Programs of their own (python -m ...): what they print is their answer.
    "testing/replicas/search.py",
    "testing/replicas/simulation.py",
    "testing/simulation.py",
    "testing/seeded_run.py",
    "testing/transaction_search.py",
    "spark/pipeline/session.py",  # before Spark starts: a JVM takes seconds and says nothing
}


@cache
def calls(path: Path) -> set[str]:
    """Every call of a file as it is written: `print`, `time.sleep`, `asyncio.get_running_loop().time`."""
    return {ast.unparse(node.func) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)}


def callers(*names: str, outside: str = "") -> list[str]:
    """Files that call one of these; a name that starts with a dot is a method of any object."""
    return [
        named(path)
        for path in sources(".py")
        if not (outside and named(path).startswith(outside)) and any(is_one_of(call, names) for call in calls(path))
    ]


def is_one_of(call: str, names: tuple[str, ...]) -> bool:
    return any(call.endswith(name) if name.startswith(".") else call == name for name in names)


def test_there_is_one_clock() -> None:
    found = callers("loop.time", "get_running_loop().time", ".get_running_loop().time", outside="base/clock.py")
    check_exceptions(found, SECOND_CLOCKS, "ask base/clock.py: a simulation moves that clock only")


def test_nothing_sleeps_a_thread() -> None:
    check_exceptions(callers("time.sleep"), SLEEPING, "await the clock; a sleeping thread stops the event loop")


def test_only_commands_print() -> None:
    check_exceptions(callers("print", outside="cli/"), PRINTING, "log it, or return it to the command")


def test_no_code_is_made_from_text() -> None:
    shells = [
        f"{named(path)}:{node.lineno}"
        for path in sources(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "shell" and ast.unparse(keyword.value) != "False"
    ]
    assert shells == []
    assert callers(*CODE_FROM_TEXT) == []
