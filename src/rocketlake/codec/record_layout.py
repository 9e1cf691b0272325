"""Numbers of the record layout, and the error of a broken record.

Owns        magic numbers, positions of fixed fields, limits.
Must not know   how records are read and written (record.py).

Bytes: docs/internals/record.md. A module of its own because constants of a compiled twin cannot be shared: a twin keeps
private copies of these. Kernels have the numbers from record_layout.pxd; a test compares the two.
"""

from __future__ import annotations

__all__ = [
    "BATCH_ENTRY_BYTES_MIN",
    "BATCH_HEAD_BYTES",
    "BLANK_BYTES",
    "BODY_AT",
    "BODY_LENGTH_AT",
    "BORN_HOST_AT",
    "BORN_MS_AT",
    "CRC_AT",
    "FLAG_AT",
    "HOST_V6_MORE",
    "MAGIC_AT",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "PHYSICAL_OFFSET_AT",
    "PROPERTIES_BYTES_MAX",
    "QUEUE_ID_AT",
    "QUEUE_OFFSET_AT",
    "QUEUE_OFFSET_MAX",
    "RECORD_BYTES_MIN",
    "STORE_MS_AT",
    "SYS_FLAG_AT",
    "TOPIC_BYTES_MAX",
    "TOPIC_BYTES_MAX_V1",
    "RecordError",
]

MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB
MAGIC_BLANK = -875286124  # 0xCBD43194

MAGIC_AT = 4
CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_MS_AT = 40
BORN_HOST_AT = 48
STORE_MS_AT = 56
"""With an IPv4 born host; 12 bytes later with an IPv6 one."""
BODY_LENGTH_AT = 84
"""With IPv4 hosts; 12 bytes later for each IPv6 one."""
BODY_AT = BODY_LENGTH_AT + 4
HOST_V6_MORE = 12
"""Bytes of a host with an IPv6 address beyond those of one with IPv4."""

RECORD_BYTES_MIN = 91
"""IPv4 hosts, no body, no topic, no properties."""
BLANK_BYTES = 8
"""Length and magic of the record that fills the end of a file."""
BATCH_HEAD_BYTES = 20
"""Of an entry of a batch body, before its own body."""
BATCH_ENTRY_BYTES_MIN = 22
QUEUE_OFFSET_MAX = 0x7FFFFFFFFFFFFFFF // 20
"""The byte position of its entry in the queue must be a long."""

TOPIC_BYTES_MAX_V1 = 127
TOPIC_BYTES_MAX = 32767
PROPERTIES_BYTES_MAX = 32767


class RecordError(ValueError):
    """These bytes are no record (batch entry, compressed body). The text names the fault and its place."""
