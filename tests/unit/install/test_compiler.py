from __future__ import annotations

import os
from pathlib import Path

import pytest

import build_ext


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a compiler; what is named for setuptools is forgotten after the test."""
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("LDSHARED", "")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_config_var", {"CC": "gcc -pthread"}.get)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return tmp_path


def add(machine: Path, name: str) -> None:
    (machine / name).write_text("#!/bin/sh\n")
    (machine / name).chmod(0o755)


def test_the_compiler_of_python_comes_first(machine: Path) -> None:
    for name in ("gcc", "cc"):
        add(machine, name)
    assert build_ext.choose_compiler() == "gcc -pthread"
    assert "CC" not in os.environ


def test_then_cc(machine: Path) -> None:
    add(machine, "cc")
    assert build_ext.choose_compiler() == "cc"
    assert os.environ["LDSHARED"] == "cc -shared"


def test_then_ziglang(machine: Path) -> None:
    (machine / "ziglang").mkdir()
    (machine / "ziglang/__init__.py").write_text("")
    assert build_ext.choose_compiler().endswith(" -m ziglang cc")
    assert os.environ["CC"].endswith(" -m ziglang cc")


def test_a_users_choice_is_left_alone(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "mine -m32")
    add(machine, "cc")
    assert build_ext.choose_compiler() == ""
    add(machine, "mine")
    assert build_ext.choose_compiler() == "mine -m32"


def test_none_at_all_is_said(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_ext.choose_compiler() == ""
    assert "no C compiler" in capsys.readouterr().err
