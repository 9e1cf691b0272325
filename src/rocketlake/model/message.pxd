# C slots of message.py. All are Python objects: what an attribute takes is not the compiled form's to say.

cdef class Message:
    cdef public object body
    cdef public object flag
    cdef public object lazy_properties
    cdef public object topic

cdef class StoredMessage(Message):
    cdef public object body_crc
    cdef public object born_host
    cdef public object born_ms
    cdef public object broker_name
    cdef public object physical_offset
    cdef public object prepared_transaction_offset
    cdef public object queue_id
    cdef public object queue_offset
    cdef public object reconsume_times
    cdef public object store_host
    cdef public object store_ms
    cdef public object store_size
    cdef public object sys_flag
