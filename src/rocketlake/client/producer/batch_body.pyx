"""The body of a batch, written in one pass, without an object for any of its parts.

Owns        the bytes of the entries of a batch that a client sends.
Must not know   which messages share a batch, how they got their keys.

Kernel: Cython without a Python form. `record_batch.batch_body` is the truth; tests/parity/test_batch_body.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from rocketlake.codec.record_layout cimport BATCH_ENTRY_BYTES_MIN, PROPERTIES_BYTES_MAX, store32
from rocketlake.model.message cimport Message

from rocketlake.codec.record_layout import RecordError

__all__ = ["batch_body"]

cdef bytes _NAME = b"UNIQ_KEY\x01"
cdef enum:
    NAME_BYTES = 9


def batch_body(list messages not None, list texts not None, keys):
    """As `record_batch.batch_body`; the body of each message is `bytes`."""
    cdef list own = list(keys)
    cdef Py_ssize_t count = len(messages), number, total = 0, body_bytes, text_bytes, key_bytes
    cdef Message message
    cdef bytes body, text, made
    cdef const char* key
    cdef uint8_t* at
    if len(texts) != count or len(own) != count:
        raise ValueError(f"{count} messages, {len(texts)} texts, {len(own)} keys")
    for number in range(count):
        message = messages[number]
        body, text = message.body, texts[number]
        if body is None or text is None or not isinstance(message.flag, int):
            raise TypeError(f"message {number}: body and text are bytes, the flag is a number")
        text_bytes = len(text) + _pair_bytes(own[number])
        if text_bytes > PROPERTIES_BYTES_MAX:
            raise RecordError(f"properties of {text_bytes} bytes do not fit a batch entry")
        total += BATCH_ENTRY_BYTES_MIN + len(body) + text_bytes
    made = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    # Between the two passes nothing of Python runs: the lists, and so the sizes, are those of the first one.
    for number in range(count):
        message = messages[number]
        body, text = message.body, texts[number]
        body_bytes, text_bytes = len(body), len(text) + _pair_bytes(own[number])
        store32(at, BATCH_ENTRY_BYTES_MIN + body_bytes + text_bytes)
        store32(at + 4, 0)
        store32(at + 8, 0)
        store32(at + 12, <int>message.flag)
        store32(at + 16, body_bytes)
        at += 20
        memcpy(at, PyBytes_AS_STRING(body), body_bytes)
        at += body_bytes
        at[0], at[1] = text_bytes >> 8, text_bytes & 0xFF
        memcpy(at + 2, PyBytes_AS_STRING(text), len(text))
        at += 2 + len(text)
        if own[number] is not None:
            key = PyUnicode_AsUTF8AndSize(own[number], &key_bytes)
            memcpy(at, PyBytes_AS_STRING(_NAME), NAME_BYTES)
            memcpy(at + NAME_BYTES, key, key_bytes)
            at[NAME_BYTES + key_bytes] = 2
            at += NAME_BYTES + key_bytes + 1
    return made


cdef Py_ssize_t _pair_bytes(key) except -1:
    cdef Py_ssize_t size
    if key is None:
        return 0
    PyUnicode_AsUTF8AndSize(key, &size)
    return NAME_BYTES + size + 1
