# C types of sql_numbers.py. Integers stay Python's: 19 digits may be more than 64 bits.
import cython

cdef int _LONG_DIGITS

@cython.locals(digits=str, is_negative=cython.bint)
cpdef object read_integer(str text, object number_max)

cpdef object read_double(str text)

cpdef int compare_doubles(double left, double right) except -2
