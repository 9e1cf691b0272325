"""Records as a broker would send them to a client."""

from __future__ import annotations

from rocketlake.base.crc32 import crc32
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_record


def stored_record(
    body: bytes, properties: bytes = b"", *, queue_id: int = 0, queue_offset: int = 1, physical_offset: int = 2
) -> bytes:
    """A message of topic T."""
    return bytes(
        encode_record(
            b"T",
            body,
            properties,
            queue_id=queue_id,
            flag=0,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            sys_flag=0,
            born_ms=3,
            born_host=encode_host("127.0.0.1", 1),
            store_ms=4,
            store_host=encode_host("127.0.0.1", 2),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body_crc=crc32(body),
        )
    )
