"""Plain pops: a pop at the start of a received chunk, read without a dict of fields.

Owns        which pops are plain, reading them.
Must not know   rights, queues, what a pop finds, the answer.

Plain is a pop with a JSON header, as Java's remoting client and ours write it, that asks for no order. The ordinary path
(protocol/, processors/pop.py) is the truth, and serves every other pop. A PlainPop has the values that its PopHeader
would have.

Kernel: Cython without a Python form. tests/parity/test_plain_pops.py feeds both paths the same traffic.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, Field, Frame, Head, as_text, find_frame, has_code, may_pass, read_header, read_int, read_number, same,
)
from rocketlake.codec.property_scan cimport Slice

__all__ = ["PlainPop", "PlainPopCutter"]

cdef enum:
    POP_MESSAGE = 200050
    LONG_DIGITS = 18
    ALL_NUMBERS = 0x3F  # a bit for each number a pop must have


cdef class PlainPop:
    """One pop. The attributes are those of PopHeader, and `opaque`; `end`: where it ends in its chunk."""

    cdef readonly str consumer_group
    cdef readonly str topic
    cdef readonly int32_t queue_id
    cdef readonly int32_t max_msg_nums
    cdef readonly int64_t invisible_time
    cdef readonly int64_t poll_time
    cdef readonly int64_t born_time
    cdef readonly int32_t init_mode
    cdef readonly str exp_type
    cdef readonly str exp
    cdef readonly int32_t opaque
    cdef readonly Py_ssize_t end

    @property
    def order(self):
        return False

    @property
    def attempt_id(self):
        """It counts only for a pop in order."""
        return None

    @property
    def kind(self):
        """The values that decide whether a consumer may pop: pops of one kind are checked once."""
        return self.consumer_group, self.topic, self.queue_id, self.max_msg_nums, self.exp, self.exp_type


cdef class PlainPopCutter:
    """Cuts plain pops from chunks."""

    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max
    cdef str _group
    cdef str _topic
    cdef str _exp

    def __init__(self, int64_t frame_bytes_max, int64_t header_bytes_max):
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self._group = self._topic = self._exp = ""

    def cut(self, bytes chunk, Py_ssize_t start):
        """The plain pop at `start`; None if the request there is not one."""
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* end = data + PyBytes_GET_SIZE(chunk)
        cdef Frame frame
        cdef Head head
        cdef Field fields[FIELDS_MAX]
        cdef PlainPop pop
        cdef int number, count
        cdef uint32_t seen = 0
        if not find_frame(data + start, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            return None
        if frame.body_size or frame.is_binary or not has_code(&frame, POP_MESSAGE, POP_MESSAGE):
            return None
        count = read_header(&frame, &head, fields, NULL)
        if count < 0 or head.flag or head.code != POP_MESSAGE:
            return None
        pop = PlainPop.__new__(PlainPop)
        for number in range(count):
            if not self._take(pop, fields[number].name, fields[number].value, &seen):
                return None
        if seen != ALL_NUMBERS or pop.consumer_group is None or pop.topic is None:
            return None
        pop.opaque = <int32_t>head.opaque
        pop.end = start + frame.size
        return pop

    cdef bint _take(self, PlainPop pop, Slice name, Slice value, uint32_t* seen) except -1:
        """Take one header field; False if the pop is not plain by its name or its value."""
        if value.size == 0:
            return False
        if same(name, b"consumerGroup", 13):
            pop.consumer_group = self._group = as_text(value, self._group)
        elif same(name, b"topic", 5):
            pop.topic = self._topic = as_text(value, self._topic)
        elif same(name, b"queueId", 7):
            seen[0] |= 1
            return read_int(value, &pop.queue_id)
        elif same(name, b"maxMsgNums", 10):
            seen[0] |= 2
            return read_int(value, &pop.max_msg_nums)
        elif same(name, b"invisibleTime", 13):
            seen[0] |= 4
            return read_number(value, LONG_DIGITS, &pop.invisible_time)
        elif same(name, b"pollTime", 8):
            seen[0] |= 8
            return read_number(value, LONG_DIGITS, &pop.poll_time)
        elif same(name, b"bornTime", 8):
            seen[0] |= 16
            return read_number(value, LONG_DIGITS, &pop.born_time)
        elif same(name, b"initMode", 8):
            seen[0] |= 32
            return read_int(value, &pop.init_mode)
        elif same(name, b"exp", 3):
            pop.exp = self._exp = as_text(value, self._exp)
        elif same(name, b"expType", 7):
            pop.exp_type = as_text(value, "TAG")
        elif same(name, b"order", 5):
            return same(value, b"false", 5)
        elif not same(name, b"attemptId", 9):
            return may_pass(name)
        return True
