# C types of dispatch_scan.py. Lengths and positions are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

cdef long long _START, _MAGIC_V1, _MAGIC_V2, _MAGIC_BLANK
cdef long long _TRANSACTION_MASK, _TRANSACTION_PREPARED, _TRANSACTION_ROLLBACK
cdef long long _QUEUE_OFFSET_MAX, _UNKNOWN_LEVEL_MS, _LEVEL_DIGITS_MAX
cdef long long _SYS_FLAG_LOW, _HOST_BITS, _LEAST_RECORD, _SIZE_AND_MAGIC_BYTES
cdef tuple _LAYOUTS

cdef class DispatchEntry:
    cdef public list keys
    cdef public long long physical_offset
    cdef public long long prepared_transaction_offset
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
    topic, queue_id, queue_offset, physical_offset, size, store_ms, sys_flag, prepared_transaction_offset, properties, delays_ms
)

@cython.locals(data=bytes, entries=list, position=cython.longlong, entry=DispatchEntry)
cpdef tuple scan(view, base_offset, check_crc, delays_ms)

@cython.locals(left=cython.longlong, size=cython.longlong, magic=cython.longlong)
cdef tuple _read(bytes data, long long position, long long base_offset, check_crc, delays_ms)

@cython.locals(
    hosts=cython.Py_ssize_t, body=cython.longlong, magic=cython.longlong, body_crc=cython.longlong,
    queue_id=cython.longlong, queue_offset=cython.longlong, physical_offset=cython.longlong, sys_flag=cython.longlong,
    store_ms=cython.longlong, prepared_transaction_offset=cython.longlong, body_size=cython.longlong, topic=cython.longlong,
    topic_size=cython.longlong, properties=cython.longlong, properties_size=cython.longlong, fields=tuple,
    entry=DispatchEntry, name=str, topic_size_max=cython.longlong,
)
cdef tuple _take_apart(bytes data, long long start, long long end, long long own_offset, check_crc, delays_ms)

@cython.locals(text=bytes, level=bytes, tags=bytes, keys=bytes, delay_ms=cython.longlong)
cdef _take_properties(DispatchEntry entry, bytes properties, delays_ms)

@cython.locals(start=cython.Py_ssize_t, begin=cython.Py_ssize_t, end=cython.Py_ssize_t)
cdef bytes _value(bytes text, bytes name)

@cython.locals(level=cython.longlong)
cdef long long _delay_ms(bytes level_text, delays_ms)
