"""What a consumer has when `start()` returns: a position in each of its queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, Message, Producer, PullConsumer, PushConsumer
from rocketlake.client.config import ClientConfig
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone


def ignore(messages: list[StoredMessage]) -> None:
    """A listener."""


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "broadcasting", "pull"])
async def test_a_group_has_its_first_positions_when_start_returns(tmp_path: Path, kind: str) -> None:
    """A message sent right after `start()` lay before the first position of a group that begins at the end."""
    async with Standalone(tmp_path / "cluster") as cluster:
        namesrv = cluster.namesrv_address
        async with Producer("P", namesrv=namesrv) as producer:
            await producer.send(Message("T", b"x"))
            queues = sorted(await producer.queues("T"))
        config = ConsumerConfig(offsets_dir=str(tmp_path / "offsets"))
        client = ClientConfig(namesrv=namesrv)
        consumer: PushConsumer | PullConsumer
        if kind == "pull":
            consumer = PullConsumer("G", config=config, client_config=client)
        else:
            how = {"orderly": kind == "orderly", "broadcasting": kind == "broadcasting"}
            consumer = PushConsumer("G", listener=ignore, config=config, client_config=client, **how)
        consumer.subscribe("T")
        async with consumer:
            assert [queue for queue in consumer.assignment if queue.topic == "T"] == queues
