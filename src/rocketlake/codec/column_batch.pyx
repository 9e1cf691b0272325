"""Columns become batch bodies: the rows of an Arrow batch, written as entries of SEND_BATCH_MESSAGE, without an object
per row.

Owns        reading Arrow's buffers, telling rows that make no message, the bytes of entries and their property text.
Must not know   Arrow's library, topics, queues, the sending of a body.

Kernel: Cython without a Python form. spark/sink/plain_rows.py does the same in Python and is the truth;
tests/parity/test_column_batch.py compares them. Entries: docs/internals/record.md ("Batches").

Columns are tuples of buffers as Arrow lays them out: (validity or None, offsets of 32 bits, data or None, first row).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcpy

from rocketlake.codec.property_scan cimport NAME_END, VALUE_END
from rocketlake.codec.record_layout cimport BATCH_ENTRY_BYTES_MIN, BATCH_HEAD_BYTES, store32
from rocketlake.codec.record_run cimport put_number

__all__ = ["ColumnBatch"]

cdef enum:
    UNIQUE_PREFIX_BYTES = 24
    UNIQUE_BYTES = 42  # UNIQ_KEY, 32 digits, two separators
    NUMBER_BYTES_MAX = 20
    ROWS_MAX = 2147483647

# Why a row makes no message; the numbers are those of spark/sink/faults.py.
cdef enum:
    FINE = 0
    NO_BODY = 1
    BODY_TOO_LONG = 2
    SEPARATOR = 3
    PROPERTIES_TOO_LONG = 4

cdef struct Part:
    const uint8_t* at
    Py_ssize_t size


cdef class _Column:
    """One column of texts or bytes; without buffers all of its values are missing.

    With `elements` it is one of lists: its offsets count elements of another column.
    """

    cdef Py_buffer _validity
    cdef Py_buffer _offsets
    cdef Py_buffer _data
    cdef bint _has_validity
    cdef bint _has_offsets
    cdef bint _has_data
    cdef int64_t first
    cdef const int32_t* offsets
    cdef const uint8_t* data
    cdef const uint8_t* validity

    def __cinit__(self, buffers, int64_t rows, int64_t elements=0):
        cdef int64_t row, end
        if buffers is None:
            return
        validity, offsets, data, first = buffers
        self.first = first
        if self.first < 0 or rows < 0 or rows > ROWS_MAX or self.first > ROWS_MAX:
            raise ValueError("a column of no possible size")
        end = self.first + rows
        if validity is not None:
            PyObject_GetBuffer(validity, &self._validity, PyBUF_SIMPLE)
            self._has_validity = True
            self.validity = <const uint8_t*>self._validity.buf
            if self._validity.len * 8 < end:
                raise ValueError("the validity of a column is shorter than its rows")
        PyObject_GetBuffer(offsets, &self._offsets, PyBUF_SIMPLE)
        self._has_offsets = True
        self.offsets = <const int32_t*>self._offsets.buf
        if self._offsets.len < 4 * (end + 1):
            raise ValueError("the offsets of a column are fewer than its rows")
        if data is not None:
            PyObject_GetBuffer(data, &self._data, PyBUF_SIMPLE)
            self._has_data = True
            self.data = <const uint8_t*>self._data.buf
            elements = self._data.len
        if self.offsets[self.first] < 0 or self.offsets[end] > elements:
            raise ValueError("a column points beyond its data")
        for row in range(self.first, end):
            if self.offsets[row] > self.offsets[row + 1]:
                raise ValueError("the offsets of a column go back")

    def __dealloc__(self):
        if self._has_validity:
            PyBuffer_Release(&self._validity)
        if self._has_offsets:
            PyBuffer_Release(&self._offsets)
        if self._has_data:
            PyBuffer_Release(&self._data)

    cdef inline Part value(self, int64_t row) noexcept nogil:
        """The bytes of a row, none if it is missing."""
        cdef Part part
        cdef int64_t place = self.first + row
        part.at = NULL
        part.size = 0
        if self._is_there(place):
            part.at = self.data + self.offsets[place]
            part.size = self.offsets[place + 1] - self.offsets[place]
        return part

    cdef inline bint _is_there(self, int64_t place) noexcept nogil:
        if not self._has_offsets:
            return False
        return not self._has_validity or (self.validity[place >> 3] >> (place & 7)) & 1

    cdef inline int64_t begin(self, int64_t row) noexcept nogil:
        """Number of the first element of a row's list."""
        return self.offsets[self.first + row] if self._is_there(self.first + row) else 0

    cdef inline int64_t end(self, int64_t row) noexcept nogil:
        """The number behind its last."""
        return self.offsets[self.first + row + 1] if self._is_there(self.first + row) else 0


cdef class ColumnBatch:
    """The rows of one Arrow batch. `faults`: a byte for each row, 0 when it makes a message."""

    cdef _Column _body
    cdef _Column _tags
    cdef _Column _keys
    cdef _Column _sharding
    cdef _Column _map  # where the properties of a row begin
    cdef _Column _values
    cdef const int32_t[::1] _names  # of each property, a number into `texts`
    cdef list _texts
    cdef bytes _uses
    cdef int64_t _key_bytes
    cdef readonly Py_ssize_t rows
    cdef readonly bytes faults

    def __init__(self, Py_ssize_t rows, body, tags, keys, sharding, properties, int64_t message_bytes_max,
                 int64_t properties_bytes_max, int64_t row_key_bytes):
        """`properties`: None, or (map column as offsets, value column, numbers of names, names, what to do with each:
        0 leave out, 1 write, 2 is no name). `row_key_bytes`: room for the key that `encode` adds to each row, or 0.
        """
        cdef int64_t entries = 0
        self.rows = rows
        self._body = _Column(body, rows)
        self._tags = _Column(tags, rows)
        self._keys = _Column(keys, rows)
        self._sharding = _Column(sharding, rows)
        self._texts = []
        self._uses = b""
        self._key_bytes = row_key_bytes
        if properties is not None:
            starts, values, names, texts, uses = properties
            self._names = names
            entries = self._names.shape[0]
            self._map = _Column((starts[0], starts[1], None, starts[2]), rows, entries)
            self._values = _Column(values, entries)
            self._texts = texts
            self._uses = uses
            if len(self._uses) != len(self._texts):
                raise ValueError("the names of properties do not fit what to do with them")
            for number in range(entries):
                if not 0 <= self._names[number] < len(self._texts):
                    raise ValueError("a property has no name")
        else:
            self._map = _Column(None, rows)
            self._values = _Column(None, 0)
        self._check(message_bytes_max, properties_bytes_max)

    cdef int _check(self, int64_t message_bytes_max, int64_t properties_bytes_max) except -1:
        cdef bytes faults = PyBytes_FromStringAndSize(NULL, self.rows)
        cdef uint8_t* fault = <uint8_t*>PyBytes_AS_STRING(faults)
        cdef Py_ssize_t row
        cdef int64_t size
        cdef Part part
        for row in range(self.rows):
            part = self._body.value(row)
            if part.size == 0:
                fault[row] = NO_BODY
            elif part.size > message_bytes_max:
                fault[row] = BODY_TOO_LONG
            else:
                size = self._properties_size(row)
                fault[row] = SEPARATOR if size < 0 else PROPERTIES_TOO_LONG if size > properties_bytes_max else FINE
                if fault[row] == FINE and BATCH_ENTRY_BYTES_MIN + part.size + size > message_bytes_max:
                    fault[row] = BODY_TOO_LONG
        self.faults = faults
        return 0

    cdef int64_t _properties_size(self, Py_ssize_t row):
        """Most bytes of the property text of a row; -1 when it cannot be written."""
        cdef int64_t size = UNIQUE_BYTES
        cdef Part part
        cdef int64_t entry
        cdef uint8_t use
        part = self._tags.value(row)
        if part.size:
            if _has_separator(part):
                return -1
            size += part.size + 6
        part = self._keys.value(row)
        if part.size or self._key_bytes:
            if _has_separator(part):
                return -1
            size += part.size + self._key_bytes + 7
        part = self._sharding.value(row)
        if part.size:
            if _has_separator(part):
                return -1
            size += part.size + 15
        for entry in range(self._map.begin(row), self._map.end(row)):
            use = self._uses[self._names[entry]]
            part = self._values.value(entry)
            if use == 0 or part.size == 0:
                continue
            if use == 2 or _has_separator(part):
                return -1
            size += part.size + len(<bytes>self._texts[self._names[entry]]) + 2
        return size

    def encode(self, const int32_t[::1] rows, Py_ssize_t start, int64_t bytes_max, Py_ssize_t count_max,
               bytes unique_prefix, bytes key_prefix, int64_t first_number):
        """(batch body, rows taken) of the rows numbered `rows[start:]`, at least one, as far as they fit.

        A row's number in its task is `first_number` + its number here; it ends its unique key, and the key that starts
        with `key_prefix` (b"": none is added).
        """
        cdef Py_ssize_t number, count = 0
        cdef int64_t size, total = 0
        cdef Py_ssize_t row
        if len(unique_prefix) != UNIQUE_PREFIX_BYTES:
            raise ValueError("a unique key begins with 24 characters")
        if key_prefix and self._key_bytes < len(key_prefix) + NUMBER_BYTES_MAX:
            raise ValueError("there is no room for keys of rows")
        for number in range(start, rows.shape[0]):
            row = rows[number]
            if not 0 <= row < self.rows or <uint8_t>self.faults[row] != FINE:
                raise ValueError(f"row {row} makes no message")
            size = BATCH_ENTRY_BYTES_MIN + self._body.value(row).size + self._properties_size(row)
            if count and (total + size > bytes_max or count == count_max):
                break
            total += size
            count += 1
        cdef bytes written = PyBytes_FromStringAndSize(NULL, total)
        cdef uint8_t* begin = <uint8_t*>PyBytes_AS_STRING(written)
        cdef uint8_t* at = begin
        for number in range(start, start + count):
            at = self._put(at, rows[number], unique_prefix, key_prefix, first_number + rows[number])
        if at - begin > total:
            raise AssertionError(f"{total} bytes were reserved, {at - begin} written")
        return (written if at - begin == total else written[:at - begin]), count

    cdef uint8_t* _put(self, uint8_t* at, Py_ssize_t row, bytes unique_prefix, bytes key_prefix, int64_t number):
        cdef uint8_t* head = at
        cdef uint8_t* properties
        cdef Part part = self._body.value(row)
        cdef int64_t entry
        cdef uint32_t low
        cdef int digit
        cdef bytes name
        at += BATCH_HEAD_BYTES
        memcpy(at, part.at, part.size)
        at += part.size
        store32(head + 4, 0)
        store32(head + 8, 0)
        store32(head + 12, 0)
        store32(head + 16, part.size)
        properties = at + 2
        at = properties
        part = self._tags.value(row)
        if part.size:
            at = _pair(at, b"TAGS", 4, part)
        part = self._keys.value(row)
        if part.size or key_prefix:
            memcpy(at, b"KEYS\x01", 5)
            at += 5
            if part.size:
                memcpy(at, part.at, part.size)
                at += part.size
                if key_prefix:
                    at[0] = c" "
                    at += 1
            if key_prefix:
                memcpy(at, PyBytes_AS_STRING(key_prefix), len(key_prefix))
                at += len(key_prefix)
                at += put_number(at, number)
            at[0] = VALUE_END
            at += 1
        part = self._sharding.value(row)
        if part.size:
            at = _pair(at, b"__SHARDINGKEY", 13, part)
        for entry in range(self._map.begin(row), self._map.end(row)):
            if <uint8_t>self._uses[self._names[entry]] == 1:
                part = self._values.value(entry)
                if part.size:
                    name = <bytes>self._texts[self._names[entry]]
                    at = _pair(at, PyBytes_AS_STRING(name), len(name), part)
        memcpy(at, b"UNIQ_KEY\x01", 9)
        memcpy(at + 9, PyBytes_AS_STRING(unique_prefix), UNIQUE_PREFIX_BYTES)
        at += 9 + UNIQUE_PREFIX_BYTES
        low = <uint32_t>number
        for digit in range(8):
            at[7 - digit] = b"0123456789ABCDEF"[low & 15]
            low >>= 4
        at[8] = VALUE_END
        at += 9
        (properties - 2)[0] = <uint8_t>((at - properties) >> 8)
        (properties - 1)[0] = <uint8_t>(at - properties)
        store32(head, at - head)
        return at


cdef inline bint _has_separator(Part part) noexcept nogil:
    if part.size == 0:
        return False
    return memchr(part.at, NAME_END, part.size) != NULL or memchr(part.at, VALUE_END, part.size) != NULL


cdef inline uint8_t* _pair(uint8_t* at, const char* name, Py_ssize_t name_size, Part value) noexcept nogil:
    memcpy(at, name, name_size)
    at += name_size
    at[0] = NAME_END
    memcpy(at + 1, value.at, value.size)
    at += 1 + value.size
    at[0] = VALUE_END
    return at + 1
