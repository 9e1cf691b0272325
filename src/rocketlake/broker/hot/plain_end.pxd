# C types of plain_end.pyx, for the module that takes requests into a run.
from libc.stdint cimport int64_t

from rocketlake.broker.hot.plain_header cimport Frame
from rocketlake.broker.hot.plain_run cimport PlainSends
from rocketlake.broker.hot.plain_topics cimport PlainTopics
from rocketlake.codec.property_scan cimport Slice
from rocketlake.store.log_window cimport LogWindow


cdef struct End:
    # The header fields of an end; `seen` has a bit for each of those that must be there.
    int seen
    Slice group
    Slice transaction_id
    Slice message_id
    int64_t queue_offset
    int64_t physical_offset
    int64_t outcome


cdef class PlainEnds:
    cdef PlainTopics _topics
    cdef LogWindow _log
    cdef object _admit
    cdef object _stands_alone
    cdef object _kept
    cdef set _taken
    cdef int64_t _room
    cdef bint is_full
    cdef int64_t _dead_until

    cdef int begin(self, object asker) except -1
    cdef int end(self) except -1
    cdef bint take(self, PlainSends sends, Frame* frame) except -1
    cdef bint _take_named(self, PlainSends sends, End* end) except -1
