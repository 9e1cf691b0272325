# C types of name_set.pyx, for kernels that ask for names.
from libc.stdint cimport int16_t, uint8_t


cdef struct Name:
    const uint8_t* at
    Py_ssize_t size


cdef class NameSet:
    cdef tuple _kept
    cdef Name* _names
    cdef int16_t _first[257]

    cdef bint has(self, const uint8_t* at, Py_ssize_t size) noexcept nogil
    cdef bint has_start(self, const uint8_t* at, Py_ssize_t size) noexcept nogil

    cdef inline bint may_have(self, uint8_t first) noexcept nogil:
        """False if no name of the set begins with this byte."""
        return self._first[first] != self._first[first + 1]
