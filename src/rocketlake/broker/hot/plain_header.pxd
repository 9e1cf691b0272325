# C types of plain_header.pyx and inline functions over bytes, for the kernels that read requests and write answers.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_layout cimport load16, load32, store32

cdef enum:
    PREFIX_BYTES = 8
    FLAG_ONEWAY = 2
    FIELDS_MAX = 64  # of a plain request
    INT_DIGITS = 10  # at most, in an int32

cdef struct Head:
    int64_t code
    int64_t flag
    int64_t opaque
    bint is_binary

cdef struct Field:
    Slice name
    Slice value

cdef struct Frame:
    # A frame whose parts lie in the chunk; `size` counts prefix, header and body.
    Py_ssize_t size
    bint is_binary
    const uint8_t* header
    Py_ssize_t header_size
    const uint8_t* body
    Py_ssize_t body_size


cdef bint find_frame(
    const uint8_t* at, const uint8_t* end, int64_t frame_max, int64_t header_max, Frame* frame
) noexcept
cdef bint has_code(Frame* frame, int64_t code, int64_t other) noexcept
cdef int read_header(Frame* frame, Head* head, Field* fields, uint8_t* scratch) noexcept
cdef bint may_pass(Slice name) noexcept
cdef bint read_number(Slice text, Py_ssize_t digits_max, int64_t* number) noexcept
cdef bint read_int(Slice text, int32_t* number) noexcept
cdef str as_text(Slice text, str known)


cdef inline bint same(Slice text, const char* wanted, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, wanted, size) == 0


cdef inline bint equal(Slice text, Slice other) noexcept nogil:
    """True if two texts are the same, and not empty."""
    return text.size == other.size and text.size > 0 and memcmp(text.at, other.at, text.size) == 0


cdef inline bint says_wait(Slice value) noexcept nogil:
    """True if the property WAIT is absent or "true"."""
    return value.size == 0 or (value.size == 4 and memcmp(value.at, b"true", 4) == 0)


cdef inline int64_t int32(const uint8_t* at) noexcept nogil:
    return <int32_t>load32(at)


cdef inline int64_t int16(const uint8_t* at) noexcept nogil:
    return <int16_t>load16(at)


cdef inline uint8_t* put(uint8_t* at, bytes part) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(part)
    memcpy(at, PyBytes_AS_STRING(part), size)
    return at + size


cdef inline void put_prefix(uint8_t* frame, Py_ssize_t header_size, Py_ssize_t body_size, uint8_t kind) noexcept nogil:
    store32(frame, 4 + header_size + body_size)
    store32(frame + 4, header_size)
    frame[4] = kind
