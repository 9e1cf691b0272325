# C types of tail.py.
import cython

cdef long long _ENTRY_SIZE

cdef class Tails:
    cdef public long long bytes_max
    cdef public long long held
    cdef public object queues
    cdef public dict written

cdef class QueueTail:
    cdef public long long max_offset
    cdef public long long next_offset
    cdef public long long max_physical_offset
    cdef public Tails tails
    cdef public bytearray tail
    cdef public long long tail_room

    @cython.locals(size=cython.longlong, first=cython.longlong, index=cython.Py_ssize_t)
    cpdef bint take_run(self, long long offset, bytes entries, long long end_physical) except -1

    cpdef tail_written(self, long long size)

    cpdef drop_tail(self)
