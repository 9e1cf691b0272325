"""Plain reads of a queue: entries and records lie in memory, records in one file of the log; nothing is made for each.

Owns        the entries it has read ahead, the walk over them, the records as buffers to write.
Must not know   sessions, subscriptions, frames; how it comes about that something is in memory.

Kernel: Cython without a Python form. fetch.py and selection.py are the truth: what a plain read finds is what a fetch
that does not wait would have found, and every other outcome is left to them. tests/parity/test_plain_fetch.py and
test_plain_pulls.py compare the two.

Start reading at `PlainFetch.fetch`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from rocketlake.store.residency import BLOCK_BITS

__all__ = ["PlainFetch"]

cdef extern from *:
    """
    #define rocketlake_prefetch(at) __builtin_prefetch(at)
    """
    void prefetch "rocketlake_prefetch"(const void* at) noexcept nogil

cdef enum:
    ENTRY_BYTES = 20
    FILLER_SIZE = 0x7FFFFFFF
    LEAST_RECORD = 91
    BODY_AT = 88  # of a record, both hosts with IPv4
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    V6_MORE = 12
    MAGIC_V1 = 0xDAA320A7
    MAGIC_V2 = 0xDAA320AB
    PIECES_MAX = 256
    AHEAD_ENTRIES = 128  # read at once: four pulls of 32 messages
    AHEAD_QUEUES_MAX = 1024
    PREFETCHED = 8  # records whose heads are asked for before they are looked at
    NAMES_PREFETCHED = 4  # of these the topic, too
    BYTES_MIN = 100  # as in fetch.py
    BYTES_MAX = 134217728
    COPIED_BYTES = 8192  # pieces that are smaller on average are copied into one: docs/decisions/0002 and 0008

cdef int _BLOCK_BITS = BLOCK_BITS


cdef class _Ahead:
    """Entries of one queue, from queue offset `first` on. An entry never changes once it can be read."""

    cdef int64_t first
    cdef int64_t count
    cdef object entries
    cdef const uint8_t[::1] data


cdef class PlainFetch:
    """Reads queues of one store. The attributes tell what the last `fetch` found."""

    cdef readonly int64_t next_offset
    cdef readonly int64_t min_offset
    cdef readonly int64_t max_offset
    cdef readonly int64_t count
    cdef readonly int64_t size

    cdef object _fetch
    cdef dict _ahead
    cdef int64_t _memory_bytes, _scan_min, _recent_count, _recent_bytes, _old_count, _old_bytes
    cdef int64_t _min_physical, _recent_from
    cdef object _view
    cdef const uint8_t[::1] _window
    cdef const uint8_t* _data
    cdef bytearray _sure
    cdef int64_t _origin, _end
    cdef int64_t[PIECES_MAX] _starts
    cdef int64_t[PIECES_MAX] _ends
    cdef int _pieces
    cdef bytes _topic
    cdef const uint8_t* _topic_name
    cdef int64_t _topic_size
    cdef int32_t _queue_id

    def __init__(self, fetch):
        """`fetch`: the Fetch of the store."""
        self._fetch = fetch
        self._ahead = {}
        self._memory_bytes, self._scan_min, recent, old = fetch.limits
        self._recent_count, self._recent_bytes = recent
        self._old_count, self._old_bytes = old
        self.end()

    def begin(self):
        """Before the first fetch of a turn of the loop: where the log begins and ends now."""
        log_start, log_end = self._fetch.log_range
        self._min_physical = log_start
        self._recent_from = log_end - self._memory_bytes

    def end(self):
        """Behind the last one: what is in memory must be asked anew, and a file that expires must not be held."""
        self._window = self._view = None
        self._sure = None
        self._data = NULL
        self._origin = self._end = 0

    def fetch(self, queue, int64_t offset, int64_t max_messages, int64_t max_bytes, match):
        """Find messages from queue offset `offset` on. False, and nothing found, where the whole Fetch must look.

        Raises OSError.
        """
        cdef int64_t low = queue.min_offset(self._min_physical)
        cdef int64_t high = queue.max_offset
        cdef int64_t per_file = queue.entries_per_file
        cdef int64_t position = offset, scan_end, taken
        cdef _Ahead ahead
        self.count = self.size = 0
        self._pieces = 0
        self._topic = queue.topic_name
        self._topic_name = <const uint8_t*>PyBytes_AS_STRING(self._topic)
        self._topic_size = PyBytes_GET_SIZE(self._topic)
        self._queue_id = queue.queue_id
        if offset < low or offset >= high:
            return False
        max_bytes = min(max(max_bytes, <int64_t>BYTES_MIN), <int64_t>BYTES_MAX)
        scan_end = min(min(offset + max(self._scan_min, max_messages), high), offset - offset % per_file + per_file)
        while position < scan_end:
            ahead = self._entries(queue, position, high)
            if ahead is None:
                break
            taken = self._walk(ahead, position - ahead.first, scan_end - position, max_messages, max_bytes, match)
            if taken < 0:
                return False
            position += taken
            if position < min(scan_end, ahead.first + ahead.count):
                break  # full
        self.next_offset, self.min_offset, self.max_offset = position, low, high
        return self.count > 0

    def framed(self, bytes head):
        """What was found as buffers to write, `head` before it."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(head)
        cdef bytes whole
        cdef uint8_t* at
        cdef int piece
        if self._pieces == 1 or self.size >= <int64_t>self._pieces * COPIED_BYTES:
            return [head, *[self._view[self._starts[piece] : self._ends[piece]] for piece in range(self._pieces)]]
        whole = PyBytes_FromStringAndSize(NULL, size + self.size)
        at = <uint8_t*>PyBytes_AS_STRING(whole)
        memcpy(at, PyBytes_AS_STRING(head), size)
        at += size
        for piece in range(self._pieces):
            size = self._ends[piece] - self._starts[piece]
            memcpy(at, self._data + self._starts[piece], size)
            at += size
        return [whole]

    cdef _Ahead _entries(self, queue, int64_t position, int64_t high):
        """Entries of the queue with the one at `position`; None if they are not in memory."""
        cdef _Ahead ahead = self._ahead.get(queue)
        if ahead is not None and ahead.first <= position < ahead.first + ahead.count:
            return ahead
        entries = queue.packed_now(position, min(<int64_t>AHEAD_ENTRIES, high - position))
        if not entries:
            return None
        if ahead is None:
            if len(self._ahead) >= AHEAD_QUEUES_MAX:
                self._ahead.clear()
            ahead = self._ahead[queue] = _Ahead.__new__(_Ahead)
        ahead.data = entries
        ahead.first = position
        ahead.count = ahead.data.shape[0] // ENTRY_BYTES
        return ahead

    cdef int64_t _walk(self, _Ahead ahead, int64_t number, int64_t left, int64_t max_messages, int64_t max_bytes,
                       match) except -2:
        """Take the records of entries from `number` on; how many entries are done with, -1 if Fetch must look.

        Fewer than `left` (and than there are) if the answer is full.
        """
        cdef int64_t first = number, end = min(number + left, ahead.count), ahead_of, offset, size
        cdef const uint8_t* entry
        if self._data == NULL:
            entry = &ahead.data[number * ENTRY_BYTES]
            size = <int32_t>_int32(entry + 8)
            if size >= LEAST_RECORD and not self._open(_int64(entry), size):
                return -1
        for ahead_of in range(number, min(number + PREFETCHED, end)):
            self._prefetch(&ahead.data[ahead_of * ENTRY_BYTES])
        while number < end:
            entry = &ahead.data[number * ENTRY_BYTES]
            offset = _int64(entry)
            size = <int32_t>_int32(entry + 8)
            if self.count and self._is_enough(offset, size, max_messages, max_bytes):
                break
            if number + PREFETCHED < end:
                self._prefetch(entry + PREFETCHED * ENTRY_BYTES)
            if number + NAMES_PREFETCHED < end:
                self._prefetch_name(entry + NAMES_PREFETCHED * ENTRY_BYTES)
            if size == FILLER_SIZE and offset == 0:
                pass
            elif size < LEAST_RECORD or offset < 0:
                return -1
            elif match is None or match(_int64(entry + 12)):
                if not self._is_inside(offset, size):
                    if not self._open(offset, size):
                        return -1
                if not self._is_own(self._data + (offset - self._origin), size, offset):
                    return -1
                if not self._take(offset - self._origin, size):
                    return -1
            number += 1
        return number - first

    cdef inline void _prefetch(self, const uint8_t* entry) noexcept:
        cdef int64_t position = _int64(entry) - self._origin
        if 0 <= position < self._end - self._origin:
            prefetch(self._data + position)
            prefetch(self._data + position + BODY_AT - 4)

    cdef inline int _prefetch_name(self, const uint8_t* entry) except -1:
        """Its head is here by now, and says where the topic lies."""
        cdef int64_t offset = _int64(entry), size = <int32_t>_int32(entry + 8), name
        if size >= LEAST_RECORD and self._is_inside(offset, size):
            name = BODY_AT + <int64_t>_int32(self._data + (offset - self._origin) + BODY_AT - 4)
            if name < size:
                prefetch(self._data + (offset - self._origin) + name)
        return 0

    cdef bint _is_enough(self, int64_t offset, int64_t size, int64_t max_messages, int64_t max_bytes) noexcept:
        """Would one more message be too much? As in selection.py."""
        if offset >= self._recent_from:
            return (self.count >= min(max_messages, self._recent_count)
                    or self.size + size > min(max_bytes, self._recent_bytes))
        return (self.count >= min(max_messages, self._old_count)
                or self.size + size > min(max_bytes, self._old_bytes))

    cdef bint _is_inside(self, int64_t offset, int64_t size) except -1:
        """Does a record lie in the window, where it can be looked at without waiting?"""
        cdef int64_t block, last
        if offset < self._origin or offset > self._end - size:
            return False
        block = (offset - self._origin) >> _BLOCK_BITS
        last = (offset - self._origin + size - 1) >> _BLOCK_BITS
        while block <= last:
            if self._sure[block] == 0:
                return False
            block += 1
        return True

    cdef bint _open(self, int64_t offset, int64_t size) except -1:
        """Make the file of a record the window; False if the record is not there, or must be read from disk.

        False too if what was taken so far lies in another file.
        """
        found = self._fetch.window(offset, size)
        if found is None:
            return False
        view, origin, end, sure = found
        if view is not self._view or origin != self._origin:
            if self._pieces:
                return False
            self._window = self._view = view
            self._origin = origin
        self._end, self._sure = end, sure
        self._data = &self._window[0]
        return True

    cdef bint _is_own(self, const uint8_t* at, int64_t size, int64_t offset) noexcept:
        """Do these bytes say that they are the record of this size, offset, topic and queue? As in selection.py."""
        cdef uint32_t magic = _int32(at + 4)
        cdef int64_t body = BODY_AT, body_size, name, said
        if (
            <int32_t>_int32(at) != size or _int64(at + 28) != offset or <int32_t>_int32(at + 12) != self._queue_id
            or (magic != MAGIC_V1 and magic != MAGIC_V2)
        ):
            return False
        if at[39] & (BORN_HOST_V6 | STORE_HOST_V6):
            body += (V6_MORE if at[39] & BORN_HOST_V6 else 0) + (V6_MORE if at[39] & STORE_HOST_V6 else 0)
            if body > size:
                return False
        body_size = <int32_t>_int32(at + body - 4)
        name = body + body_size + (1 if magic == MAGIC_V1 else 2)
        if body_size < 0 or name + self._topic_size > size:
            return False
        said = at[name - 1] if magic == MAGIC_V1 else at[name - 2] << 8 | at[name - 1]
        return said == self._topic_size and memcmp(at + name, self._topic_name, self._topic_size) == 0

    cdef bint _take(self, int64_t position, int64_t size) noexcept:
        """Add a record; False if there are too many pieces."""
        if self._pieces and self._ends[self._pieces - 1] == position:
            self._ends[self._pieces - 1] += size
        elif self._pieces == PIECES_MAX:
            return False
        else:
            self._starts[self._pieces] = position
            self._ends[self._pieces] = position + size
            self._pieces += 1
        self.count += 1
        self.size += size
        return True


cdef inline uint32_t _int32(const uint8_t* at) noexcept:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t _int64(const uint8_t* at) noexcept:
    return <int64_t>(<uint64_t>_int32(at) << 32 | _int32(at + 4))
