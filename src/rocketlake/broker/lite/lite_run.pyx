"""Lite messages of the log, read for the table of light queues together, without an object per message.

Owns        which messages are plain, what each says of itself.
Must not know   the table (light_queues.py), when it is made.

Kernel: Cython without a Python form. The ordinary path (LiteMessages._read_one in lite_messages.py) is the truth. A
message is plain if it lies in memory and its light queue has an ASCII name. Every other one ends the run.
tests/parity/test_lite_runs.py feeds both paths the same messages.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from rocketlake.codec.property_scan cimport Slice, pair_end, read_digits
from rocketlake.codec.record_layout cimport ENTRY_SIZE, load64
from rocketlake.store.log_window cimport LogRecord, LogWindow

__all__ = ["LiteCutter"]

cdef struct Named:
    # Values of properties; without bytes: there is none.
    Slice lite
    Slice number
    Slice before


cdef class LiteCutter:
    """Reads messages for the table."""

    cdef LogWindow _log

    def __init__(self, LogWindow log):
        self._log = log

    def cut(self, const uint8_t[::1] entries, bytes parent):
        """(found, entries taken) from packed entries of a queue of `parent`: of each entry taken (lite topic, number,
        is there one before it, store time in ms), or None if it is no lite message of this topic."""
        cdef list found = []
        cdef Py_ssize_t number, count = entries.shape[0] // ENTRY_SIZE
        cdef LogRecord record
        cdef Named named
        cdef int64_t place, of_lite, store_ms
        try:
            for number in range(count):
                place = <int64_t>load64(&entries[number * ENTRY_SIZE])
                if not self._log.find(place, &record):
                    return found, number
                _read(record.properties, &named)
                if not _is_ascii(named.lite):
                    return found, number
                if not _is(record.topic, parent) or not named.lite.size or not read_digits(named.number, &of_lite):
                    found.append(None)
                    continue
                store_ms = <int64_t>load64(record.store_host.at - 8)
                found.append((PyUnicode_DecodeASCII(<const char*>named.lite.at, named.lite.size, NULL), of_lite,
                              named.before.size > 0, store_ms))
        finally:
            self._log.end()
        return found, count


cdef void _read(Slice text, Named* named) noexcept:
    """As property_text.decode: the last value of a name counts, one without bytes is none."""
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.at + text.size
    cdef const uint8_t* middle
    cdef const uint8_t* stop
    cdef Slice value
    named.lite.at = named.number.at = named.before.at = text.at
    named.lite.size = named.number.size = named.before.size = 0
    while at < end:
        stop = pair_end(at, end, &middle)
        if middle != NULL and middle + 1 < stop:
            value.at, value.size = middle + 1, stop - middle - 1
            if middle - at == 12 and memcmp(at, b"__LITE_TOPIC", 12) == 0:
                named.lite = value
            elif middle - at == 24 and memcmp(at, b"INNER_MULTI_QUEUE_OFFSET", 24) == 0:
                named.number = value
            elif middle - at == 16 and memcmp(at, b"__RL_LITE_BEFORE", 16) == 0:
                named.before = value
        at = stop + 1


cdef bint _is_ascii(Slice text) noexcept:
    cdef uint8_t bits = 0
    cdef Py_ssize_t position
    for position in range(text.size):
        bits |= text.at[position]
    return bits < 0x80


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
