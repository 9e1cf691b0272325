# C types of record.py. Lengths and offsets are 64 bits wide: lying 32-bit lengths cannot overflow a sum.
import cython

from rocketlake.model.message cimport StoredMessage

cdef long long _FIXED_BYTES_MIN
cdef long long _V1
cdef long long _V2
cdef long long _SYS_FLAG_LOW_AT
cdef long long _HOST_BITS
cdef tuple _HEADS

@cython.locals(data=bytes, messages=list, position=cython.longlong, message=StoredMessage)
cpdef list decode_records(buffer, check_crc=*, decompress=*, body_bytes_max=*, broker_name=*)

@cython.locals(left=cython.longlong, head_bytes=cython.longlong, size=cython.longlong, magic=cython.longlong,
               body_bytes=cython.longlong, sys_flag=cython.longlong, end=cython.longlong, body_at=cython.longlong,
               topic_at=cython.longlong, topic_bytes=cython.longlong, properties_at=cython.longlong,
               properties_bytes=cython.longlong, body=bytes, message=StoredMessage)
cdef StoredMessage _decode(bytes data, long long position, bint check_crc, bint decompress, body_bytes_max, broker_name)
