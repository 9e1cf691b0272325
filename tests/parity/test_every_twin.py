"""What holds for all compiled twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_ext import COMPILED, KERNELS, SHARED
from tests.parity.forms import built_file

ROOT = Path(__file__).parents[2]


def source_path(name: str) -> Path:
    return ROOT / "src" / Path(*name.split("."))


@pytest.mark.parametrize("name", COMPILED)
def test_a_twin_has_a_pxd_and_parity_cases(name: str) -> None:
    source = ROOT / "src" / Path(*name.split("."))
    assert source.with_suffix(".py").exists()
    assert source.with_suffix(".pxd").exists()
    assert (ROOT / "tests" / "parity" / f"test_{name.rpartition('.')[2]}.py").exists()


def test_every_pxd_is_compiled_or_shared_by_kernels() -> None:
    found = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in (ROOT / "src").rglob("*.pxd")}
    kernels = {name for name in KERNELS if source_path(name).with_suffix(".pxd").exists()}
    assert found == set(COMPILED) | kernels | set(SHARED)


def test_every_kernel_is_compiled_and_has_types() -> None:
    found = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in (ROOT / "src").rglob("*.pyx")}
    assert found == set(KERNELS)
    assert all(source_path(name).with_suffix(".pyi").exists() for name in KERNELS)


@pytest.mark.parametrize("name", COMPILED)
def test_both_forms_offer_the_same_names(name: str, twin: Callable[[str], Any]) -> None:
    pair = twin(name)
    assert pair.source.__all__ == pair.compiled.__all__
    for public in pair.source.__all__:
        assert hasattr(pair.compiled, public), f"{name}.{public} is hidden by the .pxd"


@pytest.mark.parametrize("name", (*COMPILED, *KERNELS))
def test_no_compiled_module_is_older_than_its_source(name: str) -> None:
    built = built_file(name)
    if built is None:
        pytest.skip(f"{name} is not compiled")
    sources = [source_path(name).with_suffix(ending) for ending in (".py", ".pyx", ".pxd")]
    newest = max(path.stat().st_mtime for path in sources if path.exists())
    assert built.stat().st_mtime >= newest, f"{built.name} is stale; run `make install`"


def test_no_compiled_module_has_lost_its_source() -> None:
    """Python would import it all the same, under its old name."""
    listed = {source_path(name) for name in (*COMPILED, *KERNELS)}
    found = [path for path in (ROOT / "src").rglob("*.so") if path.with_name(path.name.partition(".")[0]) not in listed]
    assert found == [], "remove them, then run `make install`"
