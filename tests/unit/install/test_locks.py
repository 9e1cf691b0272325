"""What `make install` brings: pinned with hashes, as pyproject.toml asks for it, under licences that are allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from locks.bill import ALL, ALLOWED, RUNTIME, bill, installed, licence, licences_in, locked
from tests.unit.install.test_makefile import steps

ROOT = Path(__file__).parents[3]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_each_package_of_a_lock_has_a_version_and_hashes(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("    --hash=sha256:")]
    assert len(lines) == len(locked(path)) > 0, "a line that is neither NAME==VERSION nor a hash"
    assert [each.name for each in locked(path) if not each.hashes] == []


def wanted(extras: set[str]) -> list[Requirement]:
    """What pyproject.toml asks for with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [need for need in map(Requirement, lines) if need.name != "rocketlake"]


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("dev", {"dev", "demo", "otel", "otlp", "proxy", "lake", "spark"}),
        ("lake", {"lake", "spark"}),
        ("java", {"java"}),
        ("compiler", {"compiler"}),
    ],
)
def test_the_locks_hold_what_pyproject_asks_for(lock: str, extras: set[str]) -> None:
    needs = (
        wanted(extras) if lock in ("dev", "lake") else [each for each in wanted(extras) if each not in wanted(set())]
    )
    versions: dict[str, list[str]] = {}
    for each in locked(ROOT / f"locks/{lock}.txt"):
        versions.setdefault(each.name, []).append(each.version)
    names = {need: re.sub(r"[-_.]+", "-", need.name).lower() for need in needs}
    missing = [str(need) for need in needs if not all(map(need.specifier.contains, versions.get(names[need], ["0"])))]
    assert missing == [], "run `make lock` and commit the result"


def test_what_runs_is_tested_in_the_same_versions() -> None:
    assert {*locked(RUNTIME)} <= {*locked(ALL)}


def test_make_install_takes_nothing_that_has_no_hash() -> None:
    found = [step for step in steps("install") if "pip install" in step]
    own = [step for step in found if "--no-deps --no-build-isolation -e ." in step]
    assert len(own) == 1 and len(found) == 3
    assert [step for step in found if step not in own and "--require-hashes --no-build-isolation" not in step] == []


def test_no_licence_that_is_not_allowed() -> None:
    found = {each.name: licence(each.name) for each in installed(ALL)}
    assert len(found) > 100
    assert {name: text for name, text in found.items() if not text or not licences_in(text) <= ALLOWED} == {}


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [("GPL-3.0-only", False), ("MIT AND GPL-2.0-only", False), ("MIT OR GPL-3.0-only", True), ("(MIT OR 0BSD)", True)],
)
def test_the_rule_for_licences_sees_what_it_should(expression: str, is_allowed: bool) -> None:
    assert (licences_in(expression) <= ALLOWED) == is_allowed


def test_the_bill_of_materials_names_each_package_with_its_licence_and_hashes() -> None:
    made = bill()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    parts = {each["name"]: each for each in made["components"]}
    assert parts.keys() == {each.name for each in installed(ALL)}
    assert parts["msgspec"]["scope"] == "required" and parts["pytest"]["scope"] == "excluded"
    assert all(each["externalReferences"][0]["hashes"] and each["licenses"][0]["expression"] for each in parts.values())
    refs = {"rocketlake", *(each["bom-ref"] for each in parts.values())}
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert needs.keys() == refs and refs.issuperset(ref for each in needs.values() for ref in each)
    assert "pkg:pypi/msgspec" in needs["rocketlake"]
    assert bill() == made
