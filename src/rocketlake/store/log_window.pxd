# C types of log_window.pyx, for the kernels that read records of the log in place.
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketlake.codec.property_scan cimport Slice


cdef struct LogRecord:
    # Its parts lie in the file.
    int64_t queue_offset
    int64_t born_ms
    int32_t flag
    int32_t sys_flag
    int32_t reconsume_times
    Slice born_host
    Slice store_host
    Slice body
    Slice topic
    Slice properties


cdef class LogWindow:
    cdef readonly object view
    cdef object _window
    cdef const uint8_t[::1] _data
    cdef bytearray _sure
    cdef int64_t _origin
    cdef int64_t _size

    cdef bint find(self, int64_t offset, LogRecord* record) except -1
    cdef int end(self) except -1
    cdef bint _is_inside(self, int64_t position, int64_t size) noexcept
    cdef bint _open(self, int64_t offset, int64_t size) except -1
