# C slots of command.py. All are Python objects: what an attribute takes is not the compiled form's to say.

cdef class Command:
    cdef public object block
    cdef public object body
    cdef public object code
    cdef public object codec
    cdef public object fields
    cdef public object flag
    cdef public object language
    cdef public object opaque
    cdef public object remark
    cdef public object version
