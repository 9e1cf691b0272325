from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"


def loaded_file(folder, pure):
    program = "import rocketlake.codec.property_text as module; print(module.__file__)"
    environment = os.environ | {"PYTHONPATH": str(folder), "ROCKETLAKE_PURE": "1" if pure else "0"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    return run.stdout.strip()


def test_pure_means_the_python_file_although_a_compiled_twin_lies_beside_it(tmp_path):
    package = tmp_path / "rocketlake"
    package.symlink_to(SOURCE / "rocketlake")
    assert loaded_file(tmp_path, pure=True) == str(package / "codec" / "property_text.py")


def test_a_folder_without_python_form_is_left_to_the_ordinary_finder(monkeypatch):
    from rocketlake.base import pure_import

    finder = pure_import._SourceOnly()
    assert finder.find_spec("json", None) is None
    assert finder.find_spec("rocketlake.nothing", [str(SOURCE / "rocketlake")]) is None
    spec = finder.find_spec("rocketlake.base.clock", [str(SOURCE / "rocketlake" / "base")])
    assert spec is not None
    assert spec.origin == str(SOURCE / "rocketlake" / "base" / "clock.py")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    pure_import.install()
    assert isinstance(sys.meta_path[0], pure_import._SourceOnly)


def test_importing_the_package_imports_none_of_its_parts():
    program = "import sys, rocketlake; print([name for name in sys.modules if name.startswith('rocketlake.')])"
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "ROCKETLAKE_PURE": "0"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names_come_when_asked_for():
    import rocketlake
    from rocketlake.model.message import Message

    assert rocketlake.Message is Message
    assert "Producer" in dir(rocketlake)
    with pytest.raises(AttributeError, match="nothing"):
        _ = rocketlake.nothing
