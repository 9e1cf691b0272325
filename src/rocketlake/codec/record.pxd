# C types of record.py. Lengths and offsets are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

cpdef long long record_size(
    long long topic_bytes, long long body_bytes, long long properties_bytes,
    long long born_host_bytes=*, long long store_host_bytes=*,
)

@cython.locals(
    topic_bytes=cython.longlong, body_bytes=cython.longlong, properties_bytes=cython.longlong,
    born_bytes=cython.longlong, store_bytes=cython.longlong, size=cython.longlong, is_v1=cython.bint,
)
cpdef bytearray encode_record(
    topic, body, properties, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms, born_host, store_ms,
    store_host, reconsume_times, prepared_transaction_offset, body_crc,
)

@cython.locals(
    left=cython.longlong, size=cython.longlong, head_bytes=cython.longlong, body_bytes=cython.longlong,
    topic_at=cython.Py_ssize_t, topic_bytes=cython.Py_ssize_t, properties_at=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t, rest=bytes, body=bytes,
)
cpdef decode_record(buffer, position=*, check_crc=*, decompress=*, body_bytes_max=*)
