# C types of record_parts.py. Lengths come from the record and are 64 bits wide: a lying one cannot overflow a sum.
import cython

cdef int _FLAGS_AT, _V6_MORE_BYTES, _V2_LAST_BYTE, _MAGIC_LAST_AT, _BODY_AT, _V6_BORN, _V6_STORE

cpdef bytes properties_block(record)

@cython.locals(size=cython.longlong, at=cython.longlong, end=cython.longlong)
cdef bytes _block(const unsigned char[::1] data)
