"""The messages of a pop as a gRPC client receives them, written straight from the bytes of their records.

Owns        which records are plain; the bytes of a ReceiveMessageResponse that holds one.
Must not know   how messages are popped, connections, responses without a message.

Kernel: Cython without a Python form. incoming.py, receipts.py and protobuf are the truth. A record is plain if they would
make these bytes of it, whatever the order of its fields. One that is not plain is given as it is, for the ordinary path:
one that is packed otherwise than by gzip, of a retry or another topic, with a text that is not printable ASCII, with an
IPv6 host, or with a property that says more than this kernel knows. tests/property/test_proxy_received.py compares.
"""

from hashlib import md5

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.base.checksum cimport checksum_of
from rocketlake.codec.name_set cimport NameSet
from rocketlake.codec.property_scan cimport NAME_END, Slice, pair_end
from rocketlake.codec.record_layout cimport (
    BODY_AT, BORN_HOST_AT, BORN_HOST_V6, BORN_MS_AT, CRC_AT, INNER_BATCH, MAGIC_AT, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT, QUEUE_OFFSET_AT, RECORD_BYTES_MIN, STORE_HOST_V6, STORE_MS_AT, SYS_FLAG_AT, load16, load32, load64,
)
from rocketlake.codec.record_run cimport put_number as put_decimal
from rocketlake.model.property_names import (
    DELAY, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, FAMILIES, LITE_TOPIC, POP_CK, PRIORITY, RESERVED, SHARDING_KEY, SYSTEM,
    TIMERS, TRACE_CONTEXT,
)
from rocketlake.proxy.convert.names import resource_of
from rocketlake.proxy.v2.wire cimport (
    BYTES, NUMBER, is_printable, put_head, put_number, put_text, text_bytes,
)

__all__ = ["Received", "ReceivedWriter"]

cdef enum:
    COMPRESSED = 1
    COMPRESSION_BITS = 0x700
    ZLIB_BITS = 0x300
    GZIP = 2
    IDENTITY = 1
    MD5 = 2
    NORMAL = 1
    FIFO = 2
    TRANSACTION = 4
    PAIRS_MAX = 48
    TEXT_MAX = 34000  # user properties, and system properties, of the longest plain property text
    PLAIN_TEXT_MAX = 30000
    KEYS_MAX = 1000
    HANDLE_MAX = 400
    BROKER_MAX = 127
    RECONSUMES_MAX = 1000000
    STORE_HOST_AT = STORE_MS_AT + 8
    RECONSUMED_AT = STORE_HOST_AT + 8
    BODY_SIZE_AT = BODY_AT - 4

# Names that are no user property but for which nothing is written either.
cdef NameSet _hidden = NameSet(RESERVED - {POP_CK, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, DELAY} - TIMERS)
# Names that the ordinary path must look at.
cdef NameSet _other = NameSet(
    {POP_CK, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, DELAY, PRIORITY, LITE_TOPIC} | TIMERS
)

cdef struct Pair:
    Slice name
    Slice value
    bint is_own  # a user property

cdef struct Marks:
    Slice tags
    Slice keys
    Slice unique_key
    Slice group
    Slice trace
    Slice born_host
    bint is_transaction
    int count
    Pair pair[PAIRS_MAX]


cdef class Received:
    """One message of a pop. `response` is None for a record that is not plain, and `handle` and `message_id` with it."""

    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef readonly bytes message_id
    cdef readonly bytes handle
    cdef readonly bytes response


cdef class ReceivedWriter:
    """Writes the messages of one pop of a topic at a broker."""

    cdef bytes _topic
    cdef bytes _resource
    cdef bytes _broker
    cdef bytes _middle
    cdef bytes _duration
    cdef dict _starts
    cdef int64_t _retries_max

    def __init__(self, str topic not None, str broker_name not None, dict starts not None, int64_t pop_ms,
                 int64_t invisible_ms, int revive_queue, int64_t retries_max):
        """`starts`: queue id -> start offset of its check point; a record of another queue is not plain, nor is one that
        was tried more often than `retries_max`. A broker name that is not short ASCII: ValueError."""
        cdef bytes broker = broker_name.encode()
        if not broker.isascii() or not 0 < len(broker) <= BROKER_MAX or not 0 <= invisible_ms < 1 << 50:
            raise ValueError(f"broker {broker_name!r}, {invisible_ms} ms")
        self._topic = topic.encode()
        self._resource = resource_of(topic).SerializeToString()
        self._middle = f" {pop_ms} {invisible_ms} {revive_queue} 0 {broker_name} ".encode()
        self._duration = _time(invisible_ms) if invisible_ms else b""
        self._starts = starts
        self._retries_max = min(retries_max, RECONSUMES_MAX)

    def write(self, bytes records not None):
        """A Received for each record; the last one's end is behind the last whole record."""
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(records)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(records), at = 0
        cdef int64_t length
        cdef list found = []
        cdef Received one
        while size - at >= 4:
            length = <int32_t>load32(start + at)
            if length < RECORD_BYTES_MIN or length > size - at:
                break
            one = Received.__new__(Received)
            one.start = at
            one.end = at + length
            self._write(one, start + at, length)
            found.append(one)
            at += length
        return found

    cdef int _write(self, Received one, const uint8_t* record, Py_ssize_t size) except -1:
        cdef uint8_t handle[HANDLE_MAX]
        cdef Marks marks
        cdef Slice topic, text, body
        cdef int64_t queue_id, queue_offset, sys_flag
        cdef Py_ssize_t handle_size
        cdef int encoding = IDENTITY
        if not _find_parts(record, size, &topic, &body, &text):
            return 0
        if topic.size != PyBytes_GET_SIZE(self._topic) or memcmp(topic.at, PyBytes_AS_STRING(self._topic), topic.size):
            return 0
        sys_flag = load32(record + SYS_FLAG_AT)
        if sys_flag & COMPRESSED:
            if sys_flag & COMPRESSION_BITS not in (0, ZLIB_BITS) or body.size < 3 or memcmp(body.at, b"\x1f\x8b\x08", 3):
                return 0
            encoding = GZIP
        if not _read_marks(text, &marks) or marks.unique_key.size == 0:
            return 0
        queue_id = <int32_t>load32(record + QUEUE_ID_AT)
        queue_offset = <int64_t>load64(record + QUEUE_OFFSET_AT)
        if queue_id < 0 or queue_offset < 0 or <int64_t>load64(record + PHYSICAL_OFFSET_AT) < 0:
            return 0
        if not (0 <= <int64_t>load64(record + BORN_MS_AT) < 1 << 47 and 0 <= <int64_t>load64(record + STORE_MS_AT) < 1 << 47):
            return 0
        start = self._starts.get(queue_id)
        if start is None:
            return 0
        if load32(record + RECONSUMED_AT) > self._retries_max or <int32_t>load32(record + STORE_HOST_AT + 4) < 0:
            return 0
        if body.size and checksum_of(body.at, body.size) & 0x7FFFFFFF != load32(record + CRC_AT):
            return 0
        handle_size = self._put_handle(handle, start, queue_id, queue_offset,
                                       <int64_t>load64(record + PHYSICAL_OFFSET_AT))
        one.message_id = PyBytes_FromStringAndSize(<const char*>marks.unique_key.at, marks.unique_key.size)
        one.handle = PyBytes_FromStringAndSize(<const char*>handle, handle_size)
        one.response = self._response(record, &marks, body, encoding, handle, handle_size)
        return 0

    cdef Py_ssize_t _put_handle(self, uint8_t* handle, int64_t start, int64_t queue_id, int64_t queue_offset,
                                int64_t physical_offset) except -1:
        cdef uint8_t* at = handle
        at += put_decimal(at, start)
        at = _put(at, self._middle)
        at += put_decimal(at, queue_id)
        at[0] = c" "
        at += 1 + put_decimal(at + 1, queue_offset)
        at[0] = c" "
        at += 1 + put_decimal(at + 1, physical_offset)
        return at - handle

    cdef bytes _response(self, const uint8_t* record, Marks* marks, Slice body, int encoding, uint8_t* handle,
                         Py_ssize_t handle_size):
        cdef uint8_t own[TEXT_MAX]
        cdef uint8_t system[TEXT_MAX]
        cdef Py_ssize_t own_size = _put_own(own, marks) - own
        cdef uint8_t* at = system
        cdef Py_ssize_t system_size, size
        cdef bytes made
        at = _put_named(at, marks)
        at = _put_digest(at, body)
        at = put_head(at, 5, NUMBER, encoding)
        at = put_head(at, 6, NUMBER, TRANSACTION if marks.is_transaction else FIFO if marks.group.size else NORMAL)
        at = _put_time(at, 7, load64(record + BORN_MS_AT))
        at = _put_born_host(at, marks.born_host, record)
        at = _put_time(at, 9, load64(record + STORE_MS_AT))
        at = _put_address(at, 10, record + STORE_HOST_AT, True)
        at = put_text(at, 12, handle, handle_size)
        if load32(record + QUEUE_ID_AT):
            at = put_head(at, 13, NUMBER, load32(record + QUEUE_ID_AT))
        at = put_head(at, 14, NUMBER, load64(record + QUEUE_OFFSET_AT))
        if self._duration:
            at = put_text(at, 15, <const uint8_t*>PyBytes_AS_STRING(self._duration), PyBytes_GET_SIZE(self._duration))
        at = put_number(put_number(at, 16 << 3 | NUMBER), load32(record + RECONSUMED_AT) + 1)
        if marks.group.size:
            at = put_text(at, 17, marks.group.at, marks.group.size)
        if marks.trace.size:
            at = put_text(at, 18, marks.trace.at, marks.trace.size)
        system_size = at - system
        size = text_bytes(PyBytes_GET_SIZE(self._resource)) + own_size + text_bytes(system_size)
        if body.size:
            size += text_bytes(body.size)
        made = PyBytes_FromStringAndSize(NULL, text_bytes(size))
        at = put_head(<uint8_t*>PyBytes_AS_STRING(made), 2, BYTES, size)
        at = put_text(at, 1, <const uint8_t*>PyBytes_AS_STRING(self._resource), PyBytes_GET_SIZE(self._resource))
        memcpy(at, own, own_size)
        at = put_text(at + own_size, 3, system, system_size)
        if body.size:
            put_text(at, 4, body.at, body.size)
        return made


cdef bint _find_parts(const uint8_t* record, Py_ssize_t size, Slice* topic, Slice* body, Slice* text) noexcept:
    """The parts of a record with IPv4 hosts; False for another one, and for one whose lengths do not fit."""
    cdef int64_t magic = load32(record + MAGIC_AT)
    cdef int64_t at = BODY_AT
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    if load32(record + SYS_FLAG_AT) & (BORN_HOST_V6 | STORE_HOST_V6 | INNER_BATCH):
        return False
    body.at = record + at
    body.size = <int32_t>load32(record + BODY_SIZE_AT)
    if body.size < 0 or at + body.size + 2 > size:
        return False
    at += body.size
    if magic == MAGIC_V1:
        topic.size = record[at]
        at += 1
    else:
        topic.size = load16(record + at)
        at += 2
    topic.at = record + at
    at += topic.size
    if at + 2 > size:
        return False
    text.size = load16(record + at)
    text.at = record + at + 2
    return at + 2 + text.size == size and text.size <= PLAIN_TEXT_MAX


cdef bint _read_marks(Slice text, Marks* marks) noexcept:
    """Read the properties; False for a text that is not plain: irregular, with one of `_other`, or with a name twice and
    another value. The same twice is plain: Java's producers of batches give WAIT to each message, and to the batch."""
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.at + text.size
    cdef const uint8_t* middle
    cdef const uint8_t* stop
    cdef int earlier
    cdef Pair* pair
    marks.tags.size = marks.keys.size = marks.unique_key.size = 0
    marks.group.size = marks.trace.size = marks.born_host.size = 0
    marks.is_transaction = False
    marks.count = 0
    while at < end:
        stop = pair_end(at, end, &middle)
        if middle == NULL or middle == at or middle + 1 == stop or marks.count == PAIRS_MAX:
            return False
        pair = &marks.pair[marks.count]
        pair.name.at, pair.name.size = at, middle - at
        pair.value.at, pair.value.size = middle + 1, stop - middle - 1
        if not is_printable(pair.name) or not is_printable(pair.value) or _other.has(at, pair.name.size):
            return False
        earlier = 0
        while earlier < marks.count and not _same(marks.pair[earlier].name, pair.name):
            earlier += 1
        if earlier == marks.count:
            pair.is_own = not _hidden.has(at, pair.name.size)
            if not _take(marks, pair):
                return False
            marks.count += 1
        elif not _same(marks.pair[earlier].value, pair.value):
            return False
        at = stop + 1
    return True


cdef bint _same(Slice text, Slice other) noexcept:
    return text.size == other.size and memcmp(text.at, other.at, text.size) == 0


cdef bint _take(Marks* marks, Pair* pair) noexcept:
    """Note a property that has a field of its own; False if its value is not plain."""
    cdef Slice value = pair.value
    if _is(pair, b"TAGS", 4):
        marks.tags = value
    elif _is(pair, b"KEYS", 4):
        marks.keys = value
        return value.size <= KEYS_MAX
    elif _is(pair, b"UNIQ_KEY", 8):
        marks.unique_key = value
    elif _is(pair, b"TRAN_MSG", 8):
        marks.is_transaction = value.size == 4 and memcmp(value.at, b"true", 4) == 0
    elif _is(pair, b"__SHARDINGKEY", 13):
        marks.group = value
    elif _is(pair, b"TRACE_CONTEXT", 13):
        marks.trace = value
    elif _is(pair, b"__BORNHOST", 10):
        marks.born_host = value
        return value.at[0] != c" " and value.at[value.size - 1] != c" "
    return True


cdef bint _is(Pair* pair, const char* name, Py_ssize_t size) noexcept:
    return pair.name.size == size and memcmp(pair.name.at, name, size) == 0


cdef uint8_t* _put_own(uint8_t* at, Marks* marks) noexcept:
    """The user properties: entries of a map, each a message of name and value."""
    cdef int number
    cdef Pair* pair
    for number in range(marks.count):
        pair = &marks.pair[number]
        if pair.is_own:
            at = put_head(at, 2, BYTES, text_bytes(pair.name.size) + text_bytes(pair.value.size))
            at = put_text(at, 1, pair.name.at, pair.name.size)
            at = put_text(at, 2, pair.value.at, pair.value.size)
    return at


cdef uint8_t* _put_named(uint8_t* at, Marks* marks) noexcept:
    """tag, keys and message id."""
    cdef const uint8_t* key = marks.keys.at
    cdef const uint8_t* end = marks.keys.at + marks.keys.size
    cdef const uint8_t* stop
    if marks.tags.size:
        at = put_text(at, 1, marks.tags.at, marks.tags.size)
    if marks.keys.size:
        while key < end:
            stop = key
            while stop < end and stop[0] != c" ":
                stop += 1
            if stop > key:
                at = put_text(at, 2, key, stop - key)
            key = stop + 1
    return put_text(at, 3, marks.unique_key.at, marks.unique_key.size)


cdef uint8_t* _put_digest(uint8_t* at, Slice body) except NULL:
    """The MD5 of the body in upper-case hex: each client reads that one in the same way."""
    cdef bytes digest = md5(PyMemoryView_FromMemory(<char*>body.at, body.size, PyBUF_READ)).digest()
    cdef const uint8_t* raw = <const uint8_t*>PyBytes_AS_STRING(digest)
    cdef int number
    at = put_head(at, 4, BYTES, 2 + 2 + 32)
    at = put_head(put_head(at, 1, NUMBER, MD5), 2, BYTES, 32)
    for number in range(16):
        at[0] = b"0123456789ABCDEF"[raw[number] >> 4]
        at[1] = b"0123456789ABCDEF"[raw[number] & 15]
        at += 2
    return at


cdef bytes _time(int64_t ms):
    cdef uint8_t written[32]
    return PyBytes_FromStringAndSize(<const char*>written, _put_seconds(written, ms) - written)


cdef uint8_t* _put_seconds(uint8_t* at, int64_t ms) noexcept:
    """The fields of a Timestamp or a Duration."""
    if ms >= 1000:
        at = put_head(at, 1, NUMBER, ms // 1000)
    if ms % 1000:
        at = put_head(at, 2, NUMBER, ms % 1000 * 1000000)
    return at


cdef uint8_t* _put_time(uint8_t* at, int field, int64_t ms) noexcept:
    cdef uint8_t written[32]
    return put_text(at, field, written, _put_seconds(written, ms) - written)


cdef uint8_t* _put_born_host(uint8_t* at, Slice named, const uint8_t* record) noexcept:
    if named.size:
        return put_text(at, 8, named.at, named.size)
    return _put_address(at, 8, record + BORN_HOST_AT, False)


cdef uint8_t* _put_address(uint8_t* at, int field, const uint8_t* host, bint with_port) noexcept:
    cdef uint8_t written[32]
    cdef uint8_t* end = written
    cdef int number
    for number in range(4):
        if number:
            end[0] = c"."
            end += 1
        end += put_decimal(end, host[number])
    if with_port:
        end[0] = c":"
        end += 1 + put_decimal(end + 1, <int32_t>load32(host + 4))
    return put_text(at, field, written, end - written)


cdef uint8_t* _put(uint8_t* at, bytes text) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    memcpy(at, PyBytes_AS_STRING(text), size)
    return at + size
