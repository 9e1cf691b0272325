"""Each package has tests of a room, each test file a room, and each folder a test in the short tier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rooms import ROOMS, paths
from tests.tidy.tree import PACKAGE, TESTS

OF_ALL_ROOMS = ("crash", "fuzz", "interop", "spark", "tidy")


def test_each_package_is_a_room() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
    assert sorted(ROOMS) == sorted(packages | modules)


def test_each_test_stands_for_a_room() -> None:
    in_rooms = {file for room in ROOMS for path in paths(room) for file in (path, *path.rglob("test_*.py"))}
    files = {path for path in TESTS.rglob("test_*.py") if path.relative_to(TESTS).parts[0] not in OF_ALL_ROOMS}
    assert sorted(map(str, files - in_rooms)) == [], "name them in tests/rooms.py"


def test_each_folder_has_a_test_in_the_short_tier(request: pytest.FixtureRequest) -> None:
    asked = {Path(each).resolve() for each in request.config.args}
    if request.config.option.markexpr != "not long" or asked != {TESTS}:
        pytest.skip("needs all tests of the short tier: `make test`")
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    here = {item.path.relative_to(TESTS).parts[0] for item in request.session.items}
    assert sorted(folders - here) == []
