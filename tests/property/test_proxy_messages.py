"""A message that a gRPC client sends is the one that another receives."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from rocketlake.base.crc32 import crc32
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, encode_record
from rocketlake.model import property_names as names
from rocketlake.proxy.convert.incoming import message_of
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.outgoing import check, properties_of, sys_flag_of, type_of
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.convert.times import ms_of
from tests.proxy_messages import NOW, any_text, keys, messages, own_names, words

LIMITS = Limits()


def record_of(sent: Any) -> bytearray:
    host = encode_host("10.0.0.1", 10911)
    return encode_record(
        b"T", sent.body, property_text.encode(properties_of(sent, "1.2.3.4")), sys_flag=sys_flag_of(sent),
        queue_id=0, flag=0, queue_offset=0, physical_offset=0, born_ms=0, born_host=host, store_ms=0, store_host=host,
        reconsume_times=0, prepared_transaction_offset=0, body_crc=crc32(sent.body),
    )  # fmt: skip


@given(messages(words, keys, own_names))
def test_what_is_sent_is_received(sent: Any) -> None:
    try:
        check(sent, LIMITS, NOW)
    except Refused:
        return
    got = message_of(decode_record(record_of(sent)))
    assert got.topic == sent.topic
    assert got.body == sent.body
    mine, theirs = sent.system_properties, got.system_properties
    for field in ("tag", "message_id", "message_group", "trace_context", "lite_topic"):
        assert getattr(theirs, field) == getattr(mine, field)
    assert list(theirs.keys) == list(mine.keys)
    assert theirs.born_host == (mine.born_host.strip() or "1.2.3.4")
    assert theirs.HasField("priority") == mine.HasField("priority") and theirs.priority == mine.priority
    assert theirs.HasField("delivery_timestamp") == mine.HasField("delivery_timestamp")
    assert ms_of(theirs.delivery_timestamp) == ms_of(mine.delivery_timestamp)
    assert theirs.message_type == type_of(sent)
    assert {name: value for name, value in got.user_properties.items() if name not in names.SYSTEM} == dict(
        sent.user_properties
    )


@given(messages(any_text, any_text, any_text))
def test_any_message_is_refused_or_stored_as_it_is(sent: Any) -> None:
    try:
        check(sent, LIMITS, NOW)
    except Refused:
        return
    properties = properties_of(sent, "1.2.3.4")
    assert property_text.decode(property_text.encode(properties)) == properties
    assert message_of(decode_record(record_of(sent))).body == sent.body
