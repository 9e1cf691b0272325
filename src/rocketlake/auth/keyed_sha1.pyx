"""HMAC-SHA1 of many texts under one key.

Owns        the two states of SHA-1 behind the key, from which each text goes on.
Must not know   what is signed.

Kernel: Cython without a Python form. Python's hmac says what is right; tests/parity/test_keyed_sha1.py compares.

hashlib copies its state twice for each digest, at some 0.1 us each, and there are two digests. So the three functions of
SHA-1 are asked for in the libcrypto that hashlib has loaded. A Python without one that shows them (linked in, or a
version that has them no more) takes hashlib, which is slower and otherwise the same.
"""

import ctypes
import hashlib

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uintptr_t
from libc.string cimport memcpy

__all__ = ["KeyedSha1"]

cdef enum:
    BLOCK_BYTES = 64

ctypedef int (*Init)(void* state) noexcept
ctypedef int (*Update)(void* state, const void* data, size_t size) noexcept
ctypedef int (*Final)(uint8_t* digest, void* state) noexcept

cdef Init _init = NULL
cdef Update _update = NULL
cdef Final _final = NULL


cdef class KeyedSha1:
    """The signatures under one key."""

    def __init__(self, bytes key, *, bint with_libcrypto=True):
        cdef bytes inner, outer
        if len(key) > BLOCK_BYTES:
            key = hashlib.sha1(key).digest()
        key = key.ljust(BLOCK_BYTES, b"\0")
        inner = bytes([byte ^ 0x36 for byte in key])
        outer = bytes([byte ^ 0x5C for byte in key])
        if with_libcrypto and _final != NULL:
            _begin(self._inner_state, inner)
            _begin(self._outer_state, outer)
        else:
            self._inner = hashlib.sha1(inner)
            self._outer = hashlib.sha1(outer)

    def digest(self, bytes text, bytes rest=b""):
        """The 20 bytes of HMAC-SHA1 of both pieces."""
        cdef uint8_t digest[DIGEST_BYTES]
        self.sign(
            <const uint8_t*>PyBytes_AS_STRING(text),
            PyBytes_GET_SIZE(text),
            <const uint8_t*>PyBytes_AS_STRING(rest),
            PyBytes_GET_SIZE(rest),
            digest,
        )
        return PyBytes_FromStringAndSize(<char*>digest, DIGEST_BYTES)

    cdef int sign(
        self, const uint8_t* text, Py_ssize_t size, const uint8_t* rest, Py_ssize_t rest_size, uint8_t* digest
    ) except -1:
        """Write the 20 bytes for a text that lies in two pieces to `digest`."""
        cdef uint8_t state[STATE_BYTES]
        if self._inner is None:
            memcpy(state, self._inner_state, STATE_BYTES)
            _update(state, text, size)
            _update(state, rest, rest_size)
            _final(digest, state)
            memcpy(state, self._outer_state, STATE_BYTES)
            _update(state, digest, DIGEST_BYTES)
            _final(digest, state)
            return 0
        inner = self._inner.copy()
        inner.update(PyBytes_FromStringAndSize(<const char*>text, size))
        inner.update(PyBytes_FromStringAndSize(<const char*>rest, rest_size))
        outer = self._outer.copy()
        outer.update(inner.digest())
        memcpy(digest, PyBytes_AS_STRING(outer.digest()), DIGEST_BYTES)
        return 0


cdef void _begin(uint8_t* state, bytes block) noexcept:
    _init(state)
    _update(state, PyBytes_AS_STRING(block), BLOCK_BYTES)


cdef bint _find() except -1:
    """Take libcrypto's functions; nothing is taken if one is missing, or if they do not give what hashlib gives."""
    global _init, _update, _final
    cdef uintptr_t found[3]
    cdef int number
    cdef uint8_t state[STATE_BYTES]
    cdef uint8_t digest[DIGEST_BYTES]
    cdef bytes text = b"abc" * 50
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)
        for number, name in enumerate(("SHA1_Init", "SHA1_Update", "SHA1_Final")):
            found[number] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except (ImportError, AttributeError, OSError):
        return False
    (<Init>found[0])(state)
    (<Update>found[1])(state, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    (<Final>found[2])(digest, state)
    if PyBytes_FromStringAndSize(<char*>digest, DIGEST_BYTES) != hashlib.sha1(text).digest():
        return False
    _init, _update, _final = <Init>found[0], <Update>found[1], <Final>found[2]
    return True


_find()
