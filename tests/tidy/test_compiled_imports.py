"""Imports of `.pyx` and `.pxd` files keep the contracts of pyproject.toml: import-linter checks `.py` alone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
FILES = sorted(path for ending in ("pyx", "pxd") for path in SOURCE.rglob(f"*.{ending}"))
_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|[^\n#]+)", re.MULTILINE)
_PLAIN = re.compile(r"^\s*c?import\s+([\w.]+(?:\s*,\s*[\w.]+)*)", re.MULTILINE)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports(text: str) -> Iterator[str]:
    """Every module that the text imports; of `from package import name` the module `package.name`, if it is one."""
    for found in _PLAIN.finditer(text):
        yield from re.split(r"\s*,\s*", found.group(1))
    for found in _FROM.finditer(text):
        names = re.findall(r"\w+", re.sub(r"\bas\s+\w+", "", found.group(2)))
        inner = [f"{found.group(1)}.{name}" for name in names]
        modules = [
            name
            for name in inner
            if any(SOURCE.joinpath(*name.split(".")).parent.glob(f"{name.rpartition('.')[2]}.p*"))
        ]
        yield from modules
        if len(modules) < len(names):
            yield found.group(1)


def is_within(module: str, *owners: str) -> bool:
    return any(module == owner or module.startswith(owner + ".") for owner in owners)


def places(contract: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Name of each part of a layers contract -> (number of its layer, may it import those beside it)."""
    found = {}
    for number, layer in enumerate(contract["layers"]):
        for name in re.split(r"[|:]", layer):
            found[name.strip().strip("()")] = number, ":" in layer
    return found


def faults(importer: str, imported: str) -> list[str]:
    """The contracts that such an import breaks."""
    broken = []
    for contract in CONTRACTS:
        if contract["type"] == "forbidden":
            if is_within(importer, *contract["source_modules"]) and is_within(imported, *contract["forbidden_modules"]):
                broken.append(contract["name"])
        elif contract["type"] == "layers":
            for container in contract["containers"]:
                if not (is_within(importer, container) and is_within(imported, container)) or imported == container:
                    continue
                above, below = (name.removeprefix(container + ".").split(".")[0] for name in (importer, imported))
                if above == below:
                    continue
                where = places(contract)
                if above not in where or below not in where:
                    broken.append(f"{contract['name']}: {above} or {below} has no layer")
                elif where[above][0] > where[below][0] or (where[above][0] == where[below][0] and not where[above][1]):
                    broken.append(contract["name"])
    return broken


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_contracts_are_kept(path: Path) -> None:
    importer = module_of(path)
    broken = {imported: faults(importer, imported) for imported in imports(path.read_text())}
    assert {imported: names for imported, names in broken.items() if names} == {}


def test_each_kernel_has_a_layer() -> None:
    """As `exhaustive` asks of a `.py`: a kernel stands in its package's contract in parentheses."""
    without = []
    for contract in CONTRACTS:
        for container in contract.get("containers", []) if contract.get("exhaustive") else []:
            folder = SOURCE.joinpath(*container.split("."))
            without += [path.name for path in folder.glob("*.pyx") if path.stem not in places(contract)]
    assert without == []


@pytest.mark.parametrize(
    ("importer", "line", "broken"),
    [
        ("rocketlake.codec.record_run", "from rocketlake.store.selection cimport Selection", "Layers"),
        ("rocketlake.store.plain_fetch", "from rocketlake.broker.hot import plain_send", "Layers"),
        ("rocketlake.store.plain_fetch", "cimport rocketlake.protocol.frame", "Layers"),
        ("rocketlake.store.plain_fetch", "from rocketlake.store cimport message_store", "Inside the store"),
        ("rocketlake.store.selection", "from rocketlake.store.dispatch import (\n    Dispatch,\n)", "Inside the store"),
        ("rocketlake.broker.hot.plain_header", "from rocketlake.broker.hot cimport plain_send", "Inside broker/hot"),
        ("rocketlake.broker.hot.plain_send", "from rocketlake.broker.wings import wing", "Inside the broker"),
        ("rocketlake.codec.name_set", "import socket", "Sans-IO"),
        ("rocketlake.broker.hot.plain_send", "from rocketlake.codec.record_run cimport RecordRun", ""),
        ("rocketlake.store.plain_fetch", "from rocketlake.store.residency import BLOCK_BITS", ""),
    ],
)  # fmt: skip
def test_an_import_that_climbs_is_found(importer: str, line: str, broken: str) -> None:
    (imported,) = imports(line)
    found = faults(importer, imported)
    assert bool(found) == bool(broken)
    assert not broken or found[0].startswith(broken)
