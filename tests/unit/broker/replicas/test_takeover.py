"""The role on disk when a change of role is given up at each step of its write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker
from rocketlake.broker.cluster.role import MASTER_ID, Role
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.replicas.master_calls import Part
from rocketlake.broker.replicas.taken_role import TakenRole
from rocketlake.broker.replicas.takeover import Followed, Takeover

SLAVE_ID = 1


class Broker:
    """The other broker, which stands still, and this one, which changes its role when its log is ready."""

    def __init__(self, role: Role) -> None:
        self._role = role

    async def part(self, _address: str) -> Part:
        name = self._role.broker_name
        return Part(name, is_slave=True, is_changing=False, log_end=0, appends=False, streams=frozenset({"o:2"}))

    async def become_master(self, ready: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True) -> None:
        assert ready is not None and waits
        await ready()
        self._role.broker_id = MASTER_ID

    async def become_slave(
        self, broker_id: int, copied: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True
    ) -> None:
        assert copied is not None and waits
        before, self._role.broker_id = self._role.broker_id, broker_id
        try:
            await copied()
        except BaseException:
            self._role.broker_id = before
            raise


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("is_master", [False, True])
async def test_a_change_that_is_given_up_leaves_the_role_on_disk_that_the_broker_has(
    is_master: bool, steps: int
) -> None:
    before, after = (MASTER_ID, SLAVE_ID) if is_master else (SLAVE_ID, MASTER_ID)
    clock, worker, files = ManualClock(), HandWorker(), MemoryFiles()
    role = Role(LiveConfig(BrokerConfig(broker_name="b", broker_id=before)), "a", lambda: 10911)
    broker, taken = Broker(role), TakenRole(Path("/s/config/takenRole.json"), files, before)

    async def copy_tables(_address: str) -> None:
        """There are none."""

    calls: Any = broker
    takeover = Takeover(
        role=role, roles=broker, taken=taken, calls=calls, copy_tables=copy_tables, log_end=lambda: 0,
        copied_end=lambda: 0, kept_end=lambda: 0, sync_log=lambda: None, followed=lambda: Followed("o:1", ""),
        worker=worker, clock=clock,
    )  # fmt: skip
    change = asyncio.ensure_future(takeover.follow(after) if is_master else takeover.lead("o:1"))
    while not worker.pending:
        await clock.run_for(20)
    if steps:
        worker.call_one()
    if steps == 2:
        worker.report_one()
    change.cancel()  # the broker stops
    await clock.settle()
    worker.run_all()
    while worker.ended:
        worker.report_one()
    await asyncio.gather(change, return_exceptions=True)
    assert taken.load() == role.broker_id == before
