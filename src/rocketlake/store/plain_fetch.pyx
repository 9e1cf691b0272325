"""Plain reads of a queue: entries and records lie in memory, the records in one file of the log. No object per record.

Owns        the entries it has read ahead, the walk over them, the records as buffers to write.
Must not know   sessions, subscriptions, frames; how bytes come into memory (residency.py).

Kernel: Cython without a Python form. fetch.py and selection.py are the truth: a plain read finds the records that a
fetch without waiting would find. In every other case it finds nothing, and the caller asks Fetch.
tests/parity/test_plain_fetch.py and test_plain_pulls.py compare the two.

It stands in the store, not in broker/hot: it knows the bytes of queue entries and the mapped files of the log.

Start reading at `PlainFetch.fetch`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcmp, memcpy

from rocketlake.codec.record_layout cimport (
    BODY_AT, BORN_HOST_V6, ENTRY_SIZE, FILLER_SIZE, HOST_V6_MORE, MAGIC_AT, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT, QUEUE_OFFSET_AT, RECORD_BYTES_MIN, STORE_HOST_V6, SYS_FLAG_AT, load32, load64,
)
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.residency import BLOCK_BITS
from rocketlake.store.results import PIECE_BYTES_MIN

__all__ = ["PlainFetch"]

cdef extern from *:
    """
    #define rocketlake_prefetch(at) __builtin_prefetch((const void*)(at))
    static CYTHON_INLINE int rocketlake_same(const uint8_t* left, const uint8_t* right, Py_ssize_t size) {
        uint64_t one, other;
        Py_ssize_t at;
        if (size < 8) return memcmp(left, right, size) == 0;
        for (at = 0; at + 8 < size; at += 8) {
            memcpy(&one, left + at, 8);
            memcpy(&other, right + at, 8);
            if (one != other) return 0;
        }
        memcpy(&one, left + size - 8, 8);
        memcpy(&other, right + size - 8, 8);
        return one == other;
    }
    """
    # An address outside of memory is no fault.
    void prefetch "rocketlake_prefetch"(uintptr_t at) noexcept nogil
    # memcmp for a few bytes: a call costs as much as a record.
    bint same "rocketlake_same"(const uint8_t* left, const uint8_t* right, Py_ssize_t size) noexcept nogil

cdef enum:
    NAME_BYTES_V1 = 255  # of a topic, where one byte says how long it is
    PIECES_MAX = 256
    AHEAD_ENTRIES = 128  # read at once: four pulls of 32 messages
    AHEAD_QUEUES_MAX = 1024
    PREFETCHED = 8  # records that are loaded into the processor's cache ahead of their check
    BYTES_MIN = 100  # as in fetch.py
    BYTES_MAX = 134217728

cdef int _BLOCK_BITS = BLOCK_BITS
cdef int64_t _PIECE_BYTES_MIN = PIECE_BYTES_MIN


cdef class _Ahead:
    """Entries of one queue, from queue offset `first` on, as long as the queue has had no more than `cuts` cuts.

    Each record of the queue lies at or behind physical offset `begin`, and holds `queue_id` and `name`: two bytes of the
    topic's length, then the topic.
    """

    cdef int64_t first
    cdef int64_t count
    cdef int64_t cuts
    cdef int64_t begin
    cdef const uint8_t[::1] data
    cdef uint32_t queue_id
    cdef bytes name


cdef struct Limits:
    # Of one answer, for records from `recent_from` on and for older ones.
    int64_t recent_from
    int64_t recent_count
    int64_t recent_bytes
    int64_t old_count
    int64_t old_bytes


cdef class PlainFetch:
    """Reads queues of one store. The attributes are the result of the last `fetch`."""

    cdef readonly int64_t next_offset
    cdef readonly int64_t min_offset
    cdef readonly int64_t max_offset
    cdef readonly int64_t count
    cdef readonly int64_t size

    cdef object _fetch, _wait
    cdef dict _ahead
    cdef int64_t _memory_bytes, _scan_min, _recent_count, _recent_bytes, _old_count, _old_bytes
    cdef int64_t _min_physical, _recent_from
    cdef object _view
    cdef const uint8_t[::1] _window
    cdef const uint8_t* _data
    cdef bytearray _sure
    cdef int64_t _origin, _size
    cdef int64_t[PIECES_MAX] _starts
    cdef int64_t[PIECES_MAX] _ends
    cdef int _pieces
    cdef int64_t _behind_body

    def __init__(self, fetch):
        """`fetch`: the Fetch of the store."""
        self._fetch = fetch
        self._wait = fetch.wait
        self._ahead = {}
        self._behind_body = 0
        self._memory_bytes, self._scan_min, recent, old = fetch.limits
        self._recent_count, self._recent_bytes = recent
        self._old_count, self._old_bytes = old
        self.end()

    def begin(self):
        """Call it before the first fetch of a turn of the loop: it reads where the log starts and ends."""
        log_start, log_end = self._fetch.log_range
        self._min_physical = log_start
        self._wait.is_allowed = False
        self._recent_from = log_end - self._memory_bytes

    def end(self):
        """Call it after the last fetch of a turn: bytes may leave memory, and the file of the window may expire."""
        self._wait.is_allowed = True
        self._window = self._view = None
        self._sure = None
        self._data = NULL
        self._origin = self._size = 0

    def fetch(self, queue, int64_t offset, int64_t max_messages, int64_t max_bytes, match):
        """Find messages from queue offset `offset` on. False, with nothing found, if Fetch must do it.

        Raises OSError.
        """
        cdef int64_t low
        cdef int64_t high = queue.max_offset
        cdef int64_t per_file = queue.entries_per_file
        cdef int64_t position = offset, scan_end, taken
        cdef _Ahead ahead
        cdef Limits limits
        self.count = self.size = 0
        self._pieces = 0
        try:
            low = queue.min_offset(self._min_physical)
        except NotInMemory:
            return False
        if offset < low or offset >= high:
            return False
        max_bytes = min(max(max_bytes, <int64_t>BYTES_MIN), <int64_t>BYTES_MAX)
        limits.recent_from = self._recent_from
        limits.recent_count = min(max_messages, self._recent_count)
        limits.recent_bytes = min(max_bytes, self._recent_bytes)
        limits.old_count = min(max_messages, self._old_count)
        limits.old_bytes = min(max_bytes, self._old_bytes)
        scan_end = min(min(offset + max(self._scan_min, max_messages), high), offset - offset % per_file + per_file)
        while position < scan_end:
            ahead = self._entries(queue, position, high)
            if ahead is None:
                break
            taken = self._walk(ahead, position - ahead.first, scan_end - position, &limits, match)
            if taken < 0:
                self.count = self.size = 0
                self._pieces = 0
                return False
            position += taken
            if position < min(scan_end, ahead.first + ahead.count):
                break  # full
        self.next_offset, self.min_offset, self.max_offset = position, low, high
        return self.count > 0

    def framed(self, bytes head):
        """`head` and the records of the last `fetch`, as buffers to write."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(head)
        cdef bytes whole
        cdef uint8_t* at
        cdef int piece
        if self._pieces == 1 or self.size >= <int64_t>self._pieces * _PIECE_BYTES_MIN:
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
        """Entries of the queue that include the one at `position`; None if they are not in memory."""
        cdef _Ahead ahead = self._ahead.get(queue)
        cdef int64_t cuts = queue.cuts
        if ahead is not None and ahead.first <= position < ahead.first + ahead.count and ahead.cuts == cuts:
            return ahead
        entries = queue.packed_now(position, min(<int64_t>AHEAD_ENTRIES, high - position))
        if entries is None or len(entries) < ENTRY_SIZE:
            return None
        if ahead is None:
            if len(self._ahead) >= AHEAD_QUEUES_MAX:
                self._ahead.clear()
            ahead = self._ahead[queue] = _Ahead.__new__(_Ahead)
            ahead.queue_id = queue.queue_id
            ahead.name = len(queue.topic_name).to_bytes(2, "big") + queue.topic_name
        ahead.cuts = cuts
        ahead.begin = self._fetch.begin_of(queue)
        ahead.data = entries
        ahead.first = position
        ahead.count = ahead.data.shape[0] // ENTRY_SIZE
        return ahead

    cdef int64_t _walk(self, _Ahead ahead, int64_t number, int64_t left, const Limits* limits, match) except -2:
        """Take the records of the entries from `number` on; returns how many were passed, -1 if Fetch must do it.

        It passes fewer than `left` if the answer is full or the entries in memory end.
        """
        cdef const uint8_t* start = &ahead.data[number * ENTRY_SIZE]
        cdef const uint8_t* end = start + min(left, ahead.count - number) * ENTRY_SIZE
        cdef const uint8_t* entry = start
        cdef const uint8_t* asked
        cdef int64_t offset = <int64_t>load64(start), size = <int32_t>load32(start + 8)
        cdef int64_t queue_offset = ahead.first + number
        if self._data == NULL and size >= RECORD_BYTES_MIN and not self._open(offset, size):
            return -1
        asked = start
        while asked < end and asked < start + PREFETCHED * ENTRY_SIZE:
            self._prefetch(asked)
            asked += ENTRY_SIZE
        while entry < end:
            offset = <int64_t>load64(entry)
            size = <int32_t>load32(entry + 8)
            if self.count and self._is_enough(offset, size, limits):
                break
            if asked < end:
                self._prefetch(asked)
                asked += ENTRY_SIZE
            if size == FILLER_SIZE and offset == 0:
                pass
            elif size < RECORD_BYTES_MIN or offset < ahead.begin:
                return -1
            elif match is None or match(<int64_t>load64(entry + 12)):
                if not self._is_inside(offset - self._origin, size) and not self._open(offset, size):
                    return -1
                if not self._is_own(self._data + (offset - self._origin), entry, size, queue_offset, ahead):
                    return -1
                if not self._take(offset - self._origin, size):
                    return -1
            entry += ENTRY_SIZE
            queue_offset += 1
        return (entry - start) // ENTRY_SIZE

    cdef inline void _prefetch(self, const uint8_t* entry) noexcept:
        """Load the head and the topic of a record into the processor's cache. Guess: as far from the end as in the last
        record."""
        cdef uintptr_t at = <uintptr_t>self._data + <uintptr_t>(<int64_t>load64(entry) - self._origin)
        prefetch(at)
        prefetch(at + BODY_AT - 4)
        prefetch(at + load32(entry + 8) - <uintptr_t>self._behind_body)

    cdef inline bint _is_enough(self, int64_t offset, int64_t size, const Limits* limits) noexcept:
        """True if one more message would exceed a limit. As in selection.py."""
        if offset >= limits.recent_from:
            return self.count >= limits.recent_count or self.size + size > limits.recent_bytes
        return self.count >= limits.old_count or self.size + size > limits.old_bytes

    cdef inline bint _is_inside(self, int64_t position, int64_t size) noexcept:
        """True if a record lies in the window, in blocks that can be read without waiting."""
        cdef const char* sure
        cdef int64_t block, last
        if position < 0 or position > self._size - size:
            return False
        sure = PyByteArray_AS_STRING(self._sure)
        block = position >> _BLOCK_BITS
        last = (position + size - 1) >> _BLOCK_BITS
        while block < last:
            if sure[block] == 0:
                return False
            block += 1
        return sure[last] != 0

    cdef bint _open(self, int64_t offset, int64_t size) except -1:
        """Make the file of a record the window. False if no file has the record, or it must be read from disk.

        False too if records of another file were taken already.
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
        self._sure = sure
        self._size = min(<int64_t>end - self._origin, self._window.shape[0], <int64_t>len(sure) << _BLOCK_BITS)
        self._data = &self._window[0]
        return True

    cdef inline bint _is_own(self, const uint8_t* at, const uint8_t* entry, int64_t size, int64_t queue_offset,
                             _Ahead ahead) noexcept:
        """True if the record says of itself that it is the entry's, with number `queue_offset` of this queue.

        As in selection.py. Fetch treats records of another number.
        """
        cdef uint32_t magic = load32(at + MAGIC_AT)
        cdef uint8_t flags = at[SYS_FLAG_AT + 3]
        cdef const uint8_t* name = <const uint8_t*>PyBytes_AS_STRING(ahead.name)
        cdef int64_t body = BODY_AT, body_size, behind, name_size = PyBytes_GET_SIZE(ahead.name)
        if (
            memcmp(at, entry + 8, 4) != 0 or memcmp(at + PHYSICAL_OFFSET_AT, entry, 8) != 0
            or load32(at + QUEUE_ID_AT) != ahead.queue_id or <int64_t>load64(at + QUEUE_OFFSET_AT) != queue_offset
            or (magic != MAGIC_V1 and magic != MAGIC_V2)
        ):
            return False
        if flags & (BORN_HOST_V6 | STORE_HOST_V6):
            body += (HOST_V6_MORE if flags & BORN_HOST_V6 else 0) + (HOST_V6_MORE if flags & STORE_HOST_V6 else 0)
            if body > size:
                return False
        body_size = <int32_t>load32(at + body - 4)
        behind = size - body - body_size
        if magic == MAGIC_V1:
            name += 1
            name_size -= 1
        if body_size < 0 or behind < name_size or (magic == MAGIC_V1 and name_size > NAME_BYTES_V1 + 1):
            return False
        self._behind_body = behind
        return same(at + body + body_size, name, name_size)

    cdef inline bint _take(self, int64_t position, int64_t size) noexcept:
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
