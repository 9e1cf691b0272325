"""Which record a master has at a place of its log: asked from ours, and from one that knows only Apache's requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.broker.replicas.master_marks import MasterMarks
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.marks import GONE, mark_at
from tests.replica_group import ReplicaGroup


@pytest.mark.parametrize("controller_mode", [True, False])  # without a controller a broker does not know the request
async def test_the_mark_of_a_record_is_that_of_the_log(controller_mode: bool) -> None:
    settings: dict[str, Any] = {} if controller_mode else {"controller_mode": False, "controller_addresses": ()}
    group = ReplicaGroup(1, min_in_sync_replicas=1, **settings)
    await group.namesrv.start()
    (host,) = group.hosts
    await group.brokers[host].start()
    if controller_mode:
        await group.until(lambda: bool(group.masters))
    assert await group.send(b"one", host) == await group.send(b"two", host) == 0
    log = group.brokers[host].store.log
    first, second = PhysicalOffset(0), PhysicalOffset(log.max_offset // 2)
    marks = MasterMarks(group.client, f"{host}:10911")
    for place in (first, second):
        asked = asyncio.ensure_future(marks.at(place))
        await group.run_through(asked)
        assert asked.result() == mark_at(log, place)
    assert mark_at(log, first) != mark_at(log, second)
    assert await MasterMarks(group.client, "").at(first) == GONE
    await group.stop()
    lost = asyncio.ensure_future(MasterMarks(group.client, f"{host}:10911").at(first))
    with pytest.raises(LinkError):
        await group.run_through(lost)
