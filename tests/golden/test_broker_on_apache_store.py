"""Our broker on the store that an Apache 5.3.3 broker left behind: a move without a copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import load_broker_conf
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage

STORE = Path(__file__).parent / "stores" / "apache-5.3.3-clean"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    settings = json.loads((STORE / "about.json").read_text())["settings"]
    given = {**settings, "listenPort": "0", "storePathRootDir": str(root)}
    broker = Broker(*load_broker_conf(None, given))
    await broker.start()
    yield broker
    await broker.stop()


def read(broker: Broker, topic: str, queue_id: int) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    while True:
        found = broker.store.get(topic, queue_id, len(messages), 32, 1 << 20)
        if not found.slices:
            return messages
        messages += decode_records(b"".join(found.slices))


async def test_every_message_is_there_in_its_queue(broker: Broker) -> None:
    queues = [read(broker, "Golden", queue_id) for queue_id in range(4)]
    assert [len(queue) for queue in queues] == [201, 151, 151, 201]
    for queue in queues:
        assert [message.queue_offset for message in queue] == list(range(len(queue)))
    assert sum(len(message.body) == 9000 for queue in queues for message in queue) == 4


async def test_topics_groups_and_offsets_are_taken_over(broker: Broker) -> None:
    golden = broker.topics.get("Golden")
    assert golden is not None and golden.read_queues == 4
    assert broker.groups.find("golden_group") is not None
    assert [broker.offsets.query("golden_group", "Golden", queue_id) for queue_id in range(4)] == [201, 151, 151, 201]


async def test_what_apache_has_delivered_is_not_delivered_again(broker: Broker) -> None:
    assert broker.delay.schedule.waiting() == {1: (6, 6)}
    assert len(read(broker, "%RETRY%golden_group", 0)) == 6


async def test_messages_are_found_by_key(broker: Broker) -> None:
    found = broker.store.query("Golden", "k599", 10, 0, 2**42)
    assert [message.properties["number"] for message in decode_records(b"".join(found.slices))] == ["599"]
