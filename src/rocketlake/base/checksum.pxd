# C types of checksum.pyx.
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t checksum_of(const uint8_t* data, Py_ssize_t size) noexcept nogil
