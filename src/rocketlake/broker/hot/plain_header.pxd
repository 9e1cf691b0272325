# C types of plain_header.pyx, for the kernels that read requests and write answers, and what they do with single bytes.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from rocketlake.codec.property_scan cimport Slice

cdef enum:
    PREFIX_BYTES = 8
    FLAG_ONEWAY = 2
    FIELDS_MAX = 64  # of a plain request

cdef struct Head:
    int64_t code
    int64_t flag
    int64_t opaque
    bint is_binary

cdef struct Field:
    Slice name
    Slice value

cdef struct Frame:
    # Its parts lie in the chunk; `size` counts all of it.
    Py_ssize_t size
    bint is_binary
    const uint8_t* header
    Py_ssize_t header_size
    const uint8_t* body
    Py_ssize_t body_size


cdef bint find_frame(const uint8_t* at, const uint8_t* end, int64_t frame_max, int64_t header_max, Frame* frame) noexcept
cdef bint has_code(Frame* frame, int64_t code, int64_t other) noexcept
cdef int read_header(Frame* frame, Head* head, Field* fields, uint8_t* scratch) noexcept
cdef bint may_pass(Slice name) noexcept
cdef bint read_number(Slice text, Py_ssize_t digits_max, int64_t* number) noexcept


cdef inline bint same(Slice text, const char* wanted, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, wanted, size) == 0


cdef inline int64_t int32(const uint8_t* at) noexcept nogil:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline int64_t int16(const uint8_t* at) noexcept nogil:
    cdef int64_t value = at[0] << 8 | at[1]
    return value - 65536 if value > 32767 else value


cdef inline void put32(uint8_t* at, int64_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value


cdef inline uint8_t* put(uint8_t* at, bytes part) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(part)
    memcpy(at, PyBytes_AS_STRING(part), size)
    return at + size


cdef inline void put_prefix(uint8_t* frame, Py_ssize_t header_size, Py_ssize_t body_size, uint8_t kind) noexcept nogil:
    put32(frame, 4 + header_size + body_size)
    put32(frame + 4, header_size)
    frame[4] = kind
