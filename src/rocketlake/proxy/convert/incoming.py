"""A message on its way to a consumer.

Owns        the `v2.Message` of a stored message.
Must not know   how it was popped, the connection.

Source: Java GrpcConverter. Clients unpack gzip, not each of them more. A body that a remoting producer packed as zlib,
lz4 or zstd is unpacked here (Apache's proxy passes it on under the name gzip).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import Any

from rocketlake.codec.compression import GZIP, PLAIN, decompress, form_at_start
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.sys_flag import COMPRESSED
from rocketlake.proxy.convert.names import resource_of
from rocketlake.proxy.convert.outgoing import type_of_properties
from rocketlake.proxy.convert.times import duration, timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import DigestType, Encoding

__all__ = ["body_of", "delivery_ms", "message_of"]

_TIME_MS_MAX = 253_402_300_799_999  # protobuf's timestamps end with the year 9999


def message_of(stored: StoredMessage, handle: str = "", invisible_ms: int = 0) -> Any:
    """The `v2.Message`; its body is as stored. `handle`: without one it was not popped (an orphan of a transaction)."""
    properties = stored.properties
    body, encoding = body_of(stored.body, stored.sys_flag)
    system = v2.SystemProperties(
        tag=properties.get(names.TAGS),
        keys=stored.key_list,
        message_id=stored.message_id,
        body_digest=v2.Digest(type=DigestType.MD5, checksum=md5(body, usedforsecurity=False).hexdigest().upper()),
        body_encoding=encoding,
        message_type=type_of_properties(properties),
        born_timestamp=timestamp(stored.born_ms),
        born_host=properties.get(names.BORN_HOST, "").strip() or stored.born_host[0],
        store_timestamp=timestamp(stored.store_ms),
        store_host=f"{stored.store_host[0]}:{stored.store_host[1]}",
        receipt_handle=handle or None,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
        message_group=properties.get(names.SHARDING_KEY),
        trace_context=properties.get(names.TRACE_CONTEXT),
        lite_topic=properties.get(names.LITE_TOPIC),
        priority=_priority(properties),
    )
    if invisible_ms:
        system.invisible_duration.CopyFrom(duration(invisible_ms))
    due_ms = delivery_ms(properties, stored.born_ms)
    if due_ms is not None:
        system.delivery_timestamp.CopyFrom(timestamp(due_ms))
    topic, message_id = properties.get(names.DLQ_ORIGIN_TOPIC), properties.get(names.DLQ_ORIGIN_MESSAGE_ID)
    if topic and message_id:
        system.dead_letter_queue.topic, system.dead_letter_queue.message_id = topic, message_id
    return v2.Message(
        topic=resource_of(stored.topic), user_properties=stored.user_properties, system_properties=system, body=body
    )


def body_of(body: bytes, sys_flag: int) -> tuple[bytes, Encoding]:
    """The body of a record as clients read it. A broken one is passed on: its consumer sees that it is."""
    if not sys_flag & COMPRESSED:
        return body, Encoding.IDENTITY
    try:
        form = form_at_start(body, sys_flag)
        if form == GZIP:
            return body, Encoding.GZIP
        return body if form == PLAIN else decompress(body, sys_flag), Encoding.IDENTITY
    except RecordError:
        return body, Encoding.GZIP


def delivery_ms(properties: Mapping[str, str], born_ms: int) -> int | None:
    """When a message for a time was to be delivered, epoch ms. None: it was for no time, or for one out of range."""
    for name, unit, start in (
        (names.TIMER_DELIVER_MS, 1, 0),
        (names.TIMER_DELAY_MS, 1, born_ms),
        (names.TIMER_DELAY_SEC, 1000, born_ms),
    ):
        text = properties.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 19:
            due_ms = start + int(text) * unit
            return due_ms if due_ms <= _TIME_MS_MAX else None
    return None


def _priority(properties: Mapping[str, str]) -> int | None:
    text = properties.get(names.PRIORITY, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
