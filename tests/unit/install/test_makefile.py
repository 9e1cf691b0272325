"""What the commands of the Makefile would run, in which order (`make --dry-run`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def steps(target: str) -> list[str]:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.replace("\\\n", " ").splitlines()


def at(steps: list[str], word: str) -> int:
    return next(number for number, step in enumerate(steps) if word in step)


def test_make_install_asks_for_every_compiled_module() -> None:
    found = steps("install")
    assert found[at(found, "build_ext --inplace")].startswith("ROCKETLAKE_COMPILED=1 ")


def test_make_test_checks_lint_types_contracts_and_rules_before_the_tests() -> None:
    found = steps("test")
    tests = at(found, '-m "not long"')
    for gate in ("ruff check", "ruff format --check", "bin/mypy", "lint-imports", "tests/tidy"):
        assert at(found, gate) < tests


def test_ci_runs_both_tiers_the_short_one_first() -> None:
    played = ROOT.joinpath(".ci/run").read_text()
    assert played.endswith("make test\nROCKETLAKE_LONG_PART=half make test-long\n")


def test_each_test_is_in_one_of_both_tiers() -> None:
    runs = [step for target in ("test", "test-long") for step in steps(target) if step.count(" -m ") == 2]
    assert [run.split(" -m ")[2].split(" --")[0] for run in runs[:2]] == ['"not long"', "long"]
