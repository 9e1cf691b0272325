"""Our brokers in a group with Apache's, under Apache's controller: a set of both, a master killed, nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache_group import CLUSTER, NAME, ApacheGroup
from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from tests.crash.broker_process import BrokerProcess, Ledger, Reader, member
from tests.crash.group_processes import settled
from tests.crash.sending import Sending
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

LOG_FILE_BYTES = 4 << 20
"""Brokers of a group have the same: frames of the log end with its files."""


@pytest.fixture(params=releases("server550"))
def apache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApacheGroup]:
    jars_of(request.param)
    group = ApacheGroup(tmp_path, peer=request.param)
    try:
        group.start()
        yield group
    finally:
        group.stop()


def our_broker(apache: ApacheGroup, root: Path) -> BrokerProcess:
    return member(
        root, NAME, apache.namesrv, apache.controller, brokerClusterName=CLUSTER, mappedFileSizeCommitLog=LOG_FILE_BYTES
    )


async def test_a_group_of_both_loses_its_master_and_no_acknowledged_message(
    apache: ApacheGroup, tmp_path: Path
) -> None:
    brokers = [our_broker(apache, tmp_path / name) for name in ("ours1", "ours2")]
    java = apache.broker(
        allAckInSyncStateSet="true",
        minInSyncReplicas=2,
        totalReplicas=3,
        mappedFileSizeCommitLog=LOG_FILE_BYTES,
        brokerHeartbeatInterval=200,
    )
    net, ledger = NetClient(clock=SystemClock()), Ledger()
    sending = Sending([*(broker.address for broker in brokers), f"127.0.0.1:{java.port}"], ledger)
    try:
        for broker in brokers:
            broker.start()
        await settled(net, apache.controller, NAME, 2)
        sending.begin(2, "s")
        await asyncio.to_thread(java.start)
        old = await settled(net, apache.controller, NAME, 3, 90)
        await asyncio.wait_for(sending.goes_on(100), 60)
        victim = next(broker for broker in brokers if broker.address == old)
        victim.kill()
        await asyncio.wait_for(sending.goes_on(200), 60)
        victim.start()
        master = await settled(net, apache.controller, NAME, 3, 90)
        assert master != old
        await sending.end()
        reader = Reader(master, ledger)
        await reader.read_new()
        assert (reader.lost(), len(ledger.acked) > 300) == ([], True)
    finally:
        for broker in brokers:
            with contextlib.suppress(ProcessLookupError):  # a test that failed may have killed it before
                broker.kill()
        await net.close()
