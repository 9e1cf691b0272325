"""The loop of one popped queue, at a scripted broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from rocketlake import ClientConfig, StoredMessage
from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig, FirstOffset
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.acks import Acks
from rocketlake.client.consumer.pops.popped_queues import PoppedQueue, PoppedQueues
from rocketlake.client.hooks import Hooks
from rocketlake.client.instance import ClientInstance
from rocketlake.model.subscription import parse_subscription
from tests.unit.client.conftest import Peers, ScriptedBroker
from tests.unit.client.test_pop_access import ANY, PopBroker


async def test_a_queue_goes_on_behind_an_error_that_nobody_foresaw(
    peers: Peers,
    make_broker: Callable[..., Awaitable[ScriptedBroker]],
    clock: ManualClock,
    service: Service,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peers.route("T", await make_broker("b", PopBroker(clock).handlers))
    instance = ClientInstance(
        ClientConfig(namesrv="ns:9876", client_ip="10.0.0.1"), clock=clock, network=peers.net.host("client")
    )
    peers.instances.append(instance)
    pops, config = PopAccess(instance, "g"), ConsumerConfig()
    counted: list[int] = []
    submitted: list[int] = []

    def count(topic: str, seconds: float, messages: int) -> None:
        counted.append(messages)
        if len(counted) == 1:
            raise ValueError("of a bug")

    def submit(popped: PoppedQueue, messages: Sequence[StoredMessage]) -> None:
        submitted.extend(message.queue_offset for message in messages)
        popped.dropped = True

    queues = PoppedQueues(
        instance,
        pops,
        Acks(pops, clock, service.spawn),
        group="g",
        config=config,
        from_where=FirstOffset.FIRST,
        subscription=lambda topic: parse_subscription(topic, "*"),
        damage=Damage("g", Hooks(), None),
        is_suspended=lambda: False,
        submit=submit,
        pulled=count,
        spawn=service.spawn,
    )
    await queues.take(ANY)
    await clock.settle()
    assert (counted, submitted) == ([2], [])
    await clock.run_for(config.error_pause_ms)
    assert (counted, submitted) == ([2, 2], [7, 9])
    assert [record.exc_info is not None for record in caplog.records if "it goes on" in record.message] == [True]
