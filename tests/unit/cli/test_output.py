"""What a program gets from a command: JSON, JSON lines, YAML; errors as JSON; the exit code of each error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rocketlake.base.errors import (
    ConflictError,
    LinkError,
    NotThereError,
    RemoteError,
    RocketLakeError,
    StoreError,
    UsageError,
)
from rocketlake.cli import main as entry
from rocketlake.cli.command import CommandTree
from rocketlake.cli.exit_codes import MEANINGS, ExitCode, NotConfirmedError, exit_code_of
from rocketlake.cli.output import DryRun, Yes, agreed
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, show, show_line, tell, tell_rows
from rocketlake.cli.yaml_text import yaml_text
from rocketlake.client.errors import NoRoute, SendFailed
from rocketlake.net.network import CannotListen
from tests.tidy.tree import ROOT

app = CommandTree()
FORMS = ("json", "jsonl", "yaml")


@app.command("list")
def list_rows(output: Output = OUTPUT_DEFAULT) -> None:
    show(("name", "in/s", "disk %", "since"), [("a", 1234, None, Moment(1_000)), ("b", 0, 7, Moment(0))], output)


@app.command()
def change(yes: Yes = False, dry_run: DryRun = False) -> None:
    tell_rows("queues", ("queue", "new offset"), [(0, 17)])
    if agreed("set it", yes=yes, dry_run=dry_run, more="1 message is read again.", topic="orders"):
        tell("done", topic="orders", changed=1)


@app.command()
def stream() -> None:
    show_line({"offset": 1})
    show_line({"offset": 2})


@app.command()
def fail() -> None:
    tell("one of two was changed", changed=["a"])
    raise NotThereError("there is no topic 'x'", where="name server a:1", hint="look")


def parsed(form: str, text: str) -> Any:
    if form == "yaml":
        found = list(yaml.safe_load_all(text))
    else:
        found = [json.loads(line) for line in text.splitlines()]
    return found[0] if len(found) == 1 else found


def run(*words: str, given: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, words, input=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_objects_with_plain_numbers_and_times(form: str) -> None:
    rows = parsed(form, run("list", "-o", form)[1])
    assert [list(row) for row in rows] == [["name", "in_per_second", "disk_percent", "since"]] * 2
    assert [row["in_per_second"] for row in rows] == [1234, 0]
    assert (rows[0]["disk_percent"], rows[1]["since"]) == (None, None)
    since = rows[0]["since"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:01\.000[+-]\d\d:\d\d", since)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_command_tells_is_one_object(form: str) -> None:
    told = parsed(form, run("change", "--yes", "-o", form)[1])
    assert told == {"queues": [{"queue": 0, "new_offset": 17}], "topic": "orders", "changed": 1, "said": ["done"]}


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_is_an_object_each(form: str) -> None:
    assert parsed(form, run("stream", "-o", form)[1]) == [{"offset": 1}, {"offset": 2}]


def test_a_dry_run_says_it_and_ends_well() -> None:
    code, told, _ = run("change", "--dry-run", "-o", "json")
    assert (code, json.loads(told)["dry_run"]) == (0, True)
    assert run("change", "--dry-run")[1].endswith(
        "would set it (1 message is read again.)\ndry run: nothing was changed\n"
    )


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_a_no_changes_nothing(answer: str) -> None:
    code, told, asked = run("change", given=answer)
    assert (code, "done" in told) == (ExitCode.NOT_CONFIRMED, False)
    assert "set it? 1 message is read again. [y/N]" in told + asked


def test_nobody_can_answer() -> None:
    with pytest.raises(NotConfirmedError, match="--yes"):
        run("change", given="")


def test_an_error_is_a_line_of_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("rocketlake.cli.tree.app", app)
    monkeypatch.setattr("sys.argv", ["rocketlake", "fail", "-o", "json"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    out, err = capsys.readouterr()
    told = {"kind": "not_there", "what": "there is no topic 'x'", "where": "name server a:1", "cure": "look", "exit": 3}
    assert (ended.value.code, json.loads(err)) == (3, {"error": told})
    assert json.loads(out) == {"changed": ["a"], "said": ["one of two was changed"]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RocketLakeError("x"), 1),
        (StoreError("x"), 1),
        (RemoteError("x", code=1), 1),
        (UsageError("x"), 2),
        (NotThereError("x"), 3),
        (NoRoute("orders", ["a:1"]), 3),
        (RemoteError("x", code=17), 3),
        (ConflictError("x"), 4),
        (NoRoute("orders", ["a:1"], is_read_only=True), 4),
        (RemoteError("x", code=18), 4),
        (RemoteError("x", code=16), 5),
        (SendFailed("T", [("a", RemoteError("x", code=16))], timeout_ms=1, timed_out=False), 5),
        (SendFailed("T", [("a", LinkError("x"))], timeout_ms=1, timed_out=False), 1),
        (LinkError("x"), 6),
        (CannotListen("127.0.0.1", 1, OSError(98, "in use")), 1),
        (NotConfirmedError("x"), 9),
    ],
)
def test_an_error_has_its_exit_code(error: RocketLakeError, code: int) -> None:
    assert exit_code_of(error) == code


def test_the_page_has_all_exit_codes() -> None:
    page = (ROOT / "docs" / "how-to" / "cli.md").read_text()
    assert re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE) == [
        (str(int(code)), meaning) for code, meaning in MEANINGS.items()
    ]
    assert set(MEANINGS) == set(ExitCode)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(texts, each, max_size=4),
    max_leaves=12,
)


@given(values)
def test_yaml_reads_back(value: object) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.parametrize(
    "text",
    ["yes", "null", "1.5", "0x1f", "1_000", "~", "a: b", "- a", "a #b", "", " a", "12:30", "=", "%", "2026-11-26"],
)
def test_yaml_keeps_texts(text: str) -> None:
    assert yaml.safe_load(yaml_text({"key": [text]})) == {"key": [text]}
