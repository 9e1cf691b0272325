"""Over forty kinds of bad messages: those that any client can send, those that a bad disk makes of sound ones.

`KINDS` is one table for all readers: our client, Java's, Spark. A test puts each kind between good messages
(`good(number)`), sends it as `command` says, lets the disk rot as `rot` says, and then wants every good message, in
order. `fate` says what the broker and our client make of the bad one:

REFUSED  the broker does not take it, with a clear answer
READ     odd, but a message: `body` comes out
DAMAGED  stored and handed out; its body cannot be read
ROTTEN   the record's head is broken: the broker passes it over, or our client does
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import lz4.frame
import zstandard

from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.requests import send_header

__all__ = ["KINDS", "ROT_KINDS", "SENT_KINDS", "Fate", "Kind", "command", "good"]

MIB = 1 << 20
TEXT = b"a body that is long enough to be worth its compression, " * 8
ZLIB, LZ4, ZSTD = 0x301, 0x101, 0x201
"""System flags: the kind of compression (bits 8 to 10), and that the body is compressed (bit 0)."""
_noise = random.Random(7).randbytes(400)


class Fate(Enum):
    REFUSED = auto()
    READ = auto()
    DAMAGED = auto()
    ROTTEN = auto()


@dataclass(frozen=True)
class Kind:
    """One bad message. `rot` changes the bytes of the stored record in place."""

    name: str
    fate: Fate
    body: bytes = TEXT
    sys_flag: int = 0
    properties: str = ""
    fields: dict[str, object] = field(default_factory=dict)
    batch: bool = False
    rot: Callable[[bytearray], None] | None = None
    seen: bytes | None = None
    """READ: the body that comes out, when it is not `body`."""
    java_unpacks: bool = True
    """READ: false for a body that Java's client takes for a broken one."""


def good(number: int) -> bytes:
    """The body of good message `number`."""
    return b"good %d" % number


def command(topic: str, queue_id: int, kind: Kind) -> Command:
    """The request that sends it."""
    values = {"sys_flag": kind.sys_flag, "properties": kind.properties, "batch": kind.batch, **kind.fields}
    code = RequestCode.SEND_BATCH_MESSAGE if kind.batch else RequestCode.SEND_MESSAGE_V2
    return Command.request(code, send_header(topic, queue_id, **values), kind.body)


# -- what is sent ------------------------------------------------------------------------------------------------------

_zlib, _lz4, _zstd = zlib.compress(TEXT), bytes(lz4.frame.compress(TEXT)), zstandard.ZstdCompressor().compress(TEXT)
_zeros = bytes(100 * MIB)
_gzip = gzip.compress(TEXT, mtime=0)
_half_packed = encode_batch([Message("T", _zlib), Message("T", TEXT)])
_with_dictionary = zlib.compressobj(zdict=b"dictionary")
_dictionary_body = _with_dictionary.compress(TEXT) + _with_dictionary.flush()
_batch = encode_batch([Message("t", b"one"), Message("t", b"two")])

SENT_KINDS = (
    Kind("zlib: plain text", Fate.READ, TEXT, 1),
    Kind("zlib: noise", Fate.READ, b"\x01" + _noise, ZLIB),
    Kind("zlib: a sound start, then noise", Fate.DAMAGED, _zlib[:2] + _noise, ZLIB),
    Kind("zlib: cut short", Fate.DAMAGED, _zlib[:-9], 1),
    Kind("zlib: one byte", Fate.READ, b"x", 1),
    Kind("zlib: wrong check at its end", Fate.DAMAGED, _zlib[:-1] + bytes([_zlib[-1] ^ 1]), 1),
    Kind("zlib: a dictionary nobody has", Fate.REFUSED, _dictionary_body, ZLIB),
    Kind("zlib: rubbish behind its end", Fate.READ, _zlib + b"rubbish", ZLIB, seen=TEXT),
    Kind("zlib: a bomb of 100 MiB", Fate.DAMAGED, zlib.compress(_zeros, 1), ZLIB),
    Kind("gzip", Fate.READ, _gzip, 1, seen=TEXT, java_unpacks=False),
    Kind("gzip: cut short", Fate.DAMAGED, _gzip[:-9], ZLIB),
    Kind("gzip: a second one behind it", Fate.DAMAGED, _gzip + _gzip, ZLIB),
    Kind("gzip: a bomb of 100 MiB", Fate.DAMAGED, gzip.compress(_zeros, 1, mtime=0), ZLIB),
    Kind("gzip: says it is lz4", Fate.REFUSED, _gzip, LZ4),
    Kind("lz4: noise", Fate.READ, _noise, LZ4),
    Kind("lz4: a sound start, then noise", Fate.DAMAGED, _lz4[:4] + _noise, LZ4),
    Kind("lz4: cut short", Fate.DAMAGED, _lz4[:-5], LZ4),
    Kind("lz4: a bomb of 100 MiB", Fate.DAMAGED, bytes(lz4.frame.compress(_zeros)), LZ4),
    Kind("lz4: is zlib", Fate.REFUSED, _zlib, LZ4),
    Kind("zstd: noise", Fate.READ, _noise, ZSTD),
    Kind("zstd: a sound start, then noise", Fate.DAMAGED, _zstd[:4] + _noise, ZSTD),
    Kind("zstd: cut short", Fate.DAMAGED, _zstd[:-3], ZSTD),
    Kind("zstd: a bomb of 100 MiB", Fate.DAMAGED, zstandard.ZstdCompressor().compress(_zeros), ZSTD),
    Kind("zstd: a window of 2 GiB", Fate.DAMAGED, _zstd[:4] + b"\x00\xa8" + _zstd[6:], ZSTD),
    Kind("compression 4", Fate.REFUSED, _zlib, 0x401),
    Kind("compression 7", Fate.REFUSED, _zlib, 0x701),
    Kind("compression named, not compressed", Fate.READ, TEXT, 0x700),
    Kind("many tags without any", Fate.READ, TEXT, 2),
    Kind("needs unwrapping", Fate.REFUSED, TEXT, 0x40),
    Kind("inner batch of text", Fate.REFUSED, TEXT, 0xC0),
    Kind("inner batch of entries", Fate.REFUSED, _batch, 0xC0),
    Kind("number of an inner batch", Fate.REFUSED, _batch, properties="INNER_NUM\x012\x02"),
    Kind("rolled back from the start", Fate.REFUSED, TEXT, 12),
    Kind("hosts of IPv6, says the sender", Fate.READ, TEXT, 0x30),
    Kind("all flags of no meaning", Fate.READ, TEXT, 0x7FFFF800),
    Kind("empty", Fate.REFUSED, b""),
    Kind("empty, and compressed", Fate.REFUSED, b"", 1),
    Kind("batch: one compressed, one not", Fate.REFUSED, _half_packed, 1, batch=True),
    Kind("batch: noise", Fate.REFUSED, _noise, batch=True),
    Kind("batch: cut short", Fate.REFUSED, _batch[:-1], batch=True),
    Kind("batch: a size of zero", Fate.REFUSED, bytes(4) + _batch[4:], batch=True),
    Kind("batch: a negative body", Fate.REFUSED, _batch[:16] + b"\xff\xff\xff\xff" + _batch[20:], batch=True),
    Kind("batch: empty", Fate.REFUSED, b"", batch=True),
    Kind("properties: no separators", Fate.READ, properties="garbage"),
    Kind("properties: separators only", Fate.READ, properties="\x01\x02\x02\x01\x01\x02\x01"),
    Kind("properties: a name without a value", Fate.READ, properties="a\x01"),
    Kind("properties: half a surrogate as text", Fate.READ, properties="color\x01\ufffd\u0000\x02"),
    Kind("properties: 32 KB", Fate.READ, properties="p\x01" + "x" * 32_000 + "\x02"),
    Kind("properties: too long", Fate.REFUSED, properties="p\x01" + "x" * 40_000 + "\x02"),
    Kind("properties: numbers that are none", Fate.READ, properties="RECONSUME_TIME\x01many\x02DELAY\x01-\x02"),
    Kind("properties: a retry of a topic that is none", Fate.READ, properties="RETRY_TOPIC\x01\x7f/..\x02"),
    Kind("born before time", Fate.READ, fields={"born_timestamp": -(2**63)}),
    Kind("flag of all bits", Fate.READ, fields={"flag": -1}),
    Kind("a body that is a record", Fate.READ, bytes.fromhex("0000005bdaa320a7") + bytes(83)),
    Kind("a body that is a heartbeat", Fate.READ, b'{"clientID":"x","consumerDataSet":[{"groupName":5}]}'),
    Kind("a body that is a frame", Fate.READ, b'\x00\x00\x00\x15\x00\x00\x00\x11{"code":34,"a":0}'),
    Kind("a body that is no UTF-8", Fate.READ, b"\xff\xfe\x00\xc3\x28" * 20),
    Kind("a body of 3 MiB", Fate.READ, bytes(3 * MIB)),
)  # fmt: skip


# -- what the disk makes of a sound record -----------------------------------------------------------------------------
# Places in a record with IPv4 hosts: docs/internals/record.md.


def _flip(at: int, bit: int = 0) -> Callable[[bytearray], None]:
    def rot(record: bytearray) -> None:
        record[at] ^= 1 << bit

    return rot


def _put(at: int, form: str, value: int) -> Callable[[bytearray], None]:
    return lambda record: struct.pack_into(form, record, at, value)


def _all(value: int) -> Callable[[bytearray], None]:
    def rot(record: bytearray) -> None:
        record[:] = bytes([value]) * len(record)

    return rot


def _compressed_rot(record: bytearray) -> None:
    """The body is no longer zlib, and its checksum is right."""
    body_size = struct.unpack_from(">i", record, 84)[0]
    record[88 : 88 + body_size] = b"\x78\x9c" + b"?" * (body_size - 2)
    struct.pack_into(">i", record, 8, zlib.crc32(record[88 : 88 + body_size]) & 0x7FFFFFFF)


ROT_KINDS = (
    Kind("rot: one bit of the body", Fate.DAMAGED, rot=_flip(100)),
    Kind("rot: one bit of the checksum", Fate.DAMAGED, rot=_flip(8)),
    Kind("rot: one bit of a compressed body", Fate.DAMAGED, _zlib, ZLIB, rot=_flip(95)),
    Kind("rot: a compressed body with a right checksum", Fate.DAMAGED, _zlib, ZLIB, rot=_compressed_rot),
    Kind("rot: says it is compressed", Fate.READ, rot=_flip(39), java_unpacks=False),
    Kind("rot: says it is an inner batch", Fate.DAMAGED, rot=_put(36, ">i", 0xC0)),
    Kind("rot: magic", Fate.ROTTEN, rot=_flip(5)),
    Kind("rot: magic of a blank", Fate.ROTTEN, rot=_put(4, ">i", -875286124)),
    Kind("rot: size 0", Fate.ROTTEN, rot=_put(0, ">i", 0)),
    Kind("rot: size -1", Fate.ROTTEN, rot=_put(0, ">i", -1)),
    Kind("rot: size of 2 GiB", Fate.ROTTEN, rot=_put(0, ">i", 2**31 - 1)),
    Kind("rot: a byte less", Fate.ROTTEN, rot=lambda record: struct.pack_into(">i", record, 0, len(record) - 1)),
    Kind("rot: size of two", Fate.ROTTEN, rot=lambda record: struct.pack_into(">i", record, 0, 2 * len(record))),
    Kind("rot: queue offset", Fate.ROTTEN, rot=_flip(21)),
    Kind("rot: negative queue offset", Fate.ROTTEN, rot=_put(20, ">q", -5)),
    Kind("rot: hosts of IPv6", Fate.ROTTEN, rot=_flip(39, 4)),
    Kind("rot: body of -1 bytes", Fate.ROTTEN, rot=_put(84, ">i", -1)),
    Kind("rot: body of 2 GiB", Fate.ROTTEN, rot=_put(84, ">i", 2**31 - 1)),
    Kind("rot: topic of 255 bytes", Fate.ROTTEN, rot=_put(88 + len(TEXT), ">B", 255)),
    Kind("rot: all zero", Fate.ROTTEN, rot=_all(0)),
    Kind("rot: all one", Fate.ROTTEN, rot=_all(255)),
    Kind("rot: all magic", Fate.ROTTEN, rot=_all(0xDA)),
)  # fmt: skip

KINDS = SENT_KINDS + ROT_KINDS
