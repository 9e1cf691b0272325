# C types of header_binary.py. Positions are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

from rocketlake.protocol.command cimport Command

cpdef bint fits_binary_header(long long code)

@cython.locals(remark=bytes, block=bytes, start=bytes)
cpdef bytes encode_binary_header(Command command)

@cython.locals(parts=list, value_bytes=bytes, value_size=cython.longlong)
cpdef bytes encode_fields(dict fields)

cdef bytes _key_part(str key)

@cython.locals(data=bytes, size=cython.longlong, position=cython.longlong, remark_size=cython.longlong,
               fields_size=cython.longlong, command=Command)
cpdef Command decode_binary_header(header, fields_max=*)

@cython.locals(fields=dict, key_size=cython.longlong, key_at=cython.longlong, value_size=cython.longlong,
               value_at=cython.longlong)
cdef dict _decode_fields(bytes data, long long position, long long end, long long fields_max)

@cython.locals(part=bytes)
cdef str _text(bytes data, long long start, long long end)
