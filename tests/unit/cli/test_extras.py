"""A missing extra is one line with its cure, whichever command misses it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rocketlake.cli.extras import EXTRA_OF, missing_extra

ROOT = Path(__file__).parents[3]
_IMPORTED_AS = {"pyyaml": "yaml", "prometheus-client": "prometheus_client", "protobuf": "google"}


def test_the_table_is_that_of_pyproject() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        _IMPORTED_AS.get(name, name): extra
        for extra in ("spark", "lake")
        for text in extras[extra]
        if (name := re.match(r"[\w-]+", text)[0]) != "rocketlake"  # type: ignore[index]
    }
    assert {package: EXTRA_OF.get(package) for package in named} == named


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("lake", "info", "table"), "pyspark"),
        (("lake", "create", "table"), "pyspark"),
        (("lake", "compact", "table"), "pyspark"),
        (("pipeline", "check", "file.yaml"), "pyspark"),
        (("pipeline", "run", "file.yaml"), "pyspark"),
        (("pipeline", "run", "file.yaml"), "yaml"),
        (("pipeline", "export", "file.yaml", "--sdp", "out"), "yaml"),
    ],
)
def test_without_the_extra_a_command_ends_in_one_line_with_the_cure(
    words: tuple[str, ...], missing: str, tmp_path: Path
) -> None:
    (tmp_path / "file.yaml").write_text("name: x\n")
    code = f"import sys; sys.modules[{missing!r}] = None; from rocketlake.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"needs the package {missing}" in done.stderr
    assert "cure: pip install 'rocketlake[spark]'" in done.stderr


def test_up_without_the_extra_says_that_grpc_is_not_served(tmp_path: Path) -> None:
    code = "import sys; sys.modules['ngh2'] = None; from rocketlake.cli.main import main; main()"
    words = ["up", "--dir", str(tmp_path), "--namesrv-port", "0", "--broker-port", "0"]
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = list(iter(server.stdout.readline, "\n"))  # up to the first empty line
        server.terminate()
        server.communicate(timeout=60)
    assert "not served: the clients of RocketMQ 5 need pip install 'rocketlake[proxy]'" in "".join(said)


def test_ctrl_c_while_python_still_reads_modules_leaves_no_traceback() -> None:
    code = """
import os, signal, sys

class PressedBefore:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, PressedBefore())
from rocketlake.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "topic", "list"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_another_missing_module_is_no_missing_extra() -> None:
    assert missing_extra(ModuleNotFoundError("x", name="rocketlake.none")) is None
