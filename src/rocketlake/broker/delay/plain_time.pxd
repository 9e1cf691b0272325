# C types of plain_time.pyx, for the module that takes sends into a run.
from libc.stdint cimport int64_t, uint8_t

from rocketlake.codec.property_scan cimport ParkMarks, Slice
from rocketlake.codec.record_layout cimport TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RunTopic

cdef enum:
    NAME_BYTES_MAX = 255  # of a unique key, and of a broker's name
    HANDLE_BYTES_MAX = 2 * (32 + TOPIC_BYTES_MAX_V1 + 2 * NAME_BYTES_MAX)


cdef class PlainTimes:
    cdef object _now_ms
    cdef int64_t _now
    cdef int64_t _tick_ms
    cdef int64_t _delay_ms_max
    cdef bytes _broker_name
    cdef int64_t _out_ms

    cdef int begin(self) except -1
    cdef bint is_plain(self, ParkMarks* asked, Slice unique_key) except -1
    cdef uint8_t* put_target(self, uint8_t* at, RunTopic topic, int64_t queue_id) noexcept
    cdef uint8_t* put_handle(self, uint8_t* at, RunTopic topic, Slice unique_key) noexcept


cdef uint8_t* put_real_target(uint8_t* at, RunTopic topic, int64_t queue_id) noexcept
