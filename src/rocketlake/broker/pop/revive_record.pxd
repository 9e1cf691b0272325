# C types of revive_record.pyx, for the module that takes acknowledgements into a run.
from libc.stdint cimport int64_t, uint8_t

from rocketlake.broker.delay.plain_time cimport NAME_BYTES_MAX, PlainTimes
from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_layout cimport TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RecordRun, RunTopic

cdef enum:
    NUMBER_BYTES = 20
    KEY_BYTES_MAX = TOPIC_BYTES_MAX_V1 + 2 * NAME_BYTES_MAX + 4 * NUMBER_BYTES

cdef struct Point:
    # What the records of one check point say of it.
    Slice topic
    Slice group
    Slice broker_name
    int64_t queue_id
    int64_t start_offset
    int64_t pop_ms


cdef class ReviveRecords:
    cdef PlainTimes _times
    cdef RunTopic _revive_topic

    cdef int begin(self) except -1
    cdef bint is_plain(self, int64_t deliver_ms) except -1
    cdef int add(self, RecordRun run, Point* point, bytes tag, int64_t deliver_ms, int64_t number,
                 int64_t revive_queue, bytes body) except -1
    cdef bint _add_check_point(self, RecordRun run, check_point, int64_t revive_queue, deliver_ms) except -1


cdef bint is_name(Slice name, Py_ssize_t most) noexcept
cdef uint8_t* put_name(uint8_t* at, Slice name, uint8_t behind) noexcept
cdef uint8_t* put_figure(uint8_t* at, int64_t figure, uint8_t behind) noexcept
