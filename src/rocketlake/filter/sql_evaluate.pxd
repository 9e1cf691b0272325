# C types of sql_evaluate.py. An outcome is 0 to 3; -1 is an exception.
import cython
from rocketlake.filter.sql_numbers cimport compare_doubles, read_double, read_integer

cdef int _FALSE, _TRUE, _UNKNOWN, _FAILED, _BELOW, _SAME, _ABOVE

cdef class Test:
    cpdef int decide(self, dict properties) except -1

cdef class _Constant(Test):
    cdef int outcome

cdef class _Present(Test):
    cdef str name
    cdef int when_absent, when_present

cdef class _EqualsText(Test):
    cdef str name, text

    @cython.locals(value=str)
    cpdef int decide(self, dict properties) except -1

cdef class _IsTrueText(Test):
    cdef str name

    @cython.locals(value=str)
    cpdef int decide(self, dict properties) except -1

cdef class _In(Test):
    cdef str name
    cdef frozenset texts

cdef class _CompareInteger(Test):
    cdef str name
    cdef int accepted
    cdef long long number
    cdef object number_max

    @cython.locals(value=str, number=cython.longlong, place=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _CompareDouble(Test):
    cdef str name
    cdef int accepted
    cdef double number

    @cython.locals(value=str, number=cython.double, place=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _ComparePair(Test):
    cdef str left, right
    cdef int accepted

    @cython.locals(order=cython.int, place=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _SameText(Test):
    cdef str left, right

cdef class _TextMatch(Test):
    cdef str name, search
    cdef int how, otherwise, when_found

    @cython.locals(value=str, found=cython.bint)
    cpdef int decide(self, dict properties) except -1

cdef class _Not(Test):
    cdef Test inner

    @cython.locals(outcome=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _Join(Test):
    cdef list inner
    cdef int deciding, otherwise

    @cython.locals(outcome=cython.int, outcome_of_all=cython.int, test=Test)
    cpdef int decide(self, dict properties) except -1

cdef class _Equal(Test):
    cdef Test left, right

    @cython.locals(left=cython.int, right=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _Known(Test):
    cdef Test inner
    cdef int when_known, when_unknown

    @cython.locals(outcome=cython.int)
    cpdef int decide(self, dict properties) except -1

cdef class _BooleanIsText(Test):
    cdef Test left
    cdef str name

    @cython.locals(left=cython.int)
    cpdef int decide(self, dict properties) except -1
