"""REGISTER_BROKER: plain, old and compressed bodies, and streams that lie."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from rocketlake.model.topic import DataVersion, TopicConfig
from rocketlake.protocol.bodies.body import BodyError
from rocketlake.protocol.bodies.long_text import at_once
from rocketlake.protocol.bodies.register import RegisterBrokerBody, decoding_register_body, register_crc
from rocketlake.protocol.bodies.topic import TopicEntry, TopicTable

OLD, NEW = 401, 479


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def body() -> RegisterBrokerBody:
    configs = [TopicConfig("T", attributes={"a": "b"}), TopicConfig("U", 1, 2, 4, order=False)]
    return RegisterBrokerBody(topics=TopicTable.from_model(DataVersion(1, 2, 3), configs), filter_servers=["fs"])


def test_the_plain_body_survives() -> None:
    read = at_once(decoding_register_body(body().encode(), compressed=False, version=NEW))
    assert read.topics.configs() == body().topics.configs()
    assert read.topics.version() == DataVersion(1, 2, 3)
    assert read.filter_servers == ["fs"]


def test_a_very_old_broker_sends_the_bare_table() -> None:
    read = at_once(decoding_register_body(body().topics.encode(), compressed=False, version=36))
    assert read.topics.configs() == body().topics.configs()


def test_the_compressed_body_survives() -> None:
    read = at_once(decoding_register_body(body().encode_compressed(), compressed=True, version=NEW))
    assert read.topics.configs() == body().topics.configs()
    assert read.topics.version() == DataVersion(1, 2, 3)
    assert read.filter_servers == ["fs"]


def test_a_compressed_body_of_4_9_has_no_mappings_and_five_words_a_topic() -> None:
    plain = block(b'{"counter":2,"timestamp":3}') + struct.pack(">i", 1) + block(b"T 8 4 6 SINGLE_TAG") + block(b"[]")
    read = at_once(decoding_register_body(zlib.compress(plain, 9), compressed=True, version=OLD))
    assert read.topics.configs() == {"T": TopicConfig("T", 8, 4)}


def test_no_body_is_no_topics() -> None:
    assert at_once(decoding_register_body(None, compressed=False, version=NEW)).topics.topics == {}


def test_the_checksum_is_crc32_without_its_sign() -> None:
    assert register_crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(b"", id="empty"),
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 0x7FFFFFFF), id="length bomb"),
        pytest.param(block(b"{}") + struct.pack(">i", 0x7FFFFFFF), id="count bomb"),
        pytest.param(block(b"{}") + struct.pack(">i", 1) + block(b"T 8 x 6 SINGLE_TAG"), id="no number"),
        pytest.param(block(b"{}") + struct.pack(">i", 1) + block(b"T 8"), id="too few words"),
        pytest.param(block(b"{}") + struct.pack(">i", 0) + block(b"{}"), id="no list"),
    ],
)
def test_a_lying_compressed_body_is_an_error(plain: bytes) -> None:
    with pytest.raises(BodyError):
        at_once(decoding_register_body(zlib.compress(plain), compressed=True, version=NEW))


@pytest.mark.parametrize("data", [b"x", zlib.compress(bytes(1000))[:-5]], ids=["no zlib", "cut off"])
def test_a_damaged_stream_is_an_error(data: bytes) -> None:
    with pytest.raises(BodyError):
        at_once(decoding_register_body(data, compressed=True, version=NEW))


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketlake.protocol.bodies.register.UNPACKED_BYTES_MAX", 1 << 20)
    with pytest.raises(BodyError, match="more than"):
        at_once(decoding_register_body(zlib.compress(bytes(1 << 22), 9), compressed=True, version=NEW))


def long_body(count: int = 5000) -> RegisterBrokerBody:
    topics = {
        f'T "{{{number}': TopicEntry(topic_name=f"T{number}", attributes={"note": 'a "quoted" }, \\ { brace'})
        for number in range(count)
    }
    return RegisterBrokerBody(topics=TopicTable(topics=topics), filter_servers=["10.0.0.1:1"])


@pytest.mark.parametrize("form", ["plain", "spaced", "old"])
def test_a_long_table_is_read_in_slices_and_is_the_same(form: str) -> None:
    body = long_body()
    data = body.topics.encode() if form == "old" else body.encode()
    if form == "spaced":
        data = json.dumps(json.loads(data), indent=1).encode()
    steps = decoding_register_body(data, compressed=False, version=36 if form == "old" else NEW)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            read = end.value
            break
        count += 1
    assert count > 10
    assert read.topics == body.topics
    assert read.filter_servers == ([] if form == "old" else body.filter_servers)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b'"readQueueNums":', b'readQueueNums":'),
        (b'"perm":6', b'"perm" 6'),
        (b"}},", b"},"),
        (b'"perm":6', b'"perm":"x"'),
    ],
)
def test_a_long_table_that_is_broken_is_refused(good: bytes, bad: bytes) -> None:
    data = long_body().encode()
    at = data.index(good, len(data) // 2)
    with pytest.raises(BodyError):
        at_once(decoding_register_body(data[:at] + bad + data[at + len(good) :], compressed=False, version=NEW))


def test_a_long_body_that_cannot_be_cut_is_refused_with_its_size() -> None:
    data = b'{"filterServerList":[' + b",".join([b'"10.0.0.1:1"'] * 100_000) + b"]}"
    with pytest.raises(BodyError, match=f"{len(data)} bytes"):
        at_once(decoding_register_body(data, compressed=False, version=NEW))
