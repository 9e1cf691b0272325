# C types of entry.py. Its numbers stay visible from Python.
import cython

cdef long long _WORDS
cdef bint _SWAPS

@cython.locals(numbers=cython.int[::1], at=cython.longlong, count=cython.longlong)
cpdef long long valid_count(data) except -1
