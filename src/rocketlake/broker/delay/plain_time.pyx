"""Plain messages for a time: sends that ask for a delivery later, parked in the timer topic without an object each.

Owns        which times are plain, the properties that a parked message gets, its recall handle.
Must not know   requests, records, the timer wheel.

Kernel: Cython without a Python form, a part of hot/plain_send.pyx. parking.py and sends/answer.py are the truth. A time
is plain if they would park the message: it lies ahead, and not too far. tests/parity/test_plain_sends.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcpy

from rocketlake.codec.property_scan cimport DELAY_SECONDS, DELIVER_MS, VALUE_END, ParkMarks, Slice, read_digits
from rocketlake.codec.record_run cimport RunTopic, put_number

__all__ = ["PlainTimes"]

cdef const uint8_t* _digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef class PlainTimes:
    """Parks messages for a cutter, one at a time: `is_plain`, then what is put."""

    def __init__(self, now_ms, int64_t tick_ms, int64_t delay_ms_max, bytes broker_name):
        """`now_ms()`: the time; all messages of a cut are parked at one. ValueError for a name that is too long."""
        if PyBytes_GET_SIZE(broker_name) > NAME_BYTES_MAX:
            raise ValueError(f"a broker's name of {len(broker_name)} bytes")
        self._now_ms = now_ms
        self._tick_ms = tick_ms
        self._delay_ms_max = delay_ms_max
        self._broker_name = broker_name

    cdef int begin(self) except -1:
        """A cut begins."""
        self._now = -1
        return 0

    cdef bint is_plain(self, ParkMarks* asked, Slice unique_key) except -1:
        """True if a message that asks for this time, with this unique key, is plain."""
        cdef int64_t number
        if not read_digits(asked.time, &number) or memchr(unique_key.at, c" ", unique_key.size) != NULL:
            return False
        if self._now < 0:
            self._now = self._now_ms()
        if asked.time_kind == DELIVER_MS:
            number -= self._now
        elif asked.time_kind == DELAY_SECONDS:
            if number > self._delay_ms_max:
                return False
            number *= 1000
        if not 0 < number <= self._delay_ms_max:
            return False
        number += self._now - 1
        self._out_ms = number - number % self._tick_ms
        return True

    cdef uint8_t* put_target(self, uint8_t* at, RunTopic topic, int64_t queue_id) noexcept:
        """Put the properties that the parked message gets; returns where they end."""
        memcpy(at, b"TIMER_OUT_MS\x01", 13)
        at += 13
        at += put_number(at, self._out_ms)
        at[0] = VALUE_END
        return put_real_target(at + 1, topic, queue_id)

    cdef uint8_t* put_handle(self, uint8_t* at, RunTopic topic, Slice unique_key) noexcept:
        """Put the handle by which the message may be taken back, at most HANDLE_BYTES_MAX; returns where it ends."""
        cdef uint8_t raw[32 + TOPIC_BYTES_MAX_V1 + 2 * NAME_BYTES_MAX]
        cdef uint8_t* end = raw
        memcpy(end, b"v1 ", 3)
        end = _put(end + 3, topic.encoded)
        end[0] = c" "
        end = _put(end + 1, self._broker_name)
        end[0] = c" "
        end += 1
        end += put_number(end, self._out_ms + 1)
        end[0] = c" "
        memcpy(end + 1, unique_key.at, unique_key.size)
        return _put_base64(at, raw, end + 1 + unique_key.size - raw)


cdef uint8_t* put_real_target(uint8_t* at, RunTopic topic, int64_t queue_id) noexcept:
    """Put the properties that say what a parked message is meant for; returns where they end."""
    memcpy(at, b"REAL_TOPIC\x01", 11)
    at = _put(at + 11, topic.encoded)
    memcpy(at, b"\x02REAL_QID\x01", 10)
    at += 10
    at += put_number(at, queue_id)
    at[0] = VALUE_END
    return at + 1


cdef inline uint8_t* _put(uint8_t* at, bytes part) noexcept:
    memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    return at + PyBytes_GET_SIZE(part)


cdef uint8_t* _put_base64(uint8_t* at, const uint8_t* raw, Py_ssize_t size) noexcept:
    """In the alphabet of URLs, padded."""
    cdef Py_ssize_t place = 0
    cdef uint32_t bits
    while place < size:
        bits = <uint32_t>raw[place] << 16
        if place + 1 < size:
            bits |= <uint32_t>raw[place + 1] << 8
        if place + 2 < size:
            bits |= raw[place + 2]
        at[0] = _digits[bits >> 18]
        at[1] = _digits[(bits >> 12) & 63]
        at[2] = _digits[(bits >> 6) & 63] if place + 1 < size else c"="
        at[3] = _digits[bits & 63] if place + 2 < size else c"="
        at += 4
        place += 3
    return at
