# C types of layout.py. The hash is the hot part; numbers of a header and of entries stay Python objects.
import cython

@cython.locals(value=cython.longlong, limit=cython.longlong)
cpdef key_hash(text)

cpdef seconds_since(long long begin_ms, long long store_ms)
