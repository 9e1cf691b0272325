# Java's String.hashCode for kernels, over ASCII bytes: each is one UTF-16 unit. Python's form: java_compat.py.
from libc.stdint cimport uint8_t, uint32_t


cdef inline uint32_t java_hash(uint32_t value, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """The hash of a text whose hash so far is `value` (0 at its start) with `size` bytes more; it wraps around."""
    cdef Py_ssize_t position
    for position in range(size):
        value = 31 * value + text[position]
    return value
