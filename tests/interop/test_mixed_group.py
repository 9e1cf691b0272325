"""A group of one of our brokers and one of Apache's: each loses its master's place to the other, and comes back.

In the suite Apache's 5.3.3 under our controller; `make ha-matrix` takes both releases, and Apache's controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from interop.apache_group import ApacheGroup
from rocketlake.replication.epochs.epoch_file import decode
from rocketlake.replication.epochs.history import Epoch, EpochHistory
from tests.crash.broker_process import Reader
from tests.interop.mixed_pair import Apaches, MixedPair, Ours, our_controller
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

CASES = [(controller, release) for release in releases("server") for controller in ("ours", "apaches")]


@pytest.fixture(params=CASES if len(releases("server")) > 1 else CASES[:1], ids="-".join)
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """Name server, controller, and whose jars the broker of Apache's is."""
    controller, peer = request.param
    jars_of(peer)
    if controller == "ours":
        with our_controller(tmp_path / "namesrv") as address:
            yield address, address, peer
    else:
        group = ApacheGroup(tmp_path, peer=peer)
        try:
            group.start()
            yield group.namesrv, group.controller, peer
        finally:
            group.stop()


@pytest.fixture
async def pair(addresses: tuple[str, str, str], tmp_path: Path) -> AsyncIterator[MixedPair]:
    namesrv, controller, peer = addresses
    pair = MixedPair(
        controller,
        Ours(tmp_path / "ours", namesrv, controller),
        Apaches(tmp_path / "apaches", namesrv, controller, peer),
    )
    pair.ours.start()
    yield pair
    await pair.close()


def by_bytes(history: EpochHistory) -> list[Epoch]:
    """The epochs that have a byte: Apache's broker keeps no entry of another one."""
    return [epoch for epoch, after in pairwise([*history.epochs, None]) if after is None or after.start > epoch.start]


async def test_each_becomes_the_master_and_follows_the_other_again(pair: MixedPair) -> None:
    ours, apaches = pair.ours, pair.apaches
    assert await pair.in_step(1) == ours.address
    pair.sending.begin(2, "s")
    await asyncio.to_thread(apaches.start)
    assert await pair.in_step() == ours.address
    await pair.sending.goes_on(100)

    ours_had = await pair.lose(ours, apaches)
    await asyncio.to_thread(ours.start)
    assert await pair.in_step() == apaches.address
    await pair.sending.goes_on(100)

    apaches_had = await pair.lose(apaches, ours)
    await asyncio.to_thread(apaches.start)
    assert await pair.in_step() == ours.address
    await pair.sending.goes_on(100)
    await pair.sending.end()

    log = await pair.equal_log()
    assert not any(log.startswith(had) for had in (ours_had, apaches_had)), "both were cut when they came back"
    histories = [decode((broker.store / "epochFileCheckpoint").read_bytes()) for broker in (ours, apaches)]
    assert [by_bytes(history) for history in histories[:1]] == [by_bytes(histories[1])]
    assert len(histories[0].epochs) > 2  # more, if Apache's controller misses heartbeats on a busy machine
    reader = Reader(ours.address, pair.ledger)
    await reader.read_new()
    assert (reader.lost(), len(pair.ledger.acked) > 500) == ([], True)
