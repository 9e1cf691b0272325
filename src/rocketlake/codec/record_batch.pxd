# C types of record_batch.py. Lengths are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

@cython.locals(parts=list, properties=bytes, size=cython.longlong)
cpdef encode_batch(messages)

@cython.locals(
    entries=list, position=cython.longlong, end=cython.longlong, size=cython.longlong, body_bytes=cython.longlong,
    body_at=cython.longlong, properties_at=cython.longlong, properties_bytes=cython.longlong,
)
cpdef list decode_batch(body, messages_max=*)

cpdef iter_batch(body, messages_max=*)

cpdef list unwrap_batch(outer)
