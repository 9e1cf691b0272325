# C types of keyed_sha1.pyx, for the kernel that checks signatures.
from libc.stdint cimport uint8_t

cdef enum:
    DIGEST_BYTES = 20
    STATE_BYTES = 256  # libcrypto's SHA_CTX has 96


cdef class KeyedSha1:
    cdef object _inner
    cdef object _outer
    cdef uint8_t _inner_state[STATE_BYTES]
    cdef uint8_t _outer_state[STATE_BYTES]

    cdef int sign(
        self, const uint8_t* text, Py_ssize_t size, const uint8_t* rest, Py_ssize_t rest_size, uint8_t* digest
    ) except -1
