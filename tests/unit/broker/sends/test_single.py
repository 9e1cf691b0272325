"""One message that was let in: what is refused, where it is put, what it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.broker.sends.incoming import Incoming
from rocketlake.broker.sends.single import SingleSends
from rocketlake.model import sys_flag
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode as Code
from tests.requests import send_header
from tests.unit.broker.lite.light_world import light_queues
from tests.unit.broker.room_world import BROKER, RoomWorld

PREPARED = "TRAN_MSG\x01true\x02"
DELAYED = "DELAY\x013\x02"
PRIORITY = "_SYS_MSG_PRIORITY_\x01"


async def send(world: RoomWorld, body: bytes = b"x", dead_letters: TopicConfig | None = None, **fields: Any) -> Command:
    incoming = Incoming(world.config, world.topics, lambda: BROKER)
    answers = SendAnswers(world.config, world.intake, lambda: BROKER)
    keys = UniqueKeyMaker("10.0.0.2", 1, world.clock.now_ms)
    light = light_queues(world.store, world.topics, world.clock, config=world.config)
    single = SingleSends(world.send_rights, incoming, world.intake, answers, keys, light)
    header = send_header(**fields)
    return (await world.ask(lambda request: single.put(request, header, dead_letters), body)).result()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, Code.SUCCESS),
        ({"queue_id": 4}, Code.INVALID_PARAMETER),
        ({"topic": "gone"}, Code.TOPIC_NOT_EXIST),
        ({"body": b""}, Code.MESSAGE_ILLEGAL),
        ({"body": b"", "topic": "%RETRY%g"}, Code.SUCCESS),
        ({"body": b"", "topic": "%DLQ%g"}, Code.SUCCESS),
        ({"sys_flag": sys_flag.COMPRESSED}, Code.SUCCESS),
        ({"sys_flag": sys_flag.COMPRESSED, "body": b"\x28\xb5\x2f\xfd"}, Code.MESSAGE_ILLEGAL),
        ({"topic": "Compact"}, Code.MESSAGE_ILLEGAL),
        ({"topic": "Compact", "properties": "KEYS\x01 \x02"}, Code.MESSAGE_ILLEGAL),
        ({"topic": "Compact", "properties": "KEYS\x01k\x02"}, Code.SUCCESS),
        ({"properties": PREPARED + DELAYED}, Code.MESSAGE_ILLEGAL),
        ({"sys_flag": sys_flag.TRANSACTION_ROLLBACK}, Code.MESSAGE_ILLEGAL),
        ({"sys_flag": sys_flag.TRANSACTION_ROLLBACK, "topic": "%RETRY%g"}, Code.SUCCESS),
    ],
)
async def test_what_is_taken_is_stored_and_what_is_refused_is_not(fields: dict[str, Any], code: int) -> None:
    async with RoomWorld() as world:
        world.topics.put(TopicConfig("Compact", attributes={"cleanup.policy": "COMPACTION"}))
        for name in ("%RETRY%g", "%DLQ%g"):
            world.topics.put(TopicConfig(name, read_queues=1, write_queues=1))
        assert (await send(world, **fields)).code == code
        assert (world.store.max_physical_offset > 0) is (code == Code.SUCCESS)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"queue_id": 2}, ("T", 2)),
        ({"properties": DELAYED}, ("SCHEDULE_TOPIC_XXXX", 2)),
        ({"properties": PREPARED}, ("RMQ_SYS_TRANS_HALF_TOPIC", 0)),
        ({"sys_flag": sys_flag.TRANSACTION_PREPARED}, ("RMQ_SYS_TRANS_HALF_TOPIC", 0)),
        ({"properties": PREPARED + DELAYED, "reconsume_times": 1}, ("SCHEDULE_TOPIC_XXXX", 2)),
        ({"dead_letters": TopicConfig("%DLQ%g"), "properties": DELAYED, "queue_id": 3}, ("%DLQ%g", 0)),
        ({"properties": PRIORITY + "2\x02" + DELAYED}, ("SCHEDULE_TOPIC_XXXX", 2)),
    ],
)
async def test_a_message_is_put_where_its_marks_say(fields: dict[str, Any], place: tuple[str, int]) -> None:
    async with RoomWorld() as world:
        answer = await send(world, **fields)
        (message,) = world.stored(*place)
        assert (answer.code, message.body) == (Code.SUCCESS, b"x")
        assert answer.header(SendReplyHeader).queue_id == fields.get("queue_id", 0), "the queue that was asked for"


async def test_half_messages_are_refused_where_the_broker_takes_none() -> None:
    async with RoomWorld(reject_transactions=True) as world:
        assert (await send(world, properties=PREPARED)).code == Code.NO_PERMISSION
        assert (await send(world)).code == Code.SUCCESS


async def test_a_message_gets_a_unique_key_unless_it_has_one_and_loses_the_mark_of_a_batch() -> None:
    async with RoomWorld() as world:
        own = await send(world, properties="UNIQ_KEY\x01own\x02__RL_SEQ\x01q/0/0/0/l\x02")
        made = await send(world)
        keys = [message.properties["UNIQ_KEY"] for message in world.stored()]
        told = [answer.header(SendReplyHeader).transaction_id for answer in (own, made)]
        assert keys == told and keys[0] == "own" and len(keys[1]) == 32
        assert all("__RL_SEQ" not in message.properties for message in world.stored())


@pytest.mark.parametrize(
    ("priority", "more", "topic", "queue_id", "kept"),
    [
        ("0", "", "T", 0, True),
        ("2", "", "T", 2, True),
        ("3", "", "T", 3, True),
        ("2147483647", "", "T", 3, True),
        ("2147483648", "", "T", 1, False),
        ("-1", "", "T", 1, False),
        ("high", "", "T", 1, False),
        ("9" * 5000, "", "T", 1, False),
        ("3", "__SHARDINGKEY\x01k\x02", "T", 1, False),
        ("3", "", "%RETRY%g", 1, True),
    ],
)
async def test_a_priority_is_a_queue_unless_the_message_is_of_another_kind(
    priority: str, more: str, topic: str, queue_id: int, kept: bool
) -> None:
    async with RoomWorld() as world:
        world.topics.put(TopicConfig("%RETRY%g", read_queues=4, write_queues=4))
        answer = await send(world, topic=topic, queue_id=1, properties=f"{PRIORITY}{priority}\x02{more}")
        assert answer.header(SendReplyHeader).queue_id == queue_id
        (message,) = world.stored(topic, queue_id)
        assert message.properties.get("_SYS_MSG_PRIORITY_") == (priority if kept else None)
