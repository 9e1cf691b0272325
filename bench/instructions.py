"""`python -m bench.instructions [ROOT ...]`: machine instructions of a broker for each message, counted by callgrind.

Owns        one valgrind process for each play and checkout, and the table of what was counted.
Must not know   what is played (counted_plays.py), how a broker is fed (counted_broker.py), wall time: an instruction
    count holds on a noisy machine.

Each ROOT is a checkout of RocketLake, built; without one it is this checkout. With more than one, the ratio of each to
the first is printed: `python -m bench.instructions /tmp/wt/base /work/main`. The plays and the client's side are those
of this checkout. Needs valgrind; says so and ends well when there is none.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.counted_plays import PLAYS, Play

HERE = Path(__file__).resolve().parent.parent
MARK = "getpgid"
"""See counted_broker.mark: callgrind writes what it has counted, and begins at 0, when this C function is called."""


def counted(root: Path, play: Play) -> int:
    """Instructions of a broker of the checkout `root` for each message of the play."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-callgrind-") as name:
        folder = Path(name)
        (folder / "play").write_bytes(pickle.dumps((play.prepare, play.counted)))
        command = ["valgrind", "--tool=callgrind", f"--dump-before={MARK}", f"--callgrind-out-file={folder}/out"]
        command += [sys.executable, "-m", "bench.counted_broker", name]
        path = os.pathsep.join((str(root / "src"), str(HERE)))
        environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": path}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
        # Dump 1 holds the work up to the first mark, dump 2 the work between the two marks.
        part = folder / "out.2"
        if done.returncode or not part.exists():
            raise RuntimeError(f"valgrind ended with {done.returncode}: {done.stderr[-2000:]}")
        found = re.search(r"^totals: (\d+)", part.read_text(), re.MULTILINE)
        if found is None:
            raise RuntimeError(f"{part} has no totals")
        return int(found.group(1)) // play.messages


def measure(roots: list[Path], names: list[str], jobs: int) -> None:
    """Print a line for each play, a column for each checkout; `jobs` processes at a time."""
    width = max(len(title) for title, _ in PLAYS.values())
    print(" " * width, *(f"{root.name:>12}" for root in roots), sep="  ", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        lines = []
        for name in names:
            title, make = PLAYS[name]
            play = make()
            lines.append((title, [pool.submit(counted, root, play) for root in roots]))
        try:
            for title, found in lines:
                figures = [each.result() for each in found]
                ratios = "".join(f"{figure / figures[0]:8.3f}" for figure in figures[1:])
                print(f"{title:{width}}", *(f"{figure:12,}" for figure in figures), ratios, sep="  ", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions")
    parser.add_argument("root", nargs="*", type=Path, default=[HERE], help="checkouts, built; the first is the measure")
    parser.add_argument("--only", choices=sorted(PLAYS), nargs="+", default=list(PLAYS), help="these plays alone")
    parser.add_argument("--jobs", type=int, default=1, help="valgrind processes at a time")
    options = parser.parse_args()
    roots = [root.resolve() for root in options.root]
    for root in roots:
        if not any((root / "src" / "rocketlake").rglob("*.so")):
            parser.error(f"{root} has no compiled modules: run `make install` there")
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed (Debian: apt-get install valgrind)")
        return
    measure(roots, options.only, options.jobs)


if __name__ == "__main__":
    main()
