"""Owns the SHA-256 of every jar that the Java peers are made of: interop/java/checksums.txt.

`python -m interop.checksums` fetches the peers of all poms and writes the file anew, for a commit that changes a pom:
look at the lines that changed. Otherwise a jar with another checksum, or with none, is an error, not a skip.
Must not know   what peers do with their jars.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["KNOWN", "WrongJar", "check", "name_of", "written"]

KNOWN = Path(__file__).resolve().parent / "java" / "checksums.txt"


class WrongJar(Exception):
    """A jar is not the one that was fetched when its line was written."""


def name_of(jar: Path) -> str:
    """artifact/version/file."""
    return "/".join(jar.parts[-3:])


def written(jars: Iterable[Path]) -> str:
    """The lines of these jars, as sha256sum writes them."""
    sums = {name_of(jar): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def check(jars: Iterable[Path], known: Path = KNOWN) -> None:
    """Compare the jars with their lines. Raises WrongJar, which names all that differ."""
    lines = set(known.read_text("utf-8").splitlines())
    wrong = [line.partition("  ")[2] for line in written(jars).splitlines() if line not in lines]
    if wrong:
        raise WrongJar(
            f"not in {known} with this SHA-256: {', '.join(wrong)}. Cure: remove them from Maven's repository and try"
            " again; if a pom was changed on purpose, run `python -m interop.checksums` and look at what it changes"
        )


def main() -> None:
    """Write the file anew."""
    from interop.apache import HERE, fetched_jars

    jars = {jar for pom in sorted(HERE.glob("*.pom.xml")) for jar in fetched_jars(pom.name.partition(".")[0])}
    KNOWN.write_text(written(jars), "utf-8")
    print(f"{KNOWN}: {len(jars)} jars")


if __name__ == "__main__":
    sys.exit(main())
