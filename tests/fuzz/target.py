"""Owns what a target of the fuzzer is, how one is played, and the files that keep what was found.

A case is a value that Python reads back from its text (`ast.literal_eval`). So a finding is a file that a person can
read and shorten, `found/TARGET-*.txt`, and test_fuzz.py plays it again.
Must not know   single targets.
"""

from __future__ import annotations

import ast
import hashlib
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

FOUND = Path(__file__).parent / "found"
CPU_SECONDS_MAX = 20.0
"""Of this process, so a busy machine changes nothing. The slowest case takes a tenth of a second."""
GROWTH_MAX_KB = 256 << 10
_PEAK_RESET = Path("/proc/self/clear_refs")
"""Linux forgets the peak of a process when it reads 5 here: earlier tests may have taken more."""
_EVERY_CHECK = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@dataclass(frozen=True)
class Target:
    """`check` raises if the product does with a case what it must not do. `examples`: how many the suite plays."""

    name: str
    cases: SearchStrategy[Any]
    check: Callable[[Any], None]
    examples: int


class Finding(Exception):
    """A case that must not have happened, the shortest that was met."""

    def __init__(self, target: Target, case: Any, error: BaseException) -> None:
        super().__init__(f"{target.name}: {type(error).__name__}: {error}\ncase: {case!r}"[:4000])
        self.target = target
        self.case = case
        self.error = error


def play(target: Target, played: int, examples: int) -> None:
    """Draw cases from the seed `played`. Raises Finding."""
    newest: list[Any] = []

    @seed(played)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=_EVERY_CHECK,
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(target.cases)
    def one(case: Any) -> None:
        newest[:] = [case]
        with bounded():
            target.check(case)

    try:
        one()
    except Exception as error:
        raise Finding(target, newest[0], error) from error


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block works for ever, or takes memory far beyond what it was given."""

    def late(_signal: int, _frame: object) -> None:
        raise AssertionError(f"worked for {CPU_SECONDS_MAX:.0f} s and did not end")

    usual = signal.signal(signal.SIGVTALRM, late)
    _PEAK_RESET.write_text("5")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, usual)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < GROWTH_MAX_KB, f"one case took {grown >> 10} MiB"


def keep(finding: Finding) -> Path:
    """Write the case to a file, under the same name each time."""
    text = repr(finding.case)
    assert ast.literal_eval(text) == finding.case
    path = FOUND / f"{finding.target.name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}.txt"
    path.write_text(text + "\n", "utf-8")
    return path


def kept() -> list[tuple[str, Path]]:
    """Target and file of each finding."""
    return [(path.name.rpartition("-")[0], path) for path in sorted(FOUND.glob("*.txt"))]


def read_case(path: Path) -> Any:
    """The case of a file."""
    return ast.literal_eval(path.read_text("utf-8"))
