# C types of java_compat.py. Unsigned throughout: the hash wraps around as Java's int does.
import cython

@cython.locals(
    characters=str, character=cython.Py_UCS4, unit=cython.uint, value=cython.uint, mask=cython.uint,
    sign=cython.longlong,
)
cpdef string_hash(text)
