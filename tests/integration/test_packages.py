"""Wheel and sdist: what is in them, and that a bare environment sends and receives a message with each.

The wheel is installed on the Python that runs the tests, with the compiled modules of `make install`. The sdist is
built and installed on another Python, where the machine has one: in its Python form, which takes seconds; compiled
with ROCKETLAKE_COMPILED=1, which takes minutes.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketlake
from build_ext import COMPILED, KERNELS, choose_compiler

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
ENDINGS = {".py", ".pxd", ".pyx", ".pyi"}
NEEDED = ("pyproject.toml", "setup.py", "build_ext.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
PURE = os.environ.get("ROCKETLAKE_COMPILED") != "1"

SEND_AND_RECEIVE = """
import asyncio, sys
from rocketlake import Consumer, FirstOffset, Message, Producer

async def main(namesrv):
    async with Producer("installed", namesrv=namesrv) as producer:
        sent = await producer.send(Message("orders", b"hello", tags="paid", keys="17"))
    async with Consumer("readers", "orders", "paid", namesrv=namesrv, from_where=FirstOffset.FIRST) as consumer:
        received = await consumer.receive(timeout_ms=60_000)
    assert received is not None and received.body == b"hello"
    assert received.message_id == sent.message_id
    print("received", received.body.decode())

asyncio.run(main(sys.argv[1]))
"""


def package_files() -> set[str]:
    """What must be installed, from the folder src."""
    return {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.suffix in ENDINGS or path.name == "py.typed"
    }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, with the modules that `make install` compiled: none is compiled again."""
    copy = tmp_path_factory.mktemp("tree")
    for name in NEEDED:
        shutil.copy2(ROOT / name, copy)
    shutil.copytree(SOURCE, copy / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    modules = [name.replace(".", "/") for name in (*COMPILED, *KERNELS)]
    for folder in ("cython", *(path.name for path in ROOT.joinpath("build").glob("lib.*"))):
        for module in modules:
            for made in ROOT.joinpath("build", folder).rglob(f"{module}.*"):
                place = copy / made.relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(made, place)
    return copy


def build(tree: Path, kind: str) -> Path:
    """Build "wheel" or "sdist" as pip does, by the hooks of the build backend."""
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env=os.environ | {"ROCKETLAKE_COMPILED": "1" if choose_compiler() else "0", "ROCKETLAKE_PURE": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return tree / "dist" / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return build(tree, "wheel")


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    return build(tree, "sdist")


def test_the_sdist_holds_what_a_build_needs_and_no_more(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    made = {name for name in held if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert held - made == {f"src/{name}" for name in package_files()} | set(NEEDED)


def test_the_wheel_holds_every_package_with_types_and_compiled_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    about = {name for name in held if ".dist-info/" in name}
    compiled = {name for name in held if name.endswith((".so", ".pyd"))}
    assert held - about - compiled == package_files()
    if choose_compiler():
        named = sorted(name.partition(".")[0].replace("/", ".") for name in compiled)
        assert named == sorted((*COMPILED, *KERNELS))
    assert {
        "pyspark_rocketmq/__init__.py",
        "pyspark_rocketmq_lake/__init__.py",
        "pyspark_rocketmq_store/__init__.py",
    } <= held
    assert any(name.endswith("/LICENSE") for name in about)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        said = email.message_from_bytes(archive.read(names["METADATA"]))
        commands = archive.read(names["entry_points.txt"]).decode()
    assert said["Version"] == rocketlake.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Author"]
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert "rocketlake = rocketlake.cli.main:main" in commands
    assert "rocketlake = rocketlake.testing.plugin" in commands


def other_python() -> str:
    """A Python that we support and that does not run this test, the newest; "" if the machine has none."""
    found: dict[tuple[int, int], str] = {}
    folders = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    for minor in range(11, 20):
        places = [path for folder in folders for path in sorted(folder.glob(f"3.{minor}.*/bin/python"))]
        command = shutil.which(f"python3.{minor}") if not places else str(places[-1])
        works = command and subprocess.run([command, "-c", "import ensurepip"], capture_output=True).returncode == 0
        if command and works and minor != sys.version_info.minor:
            found[3, minor] = command
    return found[max(found)] if found else ""


class Bare:
    """A virtual environment with nothing but one package and what it needs."""

    def __init__(self, python: str, folder: Path, package: Path) -> None:
        self._folder = folder
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROCKETLAKE"))}
        self._run(python, "-m", "venv", str(folder / "env"))
        pure = {"ROCKETLAKE_PURE": "1"} if PURE else {"ROCKETLAKE_COMPILED": "1"}
        install = ("-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", str(package))
        self._run(self.command("python"), *install, **pure)

    def command(self, name: str) -> str:
        return str(self._folder / "env" / "bin" / name)

    def _run(self, *words: str, **settings: str) -> str:
        done = subprocess.run(
            words, cwd=self._folder, env=self._env | settings, capture_output=True, text=True, timeout=900
        )
        if done.returncode and re.search("No matching distribution|Could not find a version|Connection", done.stderr):
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI needs PyPI: {done.stderr[-2000:]}")
            pytest.skip(f"PyPI cannot be reached: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def say(self, *words: str) -> str:
        """What the installed command prints."""
        return self._run(self.command("rocketlake"), *words)

    def python(self, program: str, *words: str) -> str:
        return self._run(self.command("python"), "-I", "-c", program, *words)

    def serve(self, *words: str) -> subprocess.Popen[str]:
        """Start a server with the installed command."""
        return subprocess.Popen(
            [self.command("rocketlake"), *words],
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def on_this_python(wheel: Path, tmp_path: Path) -> Bare:
    return Bare(sys.executable, tmp_path, wheel)


@pytest.fixture
def on_another_python(sdist: Path, tmp_path: Path) -> Bare:
    python = other_python()
    if not python:
        pytest.skip(f"this machine has no second Python of 3.11 or newer beside {sys.version_info.minor}")
    return Bare(python, tmp_path, sdist)


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bare, str]]:
    """An installed package with its name server and its broker, and the name server's address."""
    bare: Bare = request.getfixturevalue(request.param)
    started: list[subprocess.Popen[str]] = []
    try:
        started.append(bare.serve("run", "namesrv", "--port", "0"))
        namesrv = printed(started[-1], r"up at (\S+);")
        conf = tmp_path / "broker.conf"
        conf.write_text(f"listenPort=0\nfastListenPort=0\nnamesrvAddr={namesrv}\nmappedFileSizeCommitLog=1048576\n")
        started.append(bare.serve("run", "broker", "-c", str(conf), "--store", str(tmp_path / "store")))
        printed(started[-1], r"is up at (\S+);")
        yield bare, namesrv
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0, 0]


def printed(process: subprocess.Popen[str], pattern: str) -> str:
    said = []
    for line in process.stdout or ():
        said.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"{pattern!r} was not printed, but: {''.join(said)}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("served", ["on_this_python", "on_another_python"], indirect=True)
def test_a_bare_environment_sends_and_receives(served: tuple[Bare, str], request: pytest.FixtureRequest) -> None:
    bare, namesrv = served
    assert bare.python(SEND_AND_RECEIVE, namesrv) == "received hello\n"
    assert "orders" in bare.say("topic", "list", "-n", namesrv)
    is_wheel = "on_this_python" in request.node.name
    assert ("compiled" in bare.say("--version")) == bool(choose_compiler() and (is_wheel or not PURE))
    for package in ("rocketlake", "pyspark_rocketmq", "pyspark_rocketmq_lake", "pyspark_rocketmq_store"):
        found = bare.python("import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).origin)", package)
        assert "/env/lib/" in found, "the package that was installed, not the working copy"
