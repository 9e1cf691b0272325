# C types of ack_body.pyx, for the module that takes acknowledgements into a run.
from libc.stdint cimport int64_t, uint8_t

from rocketlake.codec.property_scan cimport Slice

cdef enum:
    ENTRIES_MAX = 32  # of a plain body: a pop hands out no more messages

cdef struct AckEntry:
    # See protocol/bodies/pop.py. `seen` has a bit for each member.
    int seen
    Slice bits
    Slice group
    Slice retry
    Slice topic
    int64_t invisible_ms
    int64_t pop_ms
    int64_t queue_id
    int64_t revive_queue
    int64_t start_offset


cdef int read_ack_body(const uint8_t* body, Py_ssize_t size, AckEntry* entries) noexcept
cdef int read_bits(Slice text, int64_t* numbers, int most) noexcept
