from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.clock import ManualClock
from rocketlake.broker.clients.client_sweep import ClientSweep
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.net.request import Asker
from rocketlake.protocol.command import Command


class SilentLink:
    """A client that connected and then says nothing more."""

    address = "10.0.0.1:5000"
    remote = "10.0.0.1", 5000
    user = None

    def __init__(self) -> None:
        self.closed = False

    def send(self, command: Command) -> None: ...

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class NobodyListens:
    def consumers_changed(self, group: str, askers: Sequence[Asker]) -> None: ...


async def test_a_client_silent_for_two_minutes_is_taken_out_and_its_link_closed() -> None:
    clock = ManualClock()
    consumers, producers = ConsumerTable(NobodyListens(), clock), ProducerTable(clock)
    consumer, producer = SilentLink(), SilentLink()
    consumers.register("g", consumer, "c", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [])
    producers.register("p", producer, "c")
    sweep = ClientSweep(consumers, producers, QueueLocks(clock), clock)
    await sweep.start()
    await clock.run_for(120_000)
    assert not consumer.closed
    assert consumers.members("g") == ["c"]
    await clock.run_for(10_000)
    assert consumer.closed and producer.closed
    assert consumers.members("g") == []
    assert producers.members("p") == []
    await sweep.stop()
