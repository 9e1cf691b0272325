"""Many popped messages come back at one time: the broker goes on with other work meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rocketlake import Message, Producer
from rocketlake.admin import Admin
from rocketlake.standalone import Standalone
from tests.pops import PopClient

COUNT = 5120
"""Enough for twenty check points in each queue of the revive topic."""
RETRY = "%RETRY%g_T"
AT_ONCE_MAX = 256
"""Two milliseconds of work, on a machine much faster than any."""


async def test_other_work_gets_turns_while_messages_come_back(tmp_path: Path) -> None:
    """A master that gives none is silent for its controllers, and loses its place to the next that does the same."""
    settings = {"reviveInterval": 20, "timerPrecisionMs": 100}
    async with Standalone(tmp_path, settings=settings) as cluster:
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("T", queues=1)
        async with Producer("p", namesrv=cluster.namesrv_address) as producer:
            await producer.send_batch([Message("T", b"%d" % number) for number in range(COUNT)])
        client = PopClient(cluster.broker.address)
        for _ in range(COUNT // 32):
            assert len(await client.pop(5000)) == 32
        back = at_once = 0
        async with asyncio.timeout(60):
            while back < COUNT:
                await asyncio.sleep(0)
                end = cluster.broker.store.max_offset(RETRY, 0)
                back, at_once = end, max(at_once, end - back)
        await client.net.close()
    assert at_once <= AT_ONCE_MAX
