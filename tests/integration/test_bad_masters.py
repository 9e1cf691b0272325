"""What a slave meets at the address of its master that is none: it appends nothing, says so, follows the real one."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections.abc import Callable
from typing import cast

import pytest

from rocketlake.broker.config import BrokerRole
from rocketlake.model.topic import TopicConfig
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, SLAVE, ReplicaPair

SAYS = 1 << 16
_HEAD = struct.Struct(">qi")


class Impostor(asyncio.Protocol):
    """Says something to each that connects, as long as it reads."""

    made = 0

    def __init__(self, says: Callable[[int], bytes]) -> None:
        self.says = says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).made += 1
        self.transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self.draw = type(self).made
        asyncio.get_running_loop().call_soon(self.say)

    def say(self) -> None:
        """One more chunk; a few, so that a slave that takes all of them is seen."""
        for _chunk in range(10):
            if self.is_open and not self.transport.is_closing():
                self.transport.write(self.says(self.draw))

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False


IMPOSTORS: dict[str, Callable[[int], bytes]] = {
    "random": lambda draw: random.Random(draw).randbytes(SAYS),
    "http": lambda _draw: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "tls": lambda _draw: b"\x15\x03\x01\x00\x02\x02\x46" * 4,
    "a giant frame": lambda _draw: _HEAD.pack(0, 0x7FFFFFFF) + bytes(SAYS),
    "a negative frame": lambda _draw: _HEAD.pack(0, -5),
    "frames of no record": lambda draw: _HEAD.pack(0, SAYS) + random.Random(draw).randbytes(SAYS),
    "a record without an end": lambda _draw: _HEAD.pack(0, SAYS) + struct.pack(">ii", 0x7FFFFFF0, -626843481),
    "bytes of another place": lambda draw: _HEAD.pack(4096 * draw + 7, 100) + bytes(100),
    "a controller mode master": lambda _draw: struct.pack(">iiqi", 1, 0, 0, -1),
}


@pytest.mark.parametrize("what", IMPOSTORS)
async def test_a_slave_appends_nothing_of_it_and_says_so(what: str, caplog: pytest.LogCaptureFixture) -> None:
    pair = ReplicaPair()
    pair.slave = slave = pair.new_broker(
        SLAVE, 1, broker_role=BrokerRole.SLAVE, namesrv_addresses=(), ha_master_address=f"{MASTER}:10912"
    )
    machine = pair.net.host(MASTER)
    says = IMPOSTORS[what]
    listener = await machine.listen(lambda: Impostor(says), MASTER, 10912)
    await slave.start()
    with caplog.at_level(logging.INFO):
        await pair.clock.run_for(20_000)
    assert (slave.store.max_physical_offset, slave.health.is_green) == (0, False)
    assert list(slave.health.troubles) == ["replication/follower"]
    lines = [each for each in caplog.records if each.name.startswith(("rocketlake.replication", "rocketlake.base"))]
    assert 0 < len(lines) < 40, [each.message for each in lines]
    await listener.close()
    machine.crash()
    master = pair.master = pair.new_broker(MASTER, 0, namesrv_addresses=())
    await master.start()
    master.topics.put(TopicConfig("T"))
    master.store.put(PutMessage("T", 0, b"true"))
    await pair.clock.run_for(2000)
    assert slave.store.max_physical_offset == master.store.max_physical_offset > 0
    assert slave.health.is_green, slave.health.troubles
    await slave.stop()
    await master.stop()
    await pair.client.close()


async def test_a_slave_does_not_hear_a_master_that_accepts_it_and_says_nothing() -> None:
    """A machine that hangs accepts connections; each new one would look like a sign of life to the controllers."""
    pair = ReplicaPair()
    pair.slave = slave = pair.new_broker(
        SLAVE,
        1,
        broker_role=BrokerRole.SLAVE,
        namesrv_addresses=(),
        ha_master_address=f"{MASTER}:10912",
        ha_silence_ms=1500,
        ha_heartbeat_ms=500,
    )
    Impostor.made = 0
    listener = await pair.net.host(MASTER).listen(lambda: Impostor(lambda _draw: b""), MASTER, 10912)
    await slave.start()
    await pair.clock.run_for(10_000)
    assert Impostor.made > 3
    assert slave.replicas.follower.status().heard_seconds_ago > 9
    await listener.close()
    await slave.stop()
