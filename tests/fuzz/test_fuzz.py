"""A little of each target of the fuzzer, by the seeds of this commit, and all that it found. More: `make fuzz`."""

from __future__ import annotations

import ast
import hashlib
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz import target as fuzz
from tests.fuzz.all_targets import TARGETS
from tests.fuzz.server_targets import CHECKS, dispatchers, of_code
from tests.fuzz.target import Finding, Target, keep, kept, play, read_case
from tests.seeds import drawn


@pytest.mark.parametrize("name", TARGETS)
def test_no_case_does_harm(name: str) -> None:
    target = TARGETS[name]
    try:
        play(target, drawn(f"fuzz {name}", 1).start, target.examples)
    except Finding as finding:
        raise AssertionError(
            f"{finding}\nto keep it: echo {finding.case!r} > {fuzz.FOUND}/{name}-NAME.txt"
        ) from finding


@pytest.mark.parametrize(("name", "path"), kept(), ids=lambda each: getattr(each, "stem", ""))
def test_what_was_found_once_does_no_harm_any_more(name: str, path: Path) -> None:
    try:
        TARGETS[name].check(read_case(path))
    except Exception as error:
        raise AssertionError(f"{path.name} does harm again: {error}") from error


@pytest.mark.parametrize("server", CHECKS)
def test_each_code_of_each_server_is_asked(server: str) -> None:
    codes = sorted(dispatchers()[server]._handlers)
    assert len(codes) > 30
    one_of_each = st.tuples(*(of_code(server, code) for code in codes)).map(list)
    play(Target(server, one_of_each, CHECKS[server], 1), drawn(f"each code of {server}", 1).start, 1)


# -- the fuzzer itself -------------------------------------------------------------------------------------------------


def _fails_for_nine(case: tuple[int, bytes]) -> None:
    assert case[0] < 9


def test_a_finding_is_shortened_kept_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)
    target = Target("nine", st.tuples(st.integers(), st.binary()), _fails_for_nine, 100)
    with pytest.raises(Finding) as found:
        play(target, 1, 100)
    path = keep(found.value)
    assert (read_case(path), kept()) == ((9, b""), [("nine", path)])


def test_a_case_without_an_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CPU_SECONDS_MAX", 0.05)

    def works_for_ever(_case: Any) -> None:
        while True:
            hashlib.sha256(b"").digest()

    with pytest.raises(Finding, match="did not end"):
        play(Target("endless", st.just(0), works_for_ever, 1), 1, 1)


def test_a_case_that_takes_all_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "GROWTH_MAX_KB", 64 << 10)
    size = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + (200 << 10))  # above what tests before it took
    with pytest.raises(Finding, match="one case took"):
        play(Target("greedy", st.just(0), lambda _case: len(b"x" * size), 1), 1, 1)


def test_cases_are_values_that_python_reads_back() -> None:
    for target in TARGETS.values():
        seen: list[Any] = []
        play(Target(target.name, target.cases, seen.append, 1), 1, 5)
        assert [ast.literal_eval(repr(case)) for case in seen] == seen
