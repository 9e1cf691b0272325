"""A set of names that a kernel asks for without a Python object per question.

Owns        finding a name among a few dozen by its first byte.
Must not know   the meaning of the names.

Kernel: Cython without a Python form. A Python set does the same; tests/parity/test_name_set.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

__all__ = ["NameSet"]

cdef enum:
    NAMES_MAX = 1000


cdef class NameSet:
    """Names of at least one byte. The set never changes. `_first[b]`: the first name that starts with byte b or a
    larger one."""

    def __init__(self, names):
        cdef Py_ssize_t number, count
        cdef int byte
        cdef bytes name
        self._kept = tuple(sorted({each.encode() for each in names}))
        count = len(self._kept)
        if count > NAMES_MAX or (count and not self._kept[0]):
            raise ValueError(f"no set of names: {count} of at most {NAMES_MAX}, none may be empty")
        PyMem_Free(self._names)
        self._names = <Name*>PyMem_Malloc(max(count, 1) * sizeof(Name))
        if self._names == NULL:
            raise MemoryError()
        for number in range(count):
            name = self._kept[number]
            self._names[number].at = <const uint8_t*>PyBytes_AS_STRING(name)
            self._names[number].size = PyBytes_GET_SIZE(name)
        number = 0
        for byte in range(257):
            while number < count and self._names[number].at[0] < byte:
                number += 1
            self._first[byte] = number

    def __dealloc__(self):
        PyMem_Free(self._names)

    def __contains__(self, bytes name):
        return self.has(<const uint8_t*>PyBytes_AS_STRING(name), len(name))

    def starts(self, bytes text):
        """True if `text` starts with a name of the set."""
        return self.has_start(<const uint8_t*>PyBytes_AS_STRING(text), len(text))

    cdef bint has(self, const uint8_t* at, Py_ssize_t size) noexcept nogil:
        """True if this text is a name of the set."""
        cdef int number
        if size == 0:
            return False
        for number in range(self._first[at[0]], self._first[at[0] + 1]):
            if self._names[number].size == size and memcmp(self._names[number].at, at, size) == 0:
                return True
        return False

    cdef bint has_start(self, const uint8_t* at, Py_ssize_t size) noexcept nogil:
        """True if this text starts with a name of the set."""
        cdef int number
        if size == 0:
            return False
        for number in range(self._first[at[0]], self._first[at[0] + 1]):
            if self._names[number].size <= size and memcmp(self._names[number].at, at, self._names[number].size) == 0:
                return True
        return False
