# cython: nonecheck=False
# (self is never None, and only measured rows are read)
"""Many records at once -> the buffers of Arrow columns, in plain passes over the bytes.

Owns        where records lie in a stretch of bytes; reading each column's bytes out of them.
Must not know   Arrow's classes (the caller passes a function that makes a buffer), files, the use of a column.

Kernel: Cython without a Python form. spark/columns_numpy.py and codec/record_walk.py do the same in Python and are the
truth; tests/parity/test_record_columns.py compares them. Bytes: docs/internals/record.md.

Bounds: `__init__` measures every record once. Each later read stays inside the measured parts.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_RawFree, PyMem_RawRealloc, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from rocketlake.base.checksum cimport checksum_of
from rocketlake.codec.property_scan cimport pair_end
from rocketlake.codec.record_layout cimport (
    BORN_HOST_AT, BORN_HOST_V6, CRC_AT, HOST_BYTES_V4, HOST_BYTES_V6, INNER_BATCH, MAGIC_AT, MAGIC_BLANK, MAGIC_V1,
    MAGIC_V2, PHYSICAL_OFFSET_AT, PROPERTIES_BYTES_MAX, QUEUE_ID_AT, QUEUE_OFFSET_AT, QUEUE_OFFSET_MAX,
    RECORD_BYTES_MIN, STORE_HOST_V6, SYS_FLAG_AT, TOPIC_BYTES_MAX, TOPIC_BYTES_MAX_V1, load16, load32, load64,
)

__all__ = ["RecordColumns", "find_record", "sound_starts", "walk"]

cdef extern from *:
    """
    /* Is one of eight bytes not ASCII? */
    static inline int has_high_bit(const unsigned char *at) {
        uint64_t word; __builtin_memcpy(&word, at, 8); return (word & 0x8080808080808080ULL) != 0;
    }
    """
    bint has_high_bit(const uint8_t* at) noexcept nogil

cdef enum:
    SMALLEST_TEXT = 8
    HOST_TEXT_MAX = 21  # 255.255.255.255:65535 and a sign

cdef int64_t TEXT_BYTES_MAX = 0x7FFFFFFF  # Arrow's offsets are int32

# Why a walk stops; the numbers of store/dispatch_scan.py.
cdef enum:
    END = 0
    BLANK = 1
    BROKEN = 2
    BAD_LENGTH = 3

cdef struct Row:
    int64_t at
    int64_t body_at
    int64_t body_size
    int64_t topic_at
    int64_t topic_size
    int64_t properties_at
    int64_t properties_size
    int64_t first_pair
    int64_t hosts[3]  # bytes of: no host, the born host, both hosts

cdef struct Pair:
    int64_t at
    int32_t name_size
    int32_t value_size


cdef bint _measured(const uint8_t* data, int64_t at, int64_t end, Row* row) noexcept nogil:
    """Measure the record at `at`: `row` gets the places of its parts. False if they do not fit before `end`."""
    cdef uint32_t flags = load32(data + at + SYS_FLAG_AT)
    cdef bint wide = load32(data + at + MAGIC_AT) == MAGIC_V2
    row.at = at
    row.hosts[0] = 0
    row.hosts[1] = HOST_BYTES_V6 if flags & BORN_HOST_V6 else HOST_BYTES_V4
    row.hosts[2] = row.hosts[1] + (HOST_BYTES_V6 if flags & STORE_HOST_V6 else HOST_BYTES_V4)
    row.body_at = at + 72 + row.hosts[2]
    if row.body_at + 3 > end:
        return False
    row.body_size = <int32_t>load32(data + row.body_at - 4)
    row.topic_at = row.body_at + row.body_size + 1 + wide
    if row.body_size < 0 or row.topic_at + 2 > end:
        return False
    row.topic_size = load16(data + row.topic_at - 2) if wide else data[row.topic_at - 1]
    row.properties_at = row.topic_at + row.topic_size + 2
    if row.properties_at > end:
        return False
    row.properties_size = load16(data + row.properties_at - 2)
    return row.properties_at + row.properties_size <= end


cdef int _status(const uint8_t* data, int64_t at, int64_t size, int64_t base, int64_t* taken) noexcept nogil:
    """END with `taken` > 0 for a record that names its own place; otherwise why there is none. Checks of
    dispatch_scan.py."""
    cdef Row row
    cdef uint32_t magic
    cdef int64_t length
    taken[0] = 0
    if size - at < 8:
        return END
    length = <int32_t>load32(data + at)
    magic = load32(data + at + MAGIC_AT)
    if magic == MAGIC_BLANK and base >= 0:
        return BLANK
    if (magic != MAGIC_V1 and magic != MAGIC_V2) or length < RECORD_BYTES_MIN:
        return BROKEN
    if at + length > size:
        return END
    if base >= 0:
        if <int64_t>load64(data + at + PHYSICAL_OFFSET_AT) != base + at or <int32_t>load32(data + at + QUEUE_ID_AT) < 0:
            return BROKEN
        if not 0 <= <int64_t>load64(data + at + QUEUE_OFFSET_AT) <= QUEUE_OFFSET_MAX:
            return BROKEN
        if not _measured(data, at, at + length, &row):
            return BAD_LENGTH
        if not 0 < row.topic_size <= (TOPIC_BYTES_MAX_V1 if magic == MAGIC_V1 else TOPIC_BYTES_MAX):
            return BAD_LENGTH
        if row.properties_size > PROPERTIES_BYTES_MAX or row.properties_at + row.properties_size != at + length:
            return BAD_LENGTH
    taken[0] = length
    return END


def walk(data, int64_t base):
    """(start of each record as int64, end of the last record, why the walk stops there). See record_walk.walk."""
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef int64_t position = 0, taken = 0
    cdef int64_t* starts
    cdef Py_ssize_t count = 0
    cdef int status
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t*>view.buf
        room = PyBytes_FromStringAndSize(NULL, (view.len // RECORD_BYTES_MIN + 1) * sizeof(int64_t))
        starts = <int64_t*>PyBytes_AS_STRING(room)
        with nogil:
            while True:
                status = _status(at, position, view.len, base, &taken)
                if taken == 0:
                    break
                starts[count] = position
                count += 1
                position += taken
    finally:
        PyBuffer_Release(&view)
    return room[: count * sizeof(int64_t)], position, status


def find_record(data, int64_t begin, int64_t base):
    """Position of the next sound record of its place from `begin` on, -1 for none. See record_walk.find_record."""
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef const uint8_t* hit
    cdef int64_t position = begin, found = -1, taken = 0
    if begin < 0 or base < 0:
        raise ValueError("a record is looked for by its place, which is not below 0")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t*>view.buf
        with nogil:
            while position + RECORD_BYTES_MIN <= view.len:
                hit = <const uint8_t*>memchr(at + position + MAGIC_AT, MAGIC_V1 >> 24, view.len - position - MAGIC_AT)
                if hit == NULL:
                    break
                position = hit - at - MAGIC_AT
                _status(at, position, view.len, base, &taken)
                if taken > 0 and _is_sound(at, position):
                    found = position
                    break
                position += 1
    finally:
        PyBuffer_Release(&view)
    return found


def sound_starts(data, starts, int64_t base):
    """Those of `starts` (int64 each) where a record of its place starts. See record_walk.sound_starts."""
    cdef Py_buffer view, places
    cdef const uint8_t* at
    cdef const int64_t* start
    cdef int64_t* kept
    cdef int64_t taken = 0
    cdef Py_ssize_t number, count = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(starts, &places, PyBUF_SIMPLE)
        try:
            at = <const uint8_t*>view.buf
            start = <const int64_t*>places.buf
            room = PyBytes_FromStringAndSize(NULL, places.len)
            kept = <int64_t*>PyBytes_AS_STRING(room)
            for number in range(places.len // <Py_ssize_t>sizeof(int64_t)):
                taken = 0
                if 0 <= start[number] < view.len:
                    _status(at, start[number], view.len, base, &taken)
                if taken > 0:
                    kept[count] = start[number]
                    count += 1
        finally:
            PyBuffer_Release(&places)
    finally:
        PyBuffer_Release(&view)
    return room[: count * sizeof(int64_t)]


cdef inline uint32_t _body_sum(const uint8_t* data, const Row* row) noexcept nogil:
    return checksum_of(data + row.body_at, row.body_size) & 0x7FFFFFFF


cdef bint _is_sound(const uint8_t* data, int64_t at) noexcept nogil:
    cdef Row row
    _measured(data, at, at + <int32_t>load32(data + at), &row)
    return row.body_size == 0 or _body_sum(data, &row) == load32(data + at + CRC_AT)


cdef class _Target:
    """A writable buffer, made by the caller."""

    cdef Py_buffer view
    cdef object owner
    cdef uint8_t* at

    def __cinit__(self, make, int64_t size):
        self.owner = make(size)
        PyObject_GetBuffer(self.owner, &self.view, PyBUF_WRITABLE)
        self.at = <uint8_t*>self.view.buf
        if self.view.len < size:
            raise ValueError(f"a buffer of {self.view.len} bytes, not {size}")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef class RecordColumns:
    """Whole records in `data`, one at each of `starts` (int64 each). `make(size)` gives a writable buffer.

    `misfit` is the number of the first record whose lengths do not fit, -1 for none. With one no column may be read.
    """

    cdef Py_buffer _view
    cdef bint _is_open
    cdef object _make
    cdef const uint8_t* _data
    cdef Row* _rows
    cdef Pair* _pairs
    cdef int64_t _pair_count
    cdef bint _is_cut
    cdef bint _is_text
    cdef Py_ssize_t _count
    cdef readonly Py_ssize_t misfit
    cdef readonly bint has_inner_batches

    def __cinit__(self, data, starts, make):
        cdef Py_buffer places
        cdef const int64_t* start
        cdef Py_ssize_t number
        cdef int64_t at, size
        PyObject_GetBuffer(data, &self._view, PyBUF_SIMPLE)
        self._is_open = True
        self._make = make
        self._data = <const uint8_t*>self._view.buf
        self.misfit = -1
        PyObject_GetBuffer(starts, &places, PyBUF_SIMPLE)
        try:
            self._count = places.len // <Py_ssize_t>sizeof(int64_t)
            start = <const int64_t*>places.buf
            self._rows = <Row*>PyMem_Realloc(NULL, max(self._count, 1) * sizeof(Row))
            if self._rows == NULL:
                raise MemoryError()
            for number in range(self._count):
                at = start[number]
                size = <int32_t>load32(self._data + at) if 0 <= at <= self._view.len - RECORD_BYTES_MIN else -1
                if size < RECORD_BYTES_MIN or at + size > self._view.len:
                    self.misfit = number
                elif not _measured(self._data, at, at + size, &self._rows[number]):
                    self.misfit = number
                if self.misfit >= 0:
                    self._count = 0  # the rows behind it were not measured
                    break
                if self._data[at + SYS_FLAG_AT + 3] & INNER_BATCH:
                    self.has_inner_batches = True
        finally:
            PyBuffer_Release(&places)

    def __dealloc__(self):
        if self._is_open:
            PyBuffer_Release(&self._view)
        PyMem_Free(self._rows)
        PyMem_RawFree(self._pairs)

    def __len__(self):
        return self._count

    # -- fixed fields: position `at`, counted behind `hosts` (0, 1 = born host, 2 = both) of the hosts -----------------

    def int32s(self, int at, int hosts):
        """A big-endian int32 of each record."""
        cdef _Target target = _Target(self._make, 4 * self._count)
        cdef int32_t* out = <int32_t*>target.at
        cdef Py_ssize_t number
        self._check_field(at, 4, hosts)
        for number in range(self._count):
            out[number] = <int32_t>load32(self._data + self._rows[number].at + at + self._rows[number].hosts[hosts])
        return target.owner

    def int64s(self, int at, int hosts):
        """A big-endian int64 of each record."""
        cdef _Target target = _Target(self._make, 8 * self._count)
        cdef uint64_t* out = <uint64_t*>target.at
        cdef Py_ssize_t number
        self._check_field(at, 8, hosts)
        for number in range(self._count):
            out[number] = load64(self._data + self._rows[number].at + at + self._rows[number].hosts[hosts])
        return target.owner

    cdef int _check_field(self, int at, int size, int hosts) except -1:
        # 72 bytes of fixed fields beside the hosts; the first host begins at 48.
        if at < 0 or not 0 <= hosts <= 2 or at + size > (48, 56, 72)[hosts]:
            raise IndexError(f"no field of {size} bytes lies at {at} behind {hosts} hosts")
        return 0

    # -- bodies --------------------------------------------------------------------------------------------------------

    def crc_ok(self):
        """One byte a record: 1 if the body has its checksum."""
        cdef _Target target = _Target(self._make, self._count)
        cdef Py_ssize_t number
        cdef Row* row
        with nogil:
            for number in range(self._count):
                row = &self._rows[number]
                target.at[number] = _body_sum(self._data, row) == load32(self._data + row.at + CRC_AT)
        return target.owner

    def body(self, Py_ssize_t number):
        """One body as it is stored."""
        if not 0 <= number < self._count:
            raise IndexError(f"record {number} of {self._count}")
        cdef Row* row = &self._rows[number]
        return PyBytes_FromStringAndSize(<const char*>(self._data + row.body_at), row.body_size)

    def bodies(self, dict instead):
        """(validity or None, offsets, data); `instead` gives other bodies, or None, for some records."""
        cdef _Target offsets = _Target(self._make, 4 * (self._count + 1))
        cdef int32_t* offset = <int32_t*>offsets.at
        cdef _Target target
        cdef Py_ssize_t number, begin = 0
        cdef int64_t total = 0
        cdef list others = sorted(instead)
        cdef bytes given
        for number in range(self._count):
            total += self._rows[number].body_size
        for number in others:
            if not 0 <= number < self._count:
                raise IndexError(f"record {number} of {self._count}")
            given = instead[number]
            total += (0 if given is None else len(given)) - self._rows[number].body_size
        if total > TEXT_BYTES_MAX:
            raise OverflowError(f"bodies of {total} bytes in one batch")
        target = _Target(self._make, total)
        offset[0] = 0
        for number in others:
            self._copy_bodies(begin, number, offset, target.at)
            given = instead[number] or b""
            memcpy(target.at + offset[number], PyBytes_AS_STRING(given), PyBytes_GET_SIZE(given))
            offset[number + 1] = offset[number] + <int32_t>PyBytes_GET_SIZE(given)
            begin = number + 1
        self._copy_bodies(begin, self._count, offset, target.at)
        return self._validity([number for number in others if instead[number] is None]), offsets.owner, target.owner

    cdef int _copy_bodies(self, Py_ssize_t begin, Py_ssize_t end, int32_t* offset, uint8_t* target) except -1:
        cdef Py_ssize_t number
        cdef Row* row
        with nogil:
            for number in range(begin, end):
                row = &self._rows[number]
                memcpy(target + offset[number], self._data + row.body_at, row.body_size)
                offset[number + 1] = offset[number] + <int32_t>row.body_size
        return 0

    cdef object _validity(self, list nulls):
        cdef _Target target
        cdef Py_ssize_t number
        if not nulls:
            return None
        target = _Target(self._make, (self._count + 7) // 8)
        memset(target.at, 0xFF, (self._count + 7) // 8)
        for number in nulls:
            target.at[number >> 3] &= <uint8_t>~(1 << (number & 7))
        return target.owner

    # -- texts ---------------------------------------------------------------------------------------------------------

    def is_text(self):
        """True if all topics and properties are valid UTF-8.

        Otherwise use the Python form: it replaces invalid bytes, as Java does.
        """
        self._cut()
        return self._is_text

    def topics(self):
        """(offsets, data)."""
        cdef _Target offsets = _Target(self._make, 4 * (self._count + 1))
        cdef int32_t* offset = <int32_t*>offsets.at
        cdef _Target target
        cdef Py_ssize_t number
        cdef int64_t total = 0
        for number in range(self._count):
            offset[number] = <int32_t>total
            total += self._rows[number].topic_size
            if total > TEXT_BYTES_MAX:
                raise OverflowError("topics of one batch")
        offset[self._count] = <int32_t>total
        target = _Target(self._make, total)
        for number in range(self._count):
            memcpy(target.at + offset[number], self._data + self._rows[number].topic_at, self._rows[number].topic_size)
        return offsets.owner, target.owner

    cdef int _cut(self) except -1:
        """Properties of all records into pairs; pairs without a name or a value are dropped."""
        cdef Py_ssize_t number
        cdef Row* row
        cdef int64_t room = 0
        cdef bint is_good = True
        if self._is_cut:
            return 0
        self._is_text = True
        with nogil:
            for number in range(self._count):
                row = &self._rows[number]
                row.first_pair = self._pair_count
                # A pair has four bytes at least: a name, a value, and the ends of both.
                if self._pair_count + row.properties_size // 4 + 1 > room:
                    room = 2 * room + row.properties_size // 4 + 8 * self._count + 1
                    is_good = self._grow(room)
                    if not is_good:
                        break
                self._cut_row(row)
                if self._is_text:
                    self._is_text = _is_utf8(self._data + row.topic_at, row.topic_size) and _is_utf8(
                        self._data + row.properties_at, row.properties_size)
        if not is_good:
            raise MemoryError()
        self._is_cut = True
        return 0

    cdef bint _grow(self, int64_t room) noexcept nogil:
        cdef Pair* grown = <Pair*>PyMem_RawRealloc(self._pairs, room * sizeof(Pair))
        if grown == NULL:
            return False
        self._pairs = grown
        return True

    cdef void _cut_row(self, Row* row) noexcept nogil:
        cdef const uint8_t* at = self._data + row.properties_at
        cdef const uint8_t* end = at + row.properties_size
        cdef const uint8_t* middle
        cdef const uint8_t* stop
        cdef Pair* pair
        while at < end:
            stop = pair_end(at, end, &middle)
            if middle != NULL and middle > at and stop > middle + 1:
                pair = &self._pairs[self._pair_count]
                pair.at = at - self._data
                pair.name_size = <int32_t>(middle - at)
                pair.value_size = <int32_t>(stop - middle - 1)
                self._pair_count += 1
            at = stop + 1

    cdef int64_t _pairs_end(self, Py_ssize_t number) noexcept nogil:
        return self._pair_count if number + 1 == self._count else self._rows[number + 1].first_pair

    cdef Pair* _find(self, Py_ssize_t number, const uint8_t* name, int32_t size) noexcept nogil:
        """The last pair of this name, NULL for none."""
        cdef int64_t at = self._pairs_end(number)
        while at > self._rows[number].first_pair:
            at -= 1
            if self._pairs[at].name_size == size and memcmp(self._data + self._pairs[at].at, name, size) == 0:
                return &self._pairs[at]
        return NULL

    def named(self, bytes name):
        """(validity or None, offsets, data, nulls) of a property; None if no record has it."""
        cdef _Target offsets = _Target(self._make, 4 * (self._count + 1))
        cdef _Target places = _Target(bytearray, sizeof(void*) * self._count)
        cdef int32_t* offset = <int32_t*>offsets.at
        cdef Pair** place = <Pair**>places.at
        cdef const uint8_t* wanted = <const uint8_t*>PyBytes_AS_STRING(name)
        cdef int32_t size = <int32_t>PyBytes_GET_SIZE(name)
        cdef _Target target
        cdef Py_ssize_t number
        cdef int64_t total = 0
        cdef list nulls
        self._cut()
        for number in range(self._count):
            place[number] = self._find(number, wanted, size)
            offset[number] = <int32_t>total
            total += place[number].value_size if place[number] != NULL else 0
            if total > TEXT_BYTES_MAX:
                raise OverflowError("properties of one batch")
        if total == 0:
            return None
        offset[self._count] = <int32_t>total
        target = _Target(self._make, total)
        nulls = []
        for number in range(self._count):
            if place[number] == NULL:
                nulls.append(number)
            else:
                memcpy(target.at + offset[number], self._value(place[number]), place[number].value_size)
        return self._validity(nulls), offsets.owner, target.owner, len(nulls)

    cdef const uint8_t* _value(self, Pair* pair) noexcept nogil:
        return self._data + pair.at + pair.name_size + 1

    def maps(self):
        """(first pair of each record, name offsets, names, value offsets, values, pairs)."""
        cdef _Target rows, name_offsets, value_offsets, names, values
        cdef int32_t* name_offset
        cdef int32_t* value_offset
        cdef int64_t number, name_total = 0, value_total = 0
        cdef Pair* pair
        self._cut()
        rows = _Target(self._make, 4 * (self._count + 1))
        for number in range(self._count):
            (<int32_t*>rows.at)[number] = <int32_t>self._rows[number].first_pair
        (<int32_t*>rows.at)[self._count] = <int32_t>self._pair_count
        name_offsets = _Target(self._make, 4 * (self._pair_count + 1))
        value_offsets = _Target(self._make, 4 * (self._pair_count + 1))
        name_offset = <int32_t*>name_offsets.at
        value_offset = <int32_t*>value_offsets.at
        for number in range(self._pair_count):
            name_offset[number] = <int32_t>name_total
            value_offset[number] = <int32_t>value_total
            name_total += self._pairs[number].name_size
            value_total += self._pairs[number].value_size
            if name_total > TEXT_BYTES_MAX or value_total > TEXT_BYTES_MAX:
                raise OverflowError("properties of one batch")
        name_offset[self._pair_count] = <int32_t>name_total
        value_offset[self._pair_count] = <int32_t>value_total
        names = _Target(self._make, name_total)
        values = _Target(self._make, value_total)
        with nogil:
            for number in range(self._pair_count):
                pair = &self._pairs[number]
                memcpy(names.at + name_offset[number], self._data + pair.at, pair.name_size)
                memcpy(values.at + value_offset[number], self._value(pair), pair.value_size)
        return (rows.owner, name_offsets.owner, names.owner, value_offsets.owner, values.owner, self._pair_count)

    # -- ids and hosts -------------------------------------------------------------------------------------------------

    def message_ids(self, bytes name):
        """(offsets, data): the property `name`, else the id made of store host and physical offset.

        With an empty name: that id for every record.
        """
        cdef _Target offsets = _Target(self._make, 4 * (self._count + 1))
        cdef int32_t* offset = <int32_t*>offsets.at
        cdef _Target target
        cdef _Target places = _Target(bytearray, sizeof(void*) * self._count)
        cdef Pair** place = <Pair**>places.at
        cdef const uint8_t* wanted = <const uint8_t*>PyBytes_AS_STRING(name)
        cdef int32_t size = <int32_t>PyBytes_GET_SIZE(name)
        cdef Py_ssize_t number
        cdef int64_t total = 0, host
        cdef Row* row
        if size:
            self._cut()
        for number in range(self._count):
            row = &self._rows[number]
            place[number] = self._find(number, wanted, size) if size else NULL
            offset[number] = <int32_t>total
            total += place[number].value_size if place[number] != NULL else 2 * (row.hosts[2] - row.hosts[1] + 8)
            if total > TEXT_BYTES_MAX:
                raise OverflowError("ids of one batch")
        offset[self._count] = <int32_t>total
        target = _Target(self._make, total)
        for number in range(self._count):
            row = &self._rows[number]
            if place[number] != NULL:
                memcpy(target.at + offset[number], self._value(place[number]), place[number].value_size)
                continue
            host = row.hosts[2] - row.hosts[1]
            _put_hex(target.at + offset[number], self._data + row.at + BORN_HOST_AT + 8 + row.hosts[1], host)
            _put_hex(target.at + offset[number] + 2 * host, self._data + row.at + PHYSICAL_OFFSET_AT, 8)
        return offsets.owner, target.owner

    def hosts(self, int which, text_of):
        """(offsets, data) of born host (0) or store host (1); `text_of(bytes)` gives the text of one with IPv6."""
        cdef _Target offsets = _Target(self._make, 4 * (self._count + 1))
        cdef int32_t* offset = <int32_t*>offsets.at
        cdef list texts = []
        cdef bytes text = b""
        cdef uint8_t written[HOST_TEXT_MAX]
        cdef const uint8_t* host
        cdef const uint8_t* last = NULL
        cdef Py_ssize_t number, size, last_size = 0
        cdef int64_t total = 0
        cdef Row* row
        cdef _Target target
        if not 0 <= which <= 1:
            raise IndexError(f"host {which}")
        for number in range(self._count):
            row = &self._rows[number]
            host = self._data + row.at + BORN_HOST_AT + which * 8 + row.hosts[which]
            size = row.hosts[which + 1] - row.hosts[which]
            # Messages of one machine come in rows: its address is written out once.
            if last == NULL or size != last_size or memcmp(host, last, size) != 0:
                if size == HOST_BYTES_V4:
                    text = PyBytes_FromStringAndSize(<const char*>written, _put_host(written, host))
                else:
                    text = text_of(PyBytes_FromStringAndSize(<const char*>host, size))
                last, last_size = host, size
            texts.append(text)
            offset[number] = <int32_t>total
            total += PyBytes_GET_SIZE(text)
        offset[self._count] = <int32_t>total
        target = _Target(self._make, total)
        for number in range(self._count):
            text = <bytes>texts[number]
            memcpy(target.at + offset[number], PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return offsets.owner, target.owner


cdef void _put_hex(uint8_t* target, const uint8_t* data, int64_t size) noexcept nogil:
    cdef const char* digits = b"0123456789ABCDEF"
    cdef int64_t at
    for at in range(size):
        target[2 * at] = digits[data[at] >> 4]
        target[2 * at + 1] = digits[data[at] & 15]


cdef Py_ssize_t _put_host(uint8_t* target, const uint8_t* host) noexcept nogil:
    """Write the text of address and port, without a closing NUL; returns its size."""
    cdef Py_ssize_t at = 0, part
    cdef int64_t port = <int32_t>load32(host + 4)
    for part in range(4):
        if part:
            target[at] = c"."
            at += 1
        at += _put_number(target + at, host[part])
    target[at] = c":"
    at += 1
    if port < 0:
        target[at] = c"-"
        at += 1
        port = -port
    # No port has more than five digits. Of a longer number the last five are written: there is no room for more.
    return at + _put_number(target + at, port if port < 100000 else port % 100000)


cdef Py_ssize_t _put_number(uint8_t* target, int64_t value) noexcept nogil:
    cdef Py_ssize_t digits = 1, at
    cdef int64_t rest = value
    while rest >= 10:
        rest //= 10
        digits += 1
    for at in range(digits):
        target[digits - 1 - at] = <uint8_t>(48 + value % 10)
        value //= 10
    return digits


cdef bint _is_utf8(const uint8_t* text, int64_t size) noexcept nogil:
    """Valid as Python's strict decoder says: shortest forms, no surrogates, nothing above U+10FFFF."""
    cdef int64_t at = 0
    cdef int more
    cdef uint32_t unit, point
    while at < size:
        if at + SMALLEST_TEXT <= size and not has_high_bit(text + at):
            at += SMALLEST_TEXT
            continue
        unit = text[at]
        at += 1
        if unit < 0x80:
            continue
        if 0xC2 <= unit <= 0xDF:
            more, point = 1, unit & 0x1F
        elif 0xE0 <= unit <= 0xEF:
            more, point = 2, unit & 0x0F
        elif 0xF0 <= unit <= 0xF4:
            more, point = 3, unit & 0x07
        else:
            return False
        if at + more > size:
            return False
        if (unit == 0xE0 and text[at] < 0xA0) or (unit == 0xF0 and text[at] < 0x90):
            return False
        while more:
            if text[at] & 0xC0 != 0x80:
                return False
            point = point << 6 | text[at] & 0x3F
            at += 1
            more -= 1
        if 0xD800 <= point <= 0xDFFF or point > 0x10FFFF:
            return False
    return True
