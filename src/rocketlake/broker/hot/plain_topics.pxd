# C types of plain_topics.pyx, for the modules that take requests into a run.
from libc.stdint cimport int32_t

from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_run cimport RunTopic


cdef class PlainTopic:
    cdef readonly RunTopic run_topic
    cdef readonly int queues
    cdef readonly int read_queues
    cdef int32_t sys_flag


cdef class PlainTopics:
    cdef object _find
    cdef dict _known
    cdef PlainTopic _last

    cdef PlainTopic find(self, Slice name)
