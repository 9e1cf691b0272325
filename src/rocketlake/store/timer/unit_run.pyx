"""Units of the timer log by the run: those of many messages made together, and those of one tick read together.

Owns        the bytes of a run of units, which of them follow each other in a tick; the walk over a chain of units.
Must not know   files, the wheel, records of messages.

Kernel: Cython without a Python form, because it makes no object per message. TimerStore.put, TimerLog.chain and layout.py
are the truth; tests/parity/test_unit_run.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memset

from rocketlake.codec.record_layout cimport load32, load64, store32, store64

__all__ = ["UnitRun", "count_simple", "read_chain"]

cdef enum:
    UNIT_BYTES = 52
    BLANK_BYTES = 16
    BLANK_MAGIC = 0xCBD43194
    DELETE = 4
    BITS_MAX = 15
    ROLL = 2
    ROW_WORDS = 3  # of UnitStack
    ROW_BYTES = 24


cdef class UnitRun:
    """Messages for the wheel, in the order in which they came. After `encode`: `tails`."""

    def __cinit__(self):
        self._numbers = {}
        self._last = -1

    def __dealloc__(self):
        PyMem_Free(self._rows)
        PyMem_Free(self._ticks)

    def put(self, messages):
        """Add messages (`Waiting`)."""
        for due_ms, bits, physical_offset, size, topic_hash in messages:
            self.add(due_ms, bits, physical_offset, size, topic_hash)

    cdef int add(
        self, int64_t due_ms, int32_t bits, int64_t physical_offset, int64_t size, int32_t topic_hash
    ) except -1:
        """Add a message."""
        cdef Row* row
        if self.count == self._room:
            self._room = max(2 * self._room, 64)
            self._rows = <Row*>_grown(self._rows, self._room * sizeof(Row))
        row = &self._rows[self.count]
        row.physical_offset = physical_offset
        row.size = size
        row.topic_hash = topic_hash
        row.bits = bits
        row.tick = self._tick(due_ms)
        self.count += 1
        return 0

    cdef Py_ssize_t _tick(self, int64_t due_ms) except -1:
        """The number of a tick."""
        if self._last >= 0 and self._ticks[self._last].due_ms == due_ms:
            return self._last
        self._last = self._numbers.setdefault(due_ms, self._tick_count)
        if self._last == self._tick_count:
            if self._tick_count == self._tick_room:
                self._tick_room = max(2 * self._tick_room, 16)
                self._ticks = <Tick*>_grown(self._ticks, self._tick_room * sizeof(Tick))
            self._ticks[self._last].due_ms = due_ms
            self._tick_count += 1
        return self._last

    def ticks(self):
        """The times for which the messages wait, each once."""
        return list(self._numbers)

    def encode(self, int64_t end, int64_t file_bytes, int64_t written_ms, list newest):
        """The units, and blanks where files end, as they lie in the timer log from `end` on. `newest`: for each of
        `ticks` the place of its newest unit, -1 if it has none. ValueError for a time that no unit can say."""
        cdef Py_ssize_t number
        cdef int64_t place, delay, begin = end
        cdef uint8_t* at
        cdef Row* row
        cdef Tick* tick
        cdef bytes encoded
        for number in range(self._tick_count):
            tick = &self._ticks[number]
            delay = tick.due_ms - written_ms
            if not INT32_MIN <= delay <= INT32_MAX:
                raise ValueError(f"{delay} ms are too long for a unit of the timer log")
            tick.first = -1
            tick.last = newest[number]
            tick.more = 0
        for number in range(self.count):
            end = _next_place(end, file_bytes) + UNIT_BYTES
        encoded = PyBytes_FromStringAndSize(NULL, end - begin)
        at = <uint8_t*>PyBytes_AS_STRING(encoded)
        end = begin
        for number in range(self.count):
            row = &self._rows[number]
            tick = &self._ticks[row.tick]
            place = _next_place(end, file_bytes)
            if place > end:
                memset(at, 0, place - end)
                store32(at, place - end)
                store32(at + 12, BLANK_MAGIC)
                at += place - end
            store32(at, UNIT_BYTES)
            store64(at + 4, tick.last)
            store32(at + 12, row.bits)
            store64(at + 16, written_ms)
            store32(at + 24, tick.due_ms - written_ms)
            store64(at + 28, row.physical_offset)
            store32(at + 36, row.size)
            store32(at + 40, row.topic_hash)
            store64(at + 44, 0)
            at += UNIT_BYTES
            if tick.first < 0:
                tick.first = place
            tick.last = place
            tick.more += -1 if row.bits & DELETE else 1
            end = place + UNIT_BYTES
        return encoded

    def tails(self):
        """(time, place of its first new unit, of its last one, how many more wait) of each tick."""
        cdef Py_ssize_t number
        return [
            (self._ticks[number].due_ms, self._ticks[number].first, self._ticks[number].last, self._ticks[number].more)
            for number in range(self._tick_count)
        ]


cdef inline int64_t _next_place(int64_t place, int64_t file_bytes) noexcept:
    """See TimerLog.next_place."""
    cdef int64_t left = file_bytes - place % file_bytes
    return place if left >= UNIT_BYTES + BLANK_BYTES else place + left


def read_chain(const uint8_t[::1] chunk, int64_t chunk_start, int64_t place, int64_t start, int64_t end,
               Py_ssize_t most):
    """(rows of a UnitStack: units of one tick from `place` on, the newest first; where the next one lies; is the chain
    sound up to there): at most so many, all in this chunk of the log, which reaches from `start` to `end`."""
    cdef Py_ssize_t room = min(most, chunk.shape[0] // UNIT_BYTES + 1)
    cdef bytes rows = PyBytes_FromStringAndSize(NULL, room * ROW_BYTES)
    cdef int64_t* row = <int64_t*>PyBytes_AS_STRING(rows)
    cdef const uint8_t* at
    cdef int64_t previous
    cdef int32_t bits
    cdef Py_ssize_t count = 0
    while count < room and start <= place < end:
        if not 0 <= place - chunk_start <= chunk.shape[0] - UNIT_BYTES:
            break
        at = &chunk[place - chunk_start]
        previous = <int64_t>load64(at + 4)
        bits = <int32_t>load32(at + 12)
        if load32(at) != UNIT_BYTES or not 0 < bits <= BITS_MAX:
            return rows[:count * ROW_BYTES], place, False
        row[0] = <int64_t>load64(at + 28)
        row[1] = <int64_t>load64(at + 16) + <int32_t>load32(at + 24)
        row[2] = <int64_t><int32_t>load32(at + 36) * 256 + bits
        row += 3
        count += 1
        if previous >= place:
            return rows[:count * ROW_BYTES], place, False
        place = previous
    return rows[:count * ROW_BYTES], place, True


def count_simple(const int64_t[::1] rows, Py_ssize_t first, int64_t lowest):
    """How many rows from the row `first` on lie in the log each below the one before, the first one below `lowest`, and
    take no message back."""
    cdef Py_ssize_t at = first * ROW_WORDS
    while at + ROW_WORDS <= rows.shape[0] and rows[at] < lowest and (rows[at + 2] & DELETE == 0 or rows[at + 2] & ROLL):
        lowest = rows[at]
        at += ROW_WORDS
    return at // ROW_WORDS - first


cdef void* _grown(void* block, Py_ssize_t size) except NULL:
    cdef void* grown = PyMem_Realloc(block, size)
    if grown == NULL:
        raise MemoryError()
    return grown
