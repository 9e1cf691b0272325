"""One run of a load on one side, and its place in the result.

Owns        what is kept of a run, also of one that failed; what is printed of it.
Must not know   which sides and loads there are.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.brokers import Side
from bench.plan import Earlier, Load, Plan

__all__ = ["run_once"]


def run_once(load: Load, side: type[Side], root: Path, plan: Plan, earlier: Earlier) -> dict[str, Any]:
    """The side, its values by figure, its seconds; a run that fails has its reason and does not end the others."""
    folder = root / f"{load.name}-{side.name}"
    began = time.monotonic()
    run: dict[str, Any] = {"side": side.name, "values": {}}
    try:
        run["values"] = load.run(side, folder, plan, earlier)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        run["error"] = f"{type(error).__name__}: {error}"
        print(f"    {side.name}: FAILED: {run['error']}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    run["took_seconds"] = round(time.monotonic() - began, 1)
    shown = ", ".join(f"{name} {value:g}" for name, value in run["values"].items())
    print(f"    {side.name}: {shown} ({run['took_seconds']:.0f} s)", flush=True)
    return run
