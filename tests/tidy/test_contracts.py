"""The shape of the tree is tested: modules that import, documents that name real files (contracts: `make check`)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.base.pure_import import has_kernel
from tests.tidy.tree import named, parsed, sources

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if path.name != "__main__.py"
)
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_each_module_imports() -> None:
    """Which is imported first does not matter: no circle is left (pyproject.toml)."""
    names = [name for name in MODULES if name.startswith("rocketlake")]
    if not has_kernel("rocketlake.broker.hot.plain_send"):  # modules that are imported only with their kernels
        for name in ("broker.hot.send_runs", "broker.hot.pull_runs", "spark.columns_kernel"):
            names.remove(f"rocketlake.{name}")
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", sorted({p.parent for p in SOURCE.rglob("*.py")}), ids=str)
def test_each_package_says_what_it_owns(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text())
    docstring = ast.get_docstring(tree)
    assert docstring, f"{package}/__init__.py has no docstring"


def test_each_module_has_a_docstring() -> None:
    silent = [p for p in SOURCE.rglob("*.py") if not ast.get_docstring(parsed(p))]
    assert silent == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_name_files_that_exist(document: Path) -> None:
    """Every `path/file.py` and `docs/page.md` in a document is a real file, from the root or inside the package."""
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|pxd|toml))`", document.read_text()))
    named |= {link for link in re.findall(r"\]\(([^)#:]+\.md)\)", document.read_text()) if not link.startswith("http")}
    places = (ROOT, SOURCE / "rocketlake", document.parent)
    missing = [name for name in sorted(named) if not any((place / name).exists() for place in places)]
    assert missing == []


def test_no_module_uses_unsafe_serialisation() -> None:
    users = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                imported.append(node.module or "")
            users += [f"{path}: {name}" for name in imported if name.split(".")[0] in ("pickle", "marshal", "shelve")]
    assert users == []


def test_every_document_is_linked_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#:]+\.md)\)", index.read_text())}
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - {index.resolve()}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == [], "add a line to docs/README.md"


def test_each_server_and_client_is_given_its_network() -> None:
    """One that makes a network of its own would not encrypt; a constructor without the argument raises by itself."""
    without = [
        f"{named(path)}:{node.lineno}"
        for path in sources(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("NetClient", "Server")
        and "network" not in [keyword.arg for keyword in node.keywords]
    ]
    assert without == []


def test_networks_are_made_where_settings_say_how() -> None:
    makers = {
        named(path)
        for path in sources(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TcpNetwork"
    }
    plain = {"net/client.py", "net/server.py"}  # for tests: with nothing said, connections are plain
    assert makers - plain == {"broker/broker.py", "client/calls/reach.py", "namesrv/server.py", "proxy/proxy.py"}
