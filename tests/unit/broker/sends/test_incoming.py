"""The message that a send brings: its queue, its properties, the check of its body."""

from __future__ import annotations

import gzip
import zlib

import pytest

from rocketlake.base.errors import RemoteError
from rocketlake.broker.sends.incoming import Incoming, choose_queue, stored_flag
from rocketlake.codec.host import encode_host
from rocketlake.model import sys_flag
from rocketlake.model.topic import TopicConfig, TopicFilterType
from rocketlake.protocol.response_code import ResponseCode as Code
from tests.requests import send_header
from tests.unit.broker.room_world import BROKER, CLIENT, RoomWorld

MORE_TO_WRITE = TopicConfig("T", read_queues=2, write_queues=4)
MORE_TO_READ = TopicConfig("T", read_queues=4, write_queues=2)
READ_ONLY = TopicConfig("T", read_queues=4, write_queues=0)


@pytest.mark.parametrize(
    ("topic", "asked", "allowed"),
    [
        (MORE_TO_WRITE, 0, {0}),
        (MORE_TO_WRITE, 3, {3}),
        (MORE_TO_WRITE, 4, None),
        (MORE_TO_WRITE, -1, {0, 1, 2, 3}),
        (MORE_TO_READ, 3, {3}),
        (MORE_TO_READ, -1, {0, 1}),
        (READ_ONLY, -1, None),
        (READ_ONLY, 1, {1}),
    ],
)
def test_a_send_goes_to_the_queue_it_names_or_to_any_that_is_written(
    topic: TopicConfig, asked: int, allowed: set[int] | None
) -> None:
    if allowed is None:
        with pytest.raises(RemoteError) as refused:
            choose_queue(asked, topic)
        assert refused.value.code == Code.INVALID_PARAMETER
    else:
        assert {choose_queue(asked, topic) for _ in range(200)} == allowed


@pytest.mark.parametrize(
    ("body", "flag", "stored"),
    [
        (zlib.compress(b"x"), 0x301, 0x301),
        (zlib.compress(b"x"), 0x001, 0x001),
        (gzip.compress(b"x", mtime=0), 0x001, 0x001),
        (b"plain text", 0x307, 0x006),
        (b"plain text", 0x101, 0),
        (b"plain text", 0x300, 0x300),
        (zlib.compress(b"x"), 0x201, None),
        (gzip.compress(b"x", mtime=0), 0x101, None),
        (b"plain text", 0x401, None),
    ],
)
def test_a_body_in_no_compressed_form_loses_the_mark_and_one_in_another_form_is_refused(
    body: bytes, flag: int, stored: int | None
) -> None:
    if stored is not None:
        assert stored_flag(body, flag) == stored
    else:
        with pytest.raises(RemoteError) as refused:
            stored_flag(body, flag)
        assert refused.value.code == Code.MESSAGE_ILLEGAL and refused.value.hint


async def test_a_message_has_both_addresses_and_the_flag_of_its_topic() -> None:
    async with RoomWorld(trace_topic_enabled=False) as world:
        incoming = Incoming(world.config, world.topics, lambda: BROKER)
        header = send_header(queue_id=2, properties="a\x011\x02POP_CK\x01old\x02", flag=7, reconsume_times=-2)
        tags = TopicConfig("T", filter_type=TopicFilterType.MULTI_TAG)
        message, properties = incoming.read(header, b"x", CLIENT, tags)
        assert (message.queue_id, message.flag, message.reconsume_times) == (2, 7, 0)
        assert (message.born_host, message.store_host) == (encode_host(*CLIENT), encode_host(*BROKER))
        assert message.sys_flag & sys_flag.MULTI_TAGS
        plain, _ = incoming.read(header, b"x", CLIENT, TopicConfig("T"))
        assert not plain.sys_flag & sys_flag.MULTI_TAGS
        incoming.add_properties(properties)
        assert properties == {"a": "1", "MSG_REGION": "R", "CLUSTER": "C", "TRACE_ON": "true"}


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (sys_flag.TRANSACTION_COMMIT | sys_flag.BORN_HOST_V6, sys_flag.BORN_HOST_V6),
        (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_PREPARED),
        (sys_flag.TRANSACTION_ROLLBACK, sys_flag.TRANSACTION_ROLLBACK),
    ],
)
async def test_no_send_makes_a_committed_message(sent: int, taken: int) -> None:
    async with RoomWorld() as world:
        incoming = Incoming(world.config, world.topics, lambda: BROKER)
        message, _ = incoming.read(send_header(sys_flag=sent), b"x", CLIENT, TopicConfig("T"))
        assert message.sys_flag == taken


async def test_a_topic_that_was_deleted_while_the_send_waited_is_told() -> None:
    async with RoomWorld() as world:
        incoming = Incoming(world.config, world.topics, lambda: BROKER)
        assert incoming.topic("T") is world.topics.get("T")
        with pytest.raises(RemoteError, match=r"topic\[gone\] was deleted") as refused:
            incoming.topic("gone")
        assert refused.value.code == Code.TOPIC_NOT_EXIST
