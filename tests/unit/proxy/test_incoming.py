from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketlake.codec.compression import compress
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.sys_flag import LZ4, ZLIB, ZSTD, mark_compressed
from rocketlake.proxy.convert.incoming import body_of, delivery_ms, message_of
from rocketlake.proxy.convert.times import ms_of
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import DigestType, Encoding, MessageType

TEXT = b"a body " * 50


def stored(properties: dict[str, str] | None = None, body: bytes = TEXT, **fields: Any) -> StoredMessage:
    usual: dict[str, Any] = {
        "queue_id": 3,
        "queue_offset": QueueOffset(17),
        "physical_offset": PhysicalOffset(4096),
        "born_ms": 1_700_000_000_123,
        "born_host": ("10.0.0.5", 1234),
        "store_ms": 1_700_000_000_456,
        "store_host": ("10.0.0.1", 10911),
        "reconsume_times": 2,
    }
    return StoredMessage("ns%T", body, properties=properties or {}, **{**usual, **fields})


def test_a_message_with_all_fields() -> None:
    properties = {
        "TAGS": "t", "KEYS": "a  b", "UNIQ_KEY": "0102", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "00-1",
        "__BORNHOST": "client", "TIMER_DELIVER_MS": "1700000009001", "_SYS_MSG_PRIORITY_": "3", "__LITE_TOPIC": "l",
        "DLQ_ORIGIN_TOPIC": "D", "DLQ_ORIGIN_MESSAGE_ID": "0203", "color": "red", "POP_CK": "x", "1ST_POP_TIME": "5",
    }  # fmt: skip
    made = message_of(stored(properties), "handle 1", 60_000)
    assert made.topic == v2.Resource(resource_namespace="ns", name="T")
    assert made.body == TEXT
    system = made.system_properties
    assert dict(made.user_properties) == {
        "color": "red", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "00-1", "_SYS_MSG_PRIORITY_": "3", "__LITE_TOPIC": "l",
    }  # fmt: skip
    assert (system.tag, list(system.keys), system.message_id) == ("t", ["a", "b"], "0102")
    assert (system.born_host, system.store_host) == ("client", "10.0.0.1:10911")
    assert (ms_of(system.born_timestamp), ms_of(system.store_timestamp)) == (1_700_000_000_123, 1_700_000_000_456)
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (3, 17, 3)
    assert (system.message_group, system.trace_context, system.lite_topic, system.priority) == ("g", "00-1", "l", 3)
    assert (system.receipt_handle, ms_of(system.invisible_duration)) == ("handle 1", 60_000)
    assert ms_of(system.delivery_timestamp) == 1_700_000_009_001
    assert system.dead_letter_queue == v2.DeadLetterQueue(topic="D", message_id="0203")
    assert system.message_type == MessageType.DELAY
    assert system.body_encoding == Encoding.IDENTITY


def test_a_message_with_no_properties() -> None:
    system = message_of(stored()).system_properties
    assert system.message_id == "0A00000100002A9F0000000000001000"
    assert system.born_host == "10.0.0.5"
    assert system.message_type == MessageType.NORMAL
    set_fields = {field.name for field, _ in system.ListFields()}
    assert set_fields.isdisjoint(
        {"tag", "keys", "message_group", "trace_context", "lite_topic", "priority", "receipt_handle",
         "invisible_duration", "delivery_timestamp", "dead_letter_queue"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "flag", "expected", "encoding"),
    [
        (TEXT, 0, TEXT, Encoding.IDENTITY),
        (gzip.compress(TEXT, mtime=0), 1, gzip.compress(TEXT, mtime=0), Encoding.GZIP),
        (compress(TEXT, ZLIB), 1, TEXT, Encoding.IDENTITY),
        (compress(TEXT, LZ4), mark_compressed(0, LZ4), TEXT, Encoding.IDENTITY),
        (compress(TEXT, ZSTD), mark_compressed(0, ZSTD), TEXT, Encoding.IDENTITY),
        (TEXT, 1, TEXT, Encoding.IDENTITY),
        (compress(TEXT, ZLIB)[:-5], 1, compress(TEXT, ZLIB)[:-5], Encoding.GZIP),
    ],
    ids=["plain", "gzip", "zlib", "lz4", "zstd", "not compressed", "damaged"],
)
def test_bodies(body: bytes, flag: int, expected: bytes, encoding: Encoding) -> None:
    got, kind = body_of(body, flag)
    assert kind is encoding
    assert got[10:] == expected[10:] and len(got) == len(expected)  # gzip writes the time into its head


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({}, None),
        ({"TIMER_DELIVER_MS": "5"}, 5),
        ({"TIMER_DELAY_MS": "5"}, 1005),
        ({"TIMER_DELAY_SEC": "5"}, 6000),
        ({"TIMER_DELIVER_MS": "soon"}, None),
        ({"TIMER_DELIVER_MS": "9" * 18}, None),
        ({"TIMER_DELIVER_MS": "9" * 30}, None),
        ({"TIMER_DELIVER_MS": "-5"}, None),
    ],
)
def test_times_of_delivery(properties: dict[str, str], due_ms: int | None) -> None:
    assert delivery_ms(properties, 1000) == due_ms
    assert message_of(stored(properties)).system_properties.HasField("delivery_timestamp") == (due_ms is not None)


_READER = """
import json, sys
from rocketmq.grpc_protocol import definition_pb2
from rocketmq.v5.model.message import Message

for line in sys.stdin:
    message = Message().fromProtobuf(definition_pb2.Message.FromString(bytes.fromhex(line)))
    names = ("topic", "namespace", "message_id", "tag", "message_group", "delivery_timestamp", "born_host",
             "born_timestamp", "delivery_attempt", "receipt_handle", "message_type", "properties", "priority")
    seen = {name: getattr(message, name) for name in names}
    print(json.dumps({**seen, "body": message.body.decode(), "keys": sorted(message.keys), "bad": message.corrupted}))
"""


def test_apaches_python_client_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("rocketmq.grpc_protocol.definition_pb2", reason="needs the package rocketmq-python-client")
    properties = {"TAGS": "t", "KEYS": "b a", "UNIQ_KEY": "0102", "__SHARDINGKEY": "g", "color": "größe"}
    made = [
        message_of(stored(properties), "1 2 3"),
        message_of(stored({"UNIQ_KEY": "1"}, gzip.compress(TEXT, mtime=0), sys_flag=1)),
        message_of(stored({"UNIQ_KEY": "2"}, compress(TEXT, ZSTD), sys_flag=mark_compressed(0, ZSTD))),
    ]
    assert all(each.system_properties.body_digest.type == DigestType.MD5 for each in made)
    lines = "".join(each.SerializeToString().hex() + "\n" for each in made)
    environment = {**os.environ, "HOME": str(tmp_path)}  # it makes a log file there
    out = subprocess.run(
        [sys.executable, "-c", _READER], input=lines, capture_output=True, text=True, check=True, env=environment
    ).stdout
    first, second, third = map(json.loads, out.splitlines())
    assert first == {
        "topic": "T", "namespace": "ns", "message_id": "0102", "tag": "t", "message_group": "g",
        "delivery_timestamp": first["delivery_timestamp"], "born_host": "10.0.0.5", "born_timestamp": 1_700_000_000_123,
        "delivery_attempt": 3, "receipt_handle": "1 2 3", "message_type": MessageType.FIFO,
        "properties": {"color": "größe", "__SHARDINGKEY": "g"}, "priority": 0, "body": TEXT.decode(),
        "keys": ["a", "b"], "bad": False,
    }  # fmt: skip
    assert [(each["body"], each["bad"]) for each in (second, third)] == [(TEXT.decode(), False)] * 2
