# C types of fetch.py.
import cython

from rocketlake.store.selection cimport Selection

cdef long long _BYTES_MAX, _BYTES_MIN, _ENTRIES_AT_ONCE

cdef class Fetch:
    cdef object _log, _residency, _deletions, _mapped
    cdef long long _memory_bytes, _scan_min
    cdef tuple _recent, _old
    cdef public object mend
    cdef public object wait
    cdef bint _is_mended

    cpdef bint is_in_memory(self, long long physical_offset) except -1

    cdef Selection _selection(self, queue, long long max_messages, long long max_bytes)

    @cython.locals(done=cython.longlong, offset=cython.longlong, size=cython.longlong)
    cdef tuple _collect(self, Selection selection, entries, long long first, match, match_record, bint wait)

    cdef _show(self, Selection selection, mapped, sure)

    cdef _find(self, long long offset, long long size)

    cdef list _cold_parts(self, entries, long long done, match)

cdef tuple _out_of_range(long long offset, long long low, long long high)
