"""Records that Apache RocketMQ wrote: read, written again, the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_records, encode_blank, encode_record, record_size
from rocketlake.codec.record_layout import MAGIC_BLANK
from rocketlake.model.message_id import parse_offset_message_id

LOGS = sorted((Path(__file__).parent / "stores/apache-5.3.3-clean/commitlog").iterdir())


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_record_is_written_again_byte_for_byte(path):
    data = path.read_bytes()
    messages = decode_records(data, decompress=False)
    assert len(messages) > 100
    position = 0
    for message in messages:
        assert message.physical_offset == int(path.name) + position
        record = data[position : position + message.store_size]
        properties = record[len(record) - property_bytes(message) :]
        assert property_text.decode(properties) == message.properties
        if properties.count(b"\x02") == len(message.properties):
            assert property_text.encode(message.properties) == properties
        again = encode_record(
            message.topic.encode(),
            message.body,
            properties,
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            sys_flag=message.sys_flag,
            born_ms=message.born_ms,
            born_host=encode_host(*message.born_host),
            store_ms=message.store_ms,
            store_host=encode_host(*message.store_host),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            body_crc=message.body_crc,
        )
        assert again == record
        position += message.store_size


def property_bytes(message):
    return message.store_size - record_size(len(message.topic), len(message.body), 0)


def test_a_message_of_a_batch_carries_the_properties_of_the_batch_behind_its_own():
    doubled = [
        message
        for path in LOGS
        for message in decode_records(path.read_bytes(), decompress=False)
        if is_doubled(message)
    ]
    assert len(doubled) == 100
    # So Apache's own readers, for whom the last of equal names wins, see one unique key for all of them.
    assert len({message.unique_key for message in doubled}) < 10


def is_doubled(message):
    return property_bytes(message) > len(property_text.encode(message.properties))


@pytest.mark.parametrize("path", LOGS[:-1], ids=lambda path: path.name)
def test_a_file_ends_with_a_blank_as_we_write_it(path):
    data = path.read_bytes()
    end = sum(message.store_size for message in decode_records(data))
    assert data[end : end + 8] == encode_blank(len(data) - end)
    assert int.from_bytes(data[end + 4 : end + 8], "big", signed=True) == MAGIC_BLANK


def test_ids_of_retried_messages_point_at_records():
    by_offset = {message.physical_offset: message for path in LOGS for message in decode_records(path.read_bytes())}
    retried = [message for message in by_offset.values() if "ORIGIN_MESSAGE_ID" in message.properties]
    assert retried
    for message in retried:
        origin = message.properties["ORIGIN_MESSAGE_ID"]
        _, port, offset = parse_offset_message_id(origin)
        assert by_offset[offset].offset_message_id == origin
        assert by_offset[offset].store_host[1] == port


def test_bodies_compressed_by_a_java_producer_are_unpacked():
    messages = [message for path in LOGS for message in decode_records(path.read_bytes())]
    compressed = [message for message in messages if message.sys_flag & 1]
    assert compressed
    assert all(len(message.body) == 9000 for message in compressed)
