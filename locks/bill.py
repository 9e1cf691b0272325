"""What RocketLake is made of: `python -m locks.bill FILE` writes a CycloneDX bill of materials.

Owns        reading the lock files, the licence of a package as an SPDX expression, which licences are allowed.
Must not know   how packages are installed (Makefile).

A package's hashes are those of all its files for the locked version, one of which was installed. Licences come from
the installed packages. The text depends on the locks and on the packages only: built twice it is the same.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker

HERE: Final = Path(__file__).resolve().parent
RUNTIME: Final = HERE / "lake.txt"
ALL: Final = HERE / "dev.txt"
ALLOWED: Final = frozenset(
    {"Apache-2.0", "MIT", "MIT-0", "MIT-CMU", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC"}
    | {"PSF-2.0", "CNRI-Python", "Zlib", "CC0-1.0", "MPL-2.0"}
)
"""May be used and passed on beside Apache-2.0. MPL-2.0 asks for changes to its own files only."""
_WORDS: Final = (
    (r"mpl|mozilla", "MPL-2.0"),
    (r"apache", "Apache-2.0"),
    (r"mit-0", "MIT-0"),
    (r"\bmit\b", "MIT"),
    (r"isc", "ISC"),
    (r"bsd.?2|2.clause", "BSD-2-Clause"),
    (r"bsd", "BSD-3-Clause"),
    (r"python software foundation|psf", "PSF-2.0"),
    (r"\bcc0\b", "CC0-1.0"),
)
"""Older metadata name a licence in words."""
_LINE: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\]+))?", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Locked:
    """One line of a lock file; `marker` says on which machines it counts, "" means on all."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def counts_here(self) -> bool:
        """True if this machine and Python are among those of the marker."""
        return not self.marker or Marker(self.marker).evaluate()


def locked(path: Path) -> list[Locked]:
    """The packages of a lock file."""
    text = path.read_text("utf-8")
    starts = [*_LINE.finditer(text)]
    ends = [*(found.start() for found in starts[1:]), len(text)]
    return [
        Locked(found[1], found[2], (found[3] or "").strip(), tuple(_HASH.findall(text[found.start() : end])))
        for found, end in zip(starts, ends, strict=True)
    ]


def installed(path: Path) -> list[Locked]:
    """The packages of a lock file that this environment has, in the locked version."""
    return [each for each in locked(path) if _version(each.name) == each.version]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def licence(name: str) -> str:
    """The SPDX expression of an installed package, "" if its metadata say nothing that is known here."""
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return str(expression)
    named = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or () if each.startswith("License ::")]
    said = [about.get("License") or "", *named]
    files = [
        metadata.distribution(name).read_text(f"licenses/{file}") or "" for file in about.get_all("License-File") or ()
    ]
    for text in [*(reversed(said) if named else said), *files]:
        for words, found in _WORDS:
            if re.search(words, text[:200], re.IGNORECASE):
                return found
    return ""


def licences_in(expression: str) -> set[str]:
    """The licences that an expression names: all of them must be allowed, or of an OR one side."""
    for side in expression.split(" OR "):
        names = {each.strip("() ") for each in re.split(r" AND | WITH ", side)}
        if names <= ALLOWED:
            return names
    return {each.strip("() ") for each in re.split(r" OR | AND | WITH ", expression)}


def bill() -> dict[str, Any]:
    """The CycloneDX document: what runs is `required`, what only builds and tests is `excluded`."""
    runtime = {each.name for each in locked(RUNTIME)}
    parts = installed(ALL)
    root = {"type": "application", "bom-ref": "rocketlake", "name": "rocketlake", "version": _version("rocketlake")}
    root["licenses"] = [{"license": {"id": "Apache-2.0"}}]  # type: ignore[assignment]
    components = [_component(each, "required" if each.name in runtime else "excluded") for each in parts]
    known = {each.name for each in parts}
    dependencies = [
        {"ref": ref, "dependsOn": sorted(f"pkg:pypi/{each}" for each in _needs(name) & known)}
        for ref, name in [("rocketlake", "rocketlake"), *((f"pkg:pypi/{each.name}", each.name) for each in parts)]
    ]
    body = {"metadata": {"component": root}, "components": components, "dependencies": dependencies}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
    }
    return {**head, "serialNumber": f"urn:uuid:{serial}", "version": 1, **body}


def _component(each: Locked, scope: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{each.name}",
        "name": each.name,
        "version": each.version,
        "scope": scope,
        "purl": f"pkg:pypi/{each.name}@{each.version}",
        "licenses": [{"expression": licence(each.name)}],
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{each.name}/{each.version}/",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in each.hashes],
            }
        ],
    }


def _needs(name: str) -> set[str]:
    return {
        re.sub(r"[-_.]+", "-", found[0]).lower()
        for each in metadata.requires(name) or ()
        if (found := re.match(r"[A-Za-z0-9._-]+", each))
    }


def licences_page() -> Iterator[str]:
    """Lines of docs/reference/licences.md. Packages that only some machines have are left out."""
    yield "# Licences of what RocketLake is installed with"
    yield ""
    yield "Generated by `make docs` from `locks/` and the metadata of the packages; do not edit. RocketLake's own"
    yield "is Apache-2.0, and it carries no code of others. A test fails for a licence that is not in `locks/bill.py`."
    runtime = {each.name for each in locked(RUNTIME)}
    for title, wanted in (("To run it, with all extras", True), ("To build and test it", False)):
        yield from ("", f"## {title}", "", "| Package | Licence |", "|---|---|")
        names = {each.name for each in locked(ALL) if each.counts_here}
        for name in sorted(names):
            if (name in runtime) is wanted:
                yield f"| {name} | {licence(name)} |"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=1) + "\n", "utf-8")
    print(f"{target}: {len(installed(ALL))} packages, {len(locked(RUNTIME))} of them at run time")
