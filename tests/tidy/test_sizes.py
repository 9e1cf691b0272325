"""Limits of size: files, functions, parameters, folders. What is over a limit today is named here; no list may grow."""

from __future__ import annotations

import ast

from tests.tidy.tree import PACKAGE, check_exceptions, functions, named, parsed, sources

FILE_LINES = 600
FUNCTION_LINES = 70
POSITIONAL = 6
FOLDER_FILES = 15

LONG_FILES = {
    "codec/record_columns.pyx",  # one kernel: a record's columns are filled in one pass over its bytes
}
LONG_FUNCTIONS: set[str] = set()
MANY_PARAMETERS = {
    "broker/clients/consumers.py:ConsumerTable.register",
    "namesrv/dispatch_table.py:rows",
    "spark/sink/plain_rows.py:PlainRows.encode",
    # These are called for every message or every read: a call by name costs more.
    "store/dispatch_scan.py:DispatchEntry.__init__",
    "store/dispatch_scan.py:appended_entry",
    "store/reads.py:StoreReads.get",
    "store/selection.py:Selection.__init__",
    "store/log_walk.py:LogWalk.__init__",
    "testing/workload.py:Receiver.__init__",
    "testing/workload.py:Sender.__init__",
}
LARGE_FOLDERS = {
    "broker/processors",  # one file for each family of requests
    "broker/wings",  # one file for each feature
    "cli",  # one file for each command
    "client/consumer",
    "model",  # one file for each thing
    "net",
    "protocol/bodies",  # one file for each body
    "protocol/headers",  # one file for each family of requests
    "spark/lake",
    "spark/pipeline",
    "spark/scan",
    "spark/source",
    "store",
    "testing",
}


def test_no_file_is_too_long() -> None:
    long = [named(path) for path in sources(".py", ".pyx") if len(path.read_text().splitlines()) > FILE_LINES]
    check_exceptions(long, LONG_FILES, f"split them: a file has at most {FILE_LINES} lines, 150 to 250 is usual")


def test_no_function_is_too_long() -> None:
    long = [
        f"{named(path)}:{name}"
        for path in sources(".py")
        for name, function in functions(parsed(path))
        if (function.end_lineno or 0) - function.lineno >= FUNCTION_LINES
    ]
    check_exceptions(long, LONG_FUNCTIONS, f"split them: a function has at most {FUNCTION_LINES} lines, rarely over 30")


def test_no_function_takes_too_many_positional_parameters() -> None:
    many = [
        f"{named(path)}:{name}"
        for path in sources(".py")
        for name, function in functions(parsed(path))
        if positional(function.args) > POSITIONAL and not is_command(function)
    ]
    check_exceptions(many, MANY_PARAMETERS, f"at most {POSITIONAL} parameters may be positional; put * before the rest")


def positional(arguments: ast.arguments) -> int:
    return len([each for each in (*arguments.posonlyargs, *arguments.args) if each.arg not in ("self", "cls")])


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is it a command of the terminal? typer passes its options by name."""
    return "typer.Option(" in ast.unparse(function.args)


def test_no_folder_is_a_drawer() -> None:
    folders = {path.parent for path in sources(".py", ".pyx")}
    large = [
        str(folder.relative_to(PACKAGE))
        for folder in folders
        if len([path for path in folder.iterdir() if path.suffix in (".py", ".pyx")]) > FOLDER_FILES
    ]
    check_exceptions(large, LARGE_FOLDERS, f"make rooms: a folder holds at most {FOLDER_FILES} modules")
