"""A dry run of a follower: a slave appends the raw bytes of its master, has them cut, and becomes the master."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.codec.record import decode_records
from tests.integration.test_log_cut import Cluster


@pytest.fixture
async def master() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start()
    yield cluster
    await cluster.stop()


@pytest.fixture
async def slave() -> AsyncIterator[Cluster]:
    cluster = Cluster(broker_id=1)
    await cluster.start()
    yield cluster
    await cluster.stop()


def follow(master: Cluster, slave: Cluster) -> None:
    """Append all that the master has and the slave lacks, in the slave's own files."""
    for offset, view in master.broker.store.log_views(slave.end):  # type: ignore[arg-type]
        slave.broker.store.append_raw(bytes(view[: master.end - offset]), offset)


def bodies(cluster: Cluster) -> list[bytes]:
    read = cluster.broker.store.get("T", 0, 0, 100, 1 << 20)
    return [bytes(message.body) for message in decode_records(b"".join(read.slices))]


def numbers(*each: int) -> list[bytes]:
    return [b"%d" % number for number in each]


@pytest.mark.parametrize("kill", [False, True])
async def test_a_slave_serves_what_it_appended_and_as_master_knows_what_was_sent(
    master: Cluster, slave: Cluster, kill: bool
) -> None:
    await slave.clock.run_for(20_000)  # the file says that no message is counted so far
    await master.send_batch(0, 3)
    follow(master, slave)
    await slave.clock.run_for(20_000)
    assert bodies(slave) == numbers(0, 1, 2)
    await slave.restart(kill=kill)  # as a slave again: it counts nothing of what it appends
    await master.send_batch(3, 3)
    follow(master, slave)
    await slave.clock.run_for(1000)
    await slave.broker.become_master()
    assert [await slave.send_batch(first, 3) for first in (0, 3, 6)] == [3, 3, 0]
    assert bodies(slave) == numbers(*range(9))


async def test_what_a_slave_cut_is_not_known_when_it_becomes_the_master(master: Cluster, slave: Cluster) -> None:
    await master.send_batch(0, 3)
    common = master.end
    await master.send_batch(3, 3)
    follow(master, slave)
    await slave.broker.store.cut(common)
    assert (slave.end, bodies(slave)) == (common, numbers(0, 1, 2))
    await slave.broker.become_master()
    assert [await slave.send_batch(first, 3) for first in (0, 3)] == [3, 0]
    await slave.broker.become_slave(2)
    await slave.broker.store.cut(common)
    follow(master, slave)
    await slave.broker.become_master()
    assert [await slave.send_batch(first, 3) for first in (0, 3, 6)] == [3, 3, 0]
    assert bodies(slave) == numbers(*range(9))
