# C types of known_records.py. Lengths and positions are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

cdef long long _MAGIC_V1, _MAGIC_V2, _LEAST_RECORD, _BORN_HOST_V6, _STORE_HOST_V6, _V6_MORE
cdef long long _STORED_AT, _BODY_SIZE_AT, _SIGN_32, _QUEUE_OFFSET_MAX
cdef long long _TRANSACTION_MASK, _TRANSACTION_PREPARED, _TRANSACTION_ROLLBACK

cdef class QueueEnd:
    cdef public long long end_physical
    cdef public bint is_seen

cdef class KnownRecords:
    cdef public long long last_store_ms
    cdef public dict queues
    cdef public dict dead
    cdef long long _below
    cdef long long _index_below
    cdef long long _safe_end
    cdef object _view
    cdef const unsigned char[::1] _bytes
    cdef const unsigned char[::1] _topic
    cdef dict _topic_queues
    cdef long long _topic_dead

    @cython.locals(position=cython.longlong, length=cython.longlong, size=cython.longlong)
    cpdef long long skip(self, view, long long base_offset, bint check_crc) except -1

    @cython.locals(
        size=cython.longlong, magic=cython.longlong, end=cython.longlong, sys_flag=cython.longlong,
        born_more=cython.longlong, body=cython.longlong, queue_id=cython.longlong, queue_offset=cython.longlong,
        body_size=cython.longlong, topic=cython.longlong, topic_size=cython.longlong, properties=cython.longlong,
        properties_size=cython.longlong, kind=cython.longlong, queue=QueueEnd, queues=dict, text=bytes,
        is_checked=cython.bint, is_doubtful=cython.bint,
    )
    cdef long long _known_size(self, long long start, long long left, long long own_offset, bint check_crc) except -1

    cdef dict _queues_of(self, long long begin, long long size)

    cdef bint _is_dead(self, long long begin, long long size, long long own_offset) except -1

    @cython.locals(name=bytes)
    cdef _find_topic(self, long long begin, long long size)

    @cython.locals(index=cython.longlong)
    cdef bint _is_same_topic(self, long long begin, long long size) except -1

    cdef long long _crc(self, long long begin, long long size) except -1

    cdef long long _short(self, long long at) except -1

    @cython.locals(first=cython.longlong)
    cdef long long _number(self, long long at) except -1

    @cython.locals(high=cython.longlong)
    cdef long long _long(self, long long at) except? -1
