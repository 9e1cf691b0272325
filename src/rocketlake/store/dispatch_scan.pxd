# C types of dispatch_scan.py. Lengths and positions are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

cdef long long _MAGIC_V1, _MAGIC_V2, _MAGIC_BLANK
cdef long long _TRANSACTION_MASK, _TRANSACTION_PREPARED, _TRANSACTION_ROLLBACK
cdef long long _BORN_HOST_V6, _STORE_HOST_V6, _QUEUE_OFFSET_MAX, _UNKNOWN_LEVEL_MS, _LEVEL_DIGITS_MAX
cdef long long _BORN_HOST, _HOSTS_V4, _V6_EXTRA, _LEAST_RECORD

cdef class DispatchEntry:
    cdef public list keys
    cdef public long long physical_offset
    cdef public long long prepared_offset
    cdef public long long queue_id
    cdef public long long queue_offset
    cdef public long long size
    cdef public long long store_ms
    cdef public long long sys_flag
    cdef public long long tag_code
    cdef public str topic
    cdef public str unique_key

    cpdef bint is_queued(self)
    cpdef bint is_indexed(self)
    cpdef list index_keys(self)

cpdef appended_entry(
    topic, queue_id, queue_offset, physical_offset, size, store_ms, sys_flag, prepared_offset, properties, delays_ms
)

@cython.locals(entries=list, position=cython.longlong, entry=DispatchEntry)
cpdef tuple scan(view, base_offset, check_crc, delays_ms)

@cython.locals(left=cython.longlong, size=cython.longlong, magic=cython.longlong)
cdef tuple _read(view, long long position, long long base_offset, check_crc, delays_ms)

@cython.locals(
    size=cython.longlong, queue_id=cython.longlong, queue_offset=cython.longlong, physical_offset=cython.longlong,
    sys_flag=cython.longlong, body_crc=cython.longlong, store_time=cython.longlong, prepared=cython.longlong,
    body=cython.longlong, body_size=cython.longlong, topic=cython.longlong, topic_size=cython.longlong,
    topic_length=cython.longlong, properties=cython.longlong, properties_size=cython.longlong, entry=DispatchEntry,
)
cdef tuple _take_apart(record, long long own_offset, long long magic, check_crc, delays_ms)

@cython.locals(
    tags=bytes, keys=bytes, unique_key=bytes, level=bytes, piece=bytes, name=bytes, value=bytes, delay_ms=cython.longlong,
)
cdef _take_properties(DispatchEntry entry, bytes properties, delays_ms)

@cython.locals(level=cython.longlong)
cdef long long _delay_ms(bytes level_text, delays_ms)
