# C types of gathering.py.
import cython

from rocketlake.model.message cimport Message

cdef object _ALONE
cdef Py_ssize_t _ENTRY_BYTES_MIN, _TEXT_BYTES_MAX, _KEY_PAIR_BYTES
cdef str _KEY_NAME, _WAIT, _RETRY


cpdef tell_callback(callback, result, error)


cdef class Background:
    cdef public Py_ssize_t count


cdef class CallbackEnd:
    cdef Background _background
    cdef object _callback
    cdef object _context
    cdef bint _is_done

    cpdef done(self)
    cpdef set_result(self, result)
    cpdef set_exception(self, error)
    cdef _tell(self, result, error)


cdef class Entry:
    cdef public Message message
    cdef public object fixed
    cdef public object limit_ms
    cdef public object end
    cdef public object wait
    cdef public bytes text
    cdef public bint has_key
    cdef public Py_ssize_t size


cdef class Batch:
    cdef public tuple key
    cdef public double due
    cdef public list entries
    cdef public Py_ssize_t size
    cdef public object fixed
    cdef public object limit_ms
    cdef public object wait

    @cython.locals(entry=Entry)
    cpdef list waited_for(self)


cdef class Gathering:
    cdef Py_ssize_t _batch_bytes, _alone_over, _room, _key_bytes, _held
    cdef object _opened, _began, _line
    cdef dict _open

    cdef public object new_end

    cpdef send(self, message, fixed, limit_ms)

    @cython.locals(entry=Entry)
    cpdef take(self, message, fixed, limit_ms, end)

    @cython.locals(entry=Entry, is_over=bint)
    cpdef free(self, Py_ssize_t size)

    @cython.locals(own=Batch)
    cpdef close(self, batch)

    @cython.locals(batch=Batch)
    cpdef close_due(self, now)

    @cython.locals(batch=Batch)
    cpdef next_due(self)

    @cython.locals(batch=Batch, waiting=list)
    cpdef list entries(self)

    @cython.locals(message=Message, properties=dict, body_bytes=Py_ssize_t, text_bytes=Py_ssize_t)
    cdef _measure(self, Entry entry)

    @cython.locals(batch=Batch, key=tuple, size=Py_ssize_t)
    cdef _add(self, Entry entry)


cdef bint _is_int32(flag) except -1

@cython.locals(entry=Entry, message=Message, number=Py_ssize_t, messages=list, texts=list, behind=list, ids=list)
cpdef tuple give_keys(entries, list keys)

@cython.locals(entry=Entry, number=Py_ssize_t)
cpdef tell(entries, list results)
