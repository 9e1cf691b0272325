"""`python -m bench.micro`: nanoseconds per call of every twin, Python form and compiled form by turns.

A file stays in build_ext.COMPILED if it is at least twice as fast where it counts (docs/internals/compiled_twins.md).
Believe the numbers of a quiet machine only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import timeit

ROUNDS = 3


def measure() -> dict[str, float]:
    """Nanoseconds per operation of each case in this process; the best of five."""
    from bench.micro.cases import cases

    found = {}
    for name, call, operations in cases():
        number, _ = timeit.Timer(call).autorange()
        number = max(1, number // 4)
        found[name] = min(timeit.repeat(call, number=number, repeat=5)) / number / operations * 1e9
    return found


def measured(pure: bool) -> dict[str, float]:
    """The same in a process of its own, in one of the two forms."""
    environment = os.environ | {"ROCKETLAKE_PURE": "1" if pure else "0"}
    run = subprocess.run(
        [sys.executable, "-m", "bench.micro", "--one"], env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(run.stderr)
    return dict(json.loads(run.stdout))


def is_compiled() -> bool:
    """Are the twins built here?"""
    program = "import rocketlake.codec.property_text as module; print(module.__file__.endswith('.py'))"
    environment = os.environ | {"ROCKETLAKE_PURE": "0"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip() == "False"


def main() -> None:
    """Print the table."""
    if "--one" in sys.argv:
        print(json.dumps(measure()))
        return
    if not is_compiled():
        sys.exit("the twins are not compiled here; run `make install`")
    rounds = [(measured(pure=True), measured(pure=False)) for _ in range(ROUNDS)]
    print(f"{'':44} {'Python':>9} {'compiled':>9}")
    for name in rounds[0][0]:
        python = min(pure[name] for pure, _ in rounds)
        compiled = min(fast[name] for _, fast in rounds)
        print(f"{name:44} {python:6.0f} ns {compiled:6.0f} ns  {python / compiled:5.1f} x")


if __name__ == "__main__":
    main()
