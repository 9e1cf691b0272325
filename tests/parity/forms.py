"""Both forms of a compiled twin, side by side, from the same file."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"


class Twin:
    """A module in its source form and its compiled form."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = source_form(name)
        self.compiled = compiled_form(name)

    def same(self, function: str, *args: Any, **kwargs: Any) -> Any:
        """Call both; they must give equal values of equal types, or fail in the same way. Gives the value or error."""
        expected = outcome(getattr(self.source, function), args, kwargs)
        assert outcome(getattr(self.compiled, function), args, kwargs) == expected
        return expected[1]


def outcome(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    try:
        value = call(*args, **kwargs)
    except TypeError:
        return "error", TypeError, "the words are the compiler's"
    except Exception as error:
        return "error", type(error), str(error)
    return "value", list(value) if hasattr(value, "__next__") else value, type(value)


@cache
def source_form(name: str) -> ModuleType:
    path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{name}__source", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def compiled_form(name: str) -> ModuleType:
    path = built_file(name)
    if path is None:
        reason = f"{name} is not compiled; run `make install`"
        if os.environ.get("ROCKETLAKE_COMPILED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    loaded = sys.modules.get(name)
    if loaded is not None and Path(loaded.__file__ or "") == path:
        return loaded  # a compiled module can be initialised once per process
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built_file(name: str) -> Path | None:
    base = SOURCE.joinpath(*name.split("."))
    for ending in importlib.machinery.EXTENSION_SUFFIXES:
        path = base.with_name(base.name + ending)
        if path.exists():
            return path
    return None
