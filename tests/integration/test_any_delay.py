"""The example of messages for a time, as users start it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rocketlake.standalone import Standalone

EXAMPLE = Path(__file__).parents[2] / "examples" / "any_delay.py"


async def test_the_example(tmp_path: Path) -> None:
    async with Standalone(tmp_path / "cluster") as cluster:
        command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
        example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode().splitlines() == ["at once", "after a delay", "at a time"]
