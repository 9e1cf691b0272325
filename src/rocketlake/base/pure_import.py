"""The switch ROCKETLAKE_PURE=1: run the `.py` files although compiled twins lie beside them, and no kernels.

Owns        the order in which Python tries the file endings inside this package; the test for a kernel.
Must not know   which modules have a twin.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

__all__ = ["has_kernel", "install"]


class _SourceOnly:
    """A meta path finder that finds modules of `rocketlake` in their source form only; kernels are not found at all."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith("rocketlake."):
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
            if (Path(folder) / f"{name.rpartition('.')[2]}.pyx").exists():
                raise ModuleNotFoundError(f"{name} is a kernel: it has a compiled form only", name=name)
        return None


def install() -> None:
    """From now on modules of `rocketlake` come from their `.py` files."""
    sys.meta_path.insert(0, _SourceOnly())


def has_kernel(name: str) -> bool:
    """True if this kernel can be imported: it is compiled, and ROCKETLAKE_PURE=1 is not set."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("rocketlake."):
            raise
        return False
    return True
