# The bytes of protobuf for compiled code: numbers, lengths, fields. What is not regular is NULL to the readers here, and
# the ordinary path decides: numbers of more than 63 bits, groups, fields that the caller does not expect.
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from rocketlake.codec.property_scan cimport Slice

cdef enum:
    # Kinds of fields: the low bits of a tag.
    NUMBER = 0
    BYTES = 2


cdef inline const uint8_t* read_number(const uint8_t* at, const uint8_t* end, int64_t* number) noexcept nogil:
    """Read a number of at most nine bytes; NULL if there is none."""
    cdef int shift = 0
    cdef int64_t value = 0
    while at < end and shift < 63:
        value |= <int64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            number[0] = value
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_bytes(const uint8_t* at, const uint8_t* end, Slice* found) noexcept nogil:
    """Read a length and as many bytes; NULL if they do not end before `end`."""
    cdef int64_t size
    at = read_number(at, end, &size)
    if at == NULL or size > end - at:
        return NULL
    found.at = at
    found.size = size
    return at + size


cdef inline Py_ssize_t number_bytes(uint64_t number) noexcept nogil:
    cdef Py_ssize_t size = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


cdef inline uint8_t* put_number(uint8_t* at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t>(number | 0x80)
        number >>= 7
        at += 1
    at[0] = <uint8_t>number
    return at + 1


cdef inline uint8_t* put_head(uint8_t* at, int field, int kind, uint64_t number) noexcept nogil:
    """The tag of a field, and behind it its number, or its length."""
    return put_number(put_number(at, field << 3 | kind), number)


cdef inline uint8_t* put_text(uint8_t* at, int field, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """A field of bytes, text, or a message that is written already."""
    at = put_head(at, field, BYTES, size)
    memcpy(at, text, size)
    return at + size


cdef inline Py_ssize_t text_bytes(Py_ssize_t size) noexcept nogil:
    """Bytes of such a field of a number below 16."""
    return 1 + number_bytes(size) + size


cdef inline bint is_printable(Slice text) noexcept nogil:
    """True if each byte is a printable ASCII character: such a text holds no control character, and is UTF-8."""
    cdef Py_ssize_t position
    cdef uint8_t bad = 0
    for position in range(text.size):
        bad |= <uint8_t>(text.at[position] - 0x20) > 0x5E
    return not bad


cdef inline bint is_blank(Slice text) noexcept nogil:
    """True if a printable text holds blanks only; also the empty one."""
    cdef Py_ssize_t position
    for position in range(text.size):
        if text.at[position] != c" ":
            return False
    return True


cdef inline bint read_pair(Slice whole, Slice* found) noexcept nogil:
    """Read a message of two printable texts, of which each may be missing: a slice of no bytes."""
    cdef const uint8_t* at = whole.at
    cdef const uint8_t* end = whole.at + whole.size
    cdef int number
    found[0].size = found[1].size = 0
    while at < end:
        number = (at[0] >> 3) - 1
        if at[0] & 7 != BYTES or not 0 <= number <= 1 or found[number].size:
            return False
        at = read_bytes(at + 1, end, &found[number])
        if at == NULL or not is_printable(found[number]):
            return False
    return True


cdef inline bytes bytes_of(Slice text):
    return PyBytes_FromStringAndSize(<const char*>text.at, text.size) if text.size else b""
