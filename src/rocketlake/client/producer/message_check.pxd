# C types of message_check.py.
import cython

from rocketlake.model.message cimport Message


cdef class MessageCheck:
    cdef object _config
    cdef Py_ssize_t _bytes_max
    cdef set _good_topics

    @cython.locals(own=Message)
    cpdef check(self, message)


@cython.locals(own=Message, properties=dict)
cpdef as_now(message)
