# C types of unit_run.pyx, for the module that fills a run.
from libc.stdint cimport int32_t, int64_t


cdef struct Row:
    # A message for the wheel.
    int64_t physical_offset
    int64_t size
    int32_t topic_hash
    int32_t bits
    Py_ssize_t tick


cdef struct Tick:
    int64_t due_ms
    int64_t first  # places of the first and last of its units
    int64_t last
    int64_t more  # messages that wait for it


cdef class UnitRun:
    cdef Row* _rows
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef Tick* _ticks
    cdef Py_ssize_t _tick_count
    cdef Py_ssize_t _tick_room
    cdef Py_ssize_t _last
    cdef dict _numbers

    cdef int add(self, int64_t due_ms, int32_t bits, int64_t physical_offset, int64_t size, int32_t topic_hash) except -1
    cdef Py_ssize_t _tick(self, int64_t due_ms) except -1
