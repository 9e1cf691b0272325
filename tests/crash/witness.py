"""What a group of processes was at when a test waited for it in vain, as a note of the error.

The doors of the group are in the test's own process: if its loop was late, so were all that the processes said.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocketlake.base.errors import RocketLakeError
from tests.crash.group_processes import GroupProcesses, in_a_thread, recorded

_SECONDS: Final = 30
_LOOK_SECONDS: Final = 0.05
_LINES_MAX: Final = 300
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")


class Witness:
    """Around what is done with a group: `async with`."""

    def __init__(self, group: GroupProcesses) -> None:
        self._group = group
        self.doing = "start"
        self.answers: Mapping[str, str] = {}
        """What each broker answered last, by its address."""
        self._late: deque[float] = deque(maxlen=int(_SECONDS / _LOOK_SECONDS))
        """Seconds, of each look of the last 30 s or more."""

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watching.cancel()
        if isinstance(error, TimeoutError | RuntimeError):
            error.add_note(await self._tell())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self._late.append(loop.time() - due)

    async def _tell(self) -> str:
        group, since = self._group, datetime.now(UTC) - timedelta(seconds=_SECONDS)
        late = f"{max(self._late, default=0):.2f} s at most, {sum(self._late):.1f} s in {len(self._late)} looks"
        told = [f"this was done: {self.doing}", f"the loop of the test was late by {late}"]
        told += [f"{address} answered last: {answer}" for address, answer in self.answers.items()]
        for controller in group.controllers:
            state: object = "it is not up"
            if controller.is_up:
                with contextlib.suppress(RocketLakeError):
                    state = await recorded(group.net, f"127.0.0.1:{controller.port}")
            told.append(f"controller {controller.machine} has recorded: {state}")
        await in_a_thread(lambda: told.extend(_etcd(group)))
        return "\n".join([*told, *last_lines(group.root, since)])


def _etcd(group: GroupProcesses) -> list[str]:
    states = (f"etcd {member}: has a leader: {group.etcd.is_healthy(member)}" for member in range(3))
    return [*states, f"etcd's leader: {group.etcd.leader()}"]


def last_lines(root: Path, since: datetime) -> list[str]:
    """What all processes have logged since then, in the order of time; of a line without a time: of that before it."""
    lines = []
    for log in sorted([*root.glob("*/*.log"), *root.glob("etcd/*/log")]):
        time = ""
        for line in log.read_text(errors="replace").splitlines():
            found = _TIME.search(line)
            time = found.group() if found else time
            lines.append((time, f"{log.parent.name}: {line}"))
    begin = since.strftime("%Y-%m-%dT%H:%M:%S")
    return [line for time, line in sorted(lines, key=lambda each: each[0]) if time >= begin][-_LINES_MAX:]
