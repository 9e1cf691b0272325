# C types of sql_record.py.
import cython
from rocketlake.codec.property_text cimport decode, find
from rocketlake.codec.record_parts cimport properties_block
from rocketlake.filter.sql_evaluate cimport Test

cdef int _TRUE

cdef class RecordTest:
    cdef list _names
    cdef Test _test

    @cython.locals(block=bytes, properties=dict, wanted=bytes, name=str)
    cpdef bint matches(self, record) except -1
