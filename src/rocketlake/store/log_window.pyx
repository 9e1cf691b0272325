"""Single records of the log, read in place, without an object per record.

Owns        the look at a record by its place in the log: is one there, and in memory; where its parts lie.
Must not know   queues, what a record is read for.

Kernel: Cython without a Python form. CommitLog.record and codec/record.py are the truth: a record that is found is the
one that they give. In every other case nothing is found, and the caller asks them. tests/parity/test_plain_ends.py
compares the two through what is made of the records.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketlake.codec.record_layout cimport (
    BODY_AT, BORN_HOST_AT, BORN_HOST_V6, BORN_MS_AT, FLAG_AT, HOST_BYTES_V4, HOST_BYTES_V6, MAGIC_AT, MAGIC_V1,
    PHYSICAL_OFFSET_AT, PROPERTIES_BYTES_MAX, QUEUE_OFFSET_AT, RECORD_BYTES_MIN, STORE_HOST_V6, SYS_FLAG_AT,
    TOPIC_BYTES_MAX_V1, load16, load32, load64,
)
from rocketlake.store.residency import BLOCK_BITS

__all__ = ["LogWindow"]

cdef int _BLOCK_BITS = BLOCK_BITS


cdef class LogWindow:
    """Looks at the log of one store, at one file after the other. `view`: the file of the last record."""

    def __init__(self, window):
        """`window`: Fetch.window."""
        self._window = window
        self.end()

    cdef int end(self) except -1:
        """Call it after the last look of a turn: bytes may leave memory, and the file may expire."""
        self.view = None
        self._data = None
        self._sure = None
        self._origin = self._size = 0
        return 0

    cdef bint find(self, int64_t offset, LogRecord* record) except -1:
        """The v1 record at this physical offset. False if none is there, or it cannot be read without waiting.

        Its parts stay where they are while the caller keeps `view`.
        """
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef int64_t size, body_size
        if not self._is_inside(offset - self._origin, RECORD_BYTES_MIN) and not self._open(offset, RECORD_BYTES_MIN):
            return False
        at = &self._data[offset - self._origin]
        size = <int32_t>load32(at)
        if size < RECORD_BYTES_MIN or load32(at + MAGIC_AT) != MAGIC_V1:
            return False
        if <int64_t>load64(at + PHYSICAL_OFFSET_AT) != offset:
            return False
        if not self._is_inside(offset - self._origin, size):
            if not self._open(offset, size):
                return False
            at = &self._data[offset - self._origin]
        end = at + size
        record.queue_offset = <int64_t>load64(at + QUEUE_OFFSET_AT)
        record.born_ms = <int64_t>load64(at + BORN_MS_AT)
        record.flag = <int32_t>load32(at + FLAG_AT)
        record.sys_flag = <int32_t>load32(at + SYS_FLAG_AT)
        record.born_host.at = at + BORN_HOST_AT
        record.born_host.size = HOST_BYTES_V6 if record.sys_flag & BORN_HOST_V6 else HOST_BYTES_V4
        record.store_host.at = record.born_host.at + record.born_host.size + 8
        record.store_host.size = HOST_BYTES_V6 if record.sys_flag & STORE_HOST_V6 else HOST_BYTES_V4
        at += BODY_AT + record.born_host.size + record.store_host.size - 2 * HOST_BYTES_V4
        if end - at < 3:
            return False
        record.reconsume_times = <int32_t>load32(at - 16)
        body_size = <int32_t>load32(at - 4)
        if body_size < 0 or body_size > end - at - 3:
            return False
        record.body.at = at
        record.body.size = body_size
        at += body_size
        record.topic.at = at + 1
        record.topic.size = at[0]
        if record.topic.size > TOPIC_BYTES_MAX_V1 or record.topic.size > end - at - 3:
            return False
        at = record.topic.at + record.topic.size
        record.properties.at = at + 2
        record.properties.size = load16(at)
        return record.properties.size <= PROPERTIES_BYTES_MAX and record.properties.at + record.properties.size == end

    cdef bint _is_inside(self, int64_t position, int64_t size) noexcept:
        """True if these bytes lie in the window, in blocks that can be read without waiting."""
        cdef const char* sure
        cdef int64_t block
        if position < 0 or position > self._size - size:
            return False
        sure = PyByteArray_AS_STRING(self._sure)
        for block in range(position >> _BLOCK_BITS, ((position + size - 1) >> _BLOCK_BITS) + 1):
            if sure[block] == 0:
                return False
        return True

    cdef bint _open(self, int64_t offset, int64_t size) except -1:
        """Make the file of these bytes the window; False if no file has them, or they must be read from disk."""
        found = self._window(offset, size)
        if found is None:
            return False
        view, origin, end, sure = found
        if view is not self.view:
            self._data = self.view = view
        self._origin = origin
        self._sure = sure
        self._size = min(<int64_t>end - self._origin, self._data.shape[0], <int64_t>len(sure) << _BLOCK_BITS)
        return self._is_inside(offset - self._origin, size)
