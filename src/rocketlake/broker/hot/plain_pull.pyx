"""Plain pulls: a pull at the start of a received chunk, read without a dict of fields; the head of its answer.

Owns        which pulls are plain, reading them (JSON and binary header), the bytes before the records of an answer.
Must not know   the store, the rights of a consumer, the records that a pull finds.

Kernel: Cython without a Python form. The ordinary path (protocol/, processors/pull.py) is the truth. A PlainPull has
the values that its PullHeader would have; the ordinary path serves every pull that is not plain.
tests/parity/test_plain_pulls.py feeds both paths the same traffic.

Start reading at `PlainPullCutter.cut`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, INT_DIGITS, PREFIX_BYTES, Field, Frame, Head, as_text, find_frame, has_code, may_pass, put, put_prefix,
    read_header, read_int, read_number, same,
)
from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_layout cimport store32
from rocketlake.codec.record_run cimport put_number

__all__ = ["FoundAnswer", "PlainPull", "PlainPullCutter"]

cdef enum:
    PULL_MESSAGE = 11
    LITE_PULL_MESSAGE = 361
    PULL_SUBSCRIPTION = 4  # in sysFlag: the subscription comes with the pull
    NUMBERS = 5  # in the fields of an answer
    DIGITS_MAX = 20
    PARTS_BYTES_MAX = 512
    LONG_DIGITS = 18
    ALL_NUMBERS = 0x7F  # a bit for each number a pull must have


cdef class PlainPull:
    """One pull. The attributes are those of PullHeader, and `code`; `end`: where it ends in its chunk."""

    cdef readonly int code
    cdef readonly str consumer_group
    cdef readonly str topic
    cdef readonly int32_t queue_id
    cdef readonly int64_t queue_offset
    cdef readonly int32_t max_msg_nums
    cdef readonly int32_t sys_flag
    cdef readonly int64_t commit_offset
    cdef readonly int64_t suspend_timeout_millis
    cdef readonly int64_t sub_version
    cdef readonly str subscription
    cdef readonly str expression_type
    cdef readonly object max_msg_bytes
    cdef readonly Py_ssize_t end
    cdef int32_t opaque
    cdef bint is_binary

    @property
    def kind(self):
        """The values that decide whether a consumer may pull, apart from queue and limits: pulls of one kind are
        checked once."""
        return (self.code, self.consumer_group, self.topic, self.sys_flag & PULL_SUBSCRIPTION, self.sub_version,
                self.subscription, self.expression_type)


cdef class PlainPullCutter:
    """Cuts plain pulls from chunks."""

    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max
    cdef str _group
    cdef str _topic

    def __init__(self, int64_t frame_bytes_max, int64_t header_bytes_max):
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self._group = self._topic = ""

    def cut(self, bytes chunk, Py_ssize_t start):
        """The plain pull at `start`; None if the request there is not one."""
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* end = data + PyBytes_GET_SIZE(chunk)
        cdef Frame frame
        cdef Head head
        cdef Field fields[FIELDS_MAX]
        cdef PlainPull pull
        cdef int number, count
        cdef uint32_t seen = 0
        if not find_frame(data + start, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            return None
        if frame.body_size or not has_code(&frame, PULL_MESSAGE, LITE_PULL_MESSAGE):
            return None
        count = read_header(&frame, &head, fields, NULL)
        if count < 0 or head.flag or (head.code != PULL_MESSAGE and head.code != LITE_PULL_MESSAGE):
            return None
        pull = PlainPull.__new__(PlainPull)
        for number in range(count):
            if not self._take(pull, fields[number].name, fields[number].value, &seen):
                return None
        if seen != ALL_NUMBERS or pull.consumer_group is None or pull.topic is None:
            return None
        pull.code = <int>head.code
        pull.opaque = <int32_t>head.opaque
        pull.is_binary = head.is_binary
        pull.end = start + frame.size
        return pull

    cdef bint _take(self, PlainPull pull, Slice name, Slice value, uint32_t* seen) except -1:
        """Take one header field; False if the pull is not plain by its name or its value."""
        cdef int64_t number
        if value.size == 0:
            return False
        if same(name, b"consumerGroup", 13):
            pull.consumer_group = self._group = as_text(value, self._group)
        elif same(name, b"topic", 5):
            pull.topic = self._topic = as_text(value, self._topic)
        elif same(name, b"queueId", 7):
            seen[0] |= 1
            return read_int(value, &pull.queue_id)
        elif same(name, b"queueOffset", 11):
            seen[0] |= 2
            return read_number(value, LONG_DIGITS, &pull.queue_offset)
        elif same(name, b"maxMsgNums", 10):
            seen[0] |= 4
            return read_int(value, &pull.max_msg_nums)
        elif same(name, b"sysFlag", 7):
            seen[0] |= 8
            return read_int(value, &pull.sys_flag)
        elif same(name, b"commitOffset", 12):
            seen[0] |= 16
            return read_number(value, LONG_DIGITS, &pull.commit_offset)
        elif same(name, b"suspendTimeoutMillis", 20):
            seen[0] |= 32
            return read_number(value, LONG_DIGITS, &pull.suspend_timeout_millis)
        elif same(name, b"subVersion", 10):
            seen[0] |= 64
            return read_number(value, LONG_DIGITS, &pull.sub_version)
        elif same(name, b"subscription", 12):
            pull.subscription = as_text(value, None)
        elif same(name, b"expressionType", 14):
            pull.expression_type = as_text(value, "TAG")
        elif same(name, b"maxMsgBytes", 11):
            if not read_number(value, INT_DIGITS, &number):
                return False
            pull.max_msg_bytes = number
        elif same(name, b"requestSource", 13):
            return read_number(value, INT_DIGITS, &number)
        else:
            return may_pass(name)
        return True


cdef class FoundAnswer:
    """Makes the heads of answers FOUND.

    `json`: a header as the ordinary path writes it, cut at next offset, min offset, max offset, topic flag, group
    flag and opaque (7 parts). `binary`: the same without its opaque, cut before it, before the length of the fields
    and at each of the five numbers and their lengths (8 parts: up to the opaque, up to the length, then those of the
    fields).
    """

    cdef tuple _json
    cdef tuple _binary

    def __init__(self, tuple json, tuple binary):
        cdef bytes part
        cdef Py_ssize_t size = 0
        if len(json) != NUMBERS + 2 or len(binary) != NUMBERS + 3:
            raise ValueError("the parts of an answer are not complete")
        for part in json + binary:  # a TypeError for a part that is no bytes: the addresses of the parts are used below
            size += len(part)
        if size > 2 * PARTS_BYTES_MAX:
            raise ValueError("the parts of an answer are too long")
        self._json = json
        self._binary = binary

    def head(self, PlainPull pull, int64_t next_offset, int64_t min_offset, int64_t max_offset, int64_t topic_flag,
             int64_t group_flag, Py_ssize_t body_size):
        """The frame that answers a pull, without its body: `body_size` bytes of records follow it."""
        cdef uint8_t frame[PREFIX_BYTES + 2 * PARTS_BYTES_MAX + (NUMBERS + 1) * (DIGITS_MAX + 4)]
        cdef int64_t[NUMBERS] numbers = [next_offset, min_offset, max_offset, topic_flag, group_flag]
        cdef uint8_t* at = frame + PREFIX_BYTES
        cdef uint8_t* fields
        cdef Py_ssize_t digits
        cdef int number
        if pull.is_binary:
            at = put(at, <bytes>self._binary[0])
            store32(at, pull.opaque)
            at = put(at + 4, <bytes>self._binary[1])
            fields = at + 4
            at = put(fields, <bytes>self._binary[2])
            for number in range(NUMBERS):
                digits = _put_signed(at + 4, numbers[number])
                store32(at, digits)
                at = put(at + 4 + digits, <bytes>self._binary[3 + number])
            store32(fields - 4, at - fields)
        else:
            at = put(at, <bytes>self._json[0])
            for number in range(NUMBERS):
                at += _put_signed(at, numbers[number])
                at = put(at, <bytes>self._json[1 + number])
            at += put_number(at, pull.opaque)
            at = put(at, <bytes>self._json[NUMBERS + 1])
        put_prefix(frame, at - frame - PREFIX_BYTES, body_size, pull.is_binary)
        return PyBytes_FromStringAndSize(<const char*>frame, at - frame)


cdef inline Py_ssize_t _put_signed(uint8_t* at, int64_t value) noexcept:
    if value >= 0:
        return put_number(at, value)
    at[0] = c"-"
    return 1 + put_number(at + 1, -value)
