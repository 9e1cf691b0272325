# C types of property_text.py.
import cython

@cython.locals(pieces=list, text=str, pairs=cython.Py_ssize_t)
cpdef encode(properties)

@cython.locals(pieces=list, text=str)
cpdef encode_again(properties)

@cython.locals(text=str, pair=str, properties=dict, middle=cython.Py_ssize_t)
cpdef decode(data)

@cython.locals(block=bytes, wanted=bytes, start=cython.Py_ssize_t, begin=cython.Py_ssize_t, end=cython.Py_ssize_t, size=cython.Py_ssize_t)
cpdef find(data, name)
