# C types of property_scan.pyx, for the kernels that read property texts.
from libc.stdint cimport uint8_t


cdef struct Slice:
    const uint8_t* at
    Py_ssize_t size


cdef struct PropertyMarks:
    # What a property text says that the broker or the store must know; a slice without bytes = not there.
    Slice unique_key
    Slice keys
    Slice tags
    Slice wait
    Slice sequence
    bint is_special  # has a property that only the ordinary path knows how to treat


cdef bint is_plain_name(const uint8_t* name, Py_ssize_t size) noexcept
cdef bint read_marks(const uint8_t* text, Py_ssize_t size, bint unique_names, PropertyMarks* marks) noexcept
