# C types of selection.py. Offsets and sums are 64 bits wide: a lying 32-bit size cannot overflow them.
import cython

cdef int _BLOCK_BITS, _ENTRY_BYTES, _FILLER_SIZE, _LEAST_RECORD, _MAGIC_HIGH, _MAGIC_V1_LOW, _MAGIC_V2_LOW
cdef int _BODY_AT, _BORN_HOST_V6, _STORE_HOST_V6, _V6_MORE

cdef class Selection:
    cdef object _view
    cdef long long _begin, _recent_from, _recent_count, _recent_bytes, _old_count, _old_bytes
    cdef long long _origin, _end, _piece_start, _piece_end
    cdef bytearray _sure
    cdef bytes _topic
    cdef long long _queue_id
    cdef public long long odd
    cdef public long long misnumbered
    cdef public list pieces
    cdef public long long count
    cdef public long long bytes
    cdef public bint is_full
    cdef public bint is_outside
    cdef public long long wanted_offset
    cdef public long long wanted_size
    cdef public long long gone_below

    cpdef show(self, view, long long origin, long long end, sure)

    cpdef long long take(self, entries, long long first, long long at, match, match_record) except -1

    @cython.locals(count=cython.longlong, at=cython.longlong, offset=cython.longlong, size=cython.longlong,
                   position=cython.longlong, is_misnumbered=cython.bint)
    cdef long long _walk(
        self, const unsigned char[::1] entries, long long first, long long number, const unsigned char[::1] data,
        match, match_record
    ) except -1

    @cython.locals(block=cython.longlong, last=cython.longlong)
    cdef bint _is_inside(self, long long offset, long long size) except -1

    @cython.locals(low=cython.int, flag=cython.int, body=cython.longlong, topic_size=cython.longlong,
                   body_size=cython.longlong, name=cython.longlong, at=cython.longlong, said=cython.longlong,
                   index=cython.longlong)
    cdef bint _is_own(
        self, const unsigned char[::1] data, long long position, long long size, long long offset
    ) except -1

    cdef bint _is_enough(self, long long offset, long long size) except -1

    cpdef end_piece(self)

@cython.locals(high=cython.longlong)
cdef long long _int32(const unsigned char[::1] data, long long at) except? -1

@cython.locals(low=cython.longlong)
cdef long long _int64(const unsigned char[::1] data, long long at) except? -1
