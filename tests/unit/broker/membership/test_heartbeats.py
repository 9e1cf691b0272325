"""Heartbeats to the controllers: their pace."""

from __future__ import annotations

from typing import Any, cast

from rocketlake.base.clock import ManualClock
from rocketlake.broker.membership.heartbeats import Heartbeats
from rocketlake.net.client import NetClient
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader


class Net:
    """Counts."""

    def __init__(self) -> None:
        self.sent = 0

    async def invoke_oneway(self, *_: Any) -> None:
        self.sent += 1


async def test_more_registrations_are_no_more_heartbeats() -> None:
    net, clock = Net(), ManualClock()
    header = BrokerHeartbeatHeader(cluster_name="C", broker_addr="a:1", broker_name="b", broker_id=1)
    heartbeats = Heartbeats(cast(NetClient, net), lambda: ["c:1"], lambda: header, clock, 200)
    for _ in range(10):
        await heartbeats.start()
    await clock.run_for(1000)
    await heartbeats.stop()
    assert net.sent == 5
