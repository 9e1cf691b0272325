# C types of plain_run.pyx, for the modules that take requests into a run.
from libc.stdint cimport int32_t, uint8_t

from rocketlake.codec.record_run cimport RecordRun


cdef struct Sent:
    # One request of the run.
    Py_ssize_t first_record
    Py_ssize_t records
    Py_ssize_t key_at  # its unique key in the text of the run; a batch may have none
    Py_ssize_t key_size
    Py_ssize_t handle_at  # its recall handle in the text of the run; most have none
    Py_ssize_t handle_size
    int32_t opaque
    int32_t queue_id
    bint is_binary
    bint is_oneway


cdef class AnswerParts:
    cdef tuple json
    cdef bytes json_handle
    cdef bytes binary_start
    cdef bytes binary_flag
    cdef bytes binary_tail
    cdef bytes address


cdef class PlainSends:
    cdef readonly RecordRun run
    cdef readonly Py_ssize_t end
    cdef Sent* _sents
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t asked
    cdef Py_ssize_t _room
    cdef AnswerParts _parts
    cdef readonly bint waits
    cdef readonly list marked
    cdef readonly list ended

    cdef Sent* next_sent(self) except NULL
    cdef str _text(self, Py_ssize_t at, Py_ssize_t size)
    cdef uint8_t* _ids(self, uint8_t* at, Sent* sent) noexcept
    cdef uint8_t* _json_answer(self, uint8_t* at, Sent* sent) noexcept
    cdef uint8_t* _binary_answer(self, uint8_t* at, Sent* sent) noexcept
