"""Messages of the timer topic, read for the wheel together, without an object per message.

Owns        which of them are plain, what the wheel gets of each.
Must not know   the bytes of the wheel and of its log (unit_run.pyx), when messages enter.

Kernel: Cython without a Python form. The ordinary path (Timer._waiting in timer.py) is the truth. A message is plain if
that path would put it into the wheel, or pass it by because the master before has delivered it: it lies in memory, has
a time, and was not stored anew since. Every other one ends the run. tests/parity/test_entry_runs.py feeds both paths the same messages.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from rocketlake.base.java.java_hash cimport java_hash
from rocketlake.codec.property_scan cimport Slice, pair_end, read_digits
from rocketlake.codec.record_layout cimport BORN_HOST_AT, ENTRY_SIZE, load64
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.log_window cimport LogRecord, LogWindow
from rocketlake.store.timer.unit_run cimport UnitRun

__all__ = ["EntryCutter"]

cdef enum:
    DUE = 1
    ROLL = 2
    DELETE = 4

cdef bytes _timer_topic = TIMER_TOPIC.encode("ascii")

cdef struct Asked:
    # What the properties of a message ask for.
    int64_t out_ms
    int32_t topic_hash
    bint is_delete


cdef class EntryCutter:
    """Reads messages for the wheel."""

    cdef LogWindow _log
    cdef int64_t _tick_ms
    cdef int64_t _roll_ms

    def __init__(self, LogWindow log, int64_t tick_ms, int64_t roll_ms):
        """`tick_ms`: the length of a tick; a message that waits for `roll_ms` or longer is stored anew meanwhile."""
        self._log = log
        self._tick_ms = tick_ms
        self._roll_ms = roll_ms

    def cut(self, const uint8_t[::1] entries, int64_t queue_offset, int64_t now_ms, int64_t first_ms, tuple delivered,
            tuple anew):
        """(run, entries taken) from packed entries of the timer topic, the first one of which has this queue offset.

        `first_ms`: no message enters an earlier tick. `delivered`: (queue offset, time), messages before both are
        passed by. `anew`: (log offset, store time, wait), messages before both that wait for so long are not plain."""
        cdef UnitRun run = UnitRun.__new__(UnitRun)
        cdef Py_ssize_t number, count = entries.shape[0] // ENTRY_SIZE
        cdef LogRecord record
        cdef Asked asked
        cdef int64_t place, store_ms, delivered_before, delivered_ms, anew_before, anew_stored_ms, anew_wait_ms
        delivered_before, delivered_ms = delivered
        anew_before, anew_stored_ms, anew_wait_ms = anew
        try:
            for number in range(count):
                place = <int64_t>load64(&entries[number * ENTRY_SIZE])
                if not self._log.find(place, &record) or record.queue_offset != queue_offset + number:
                    return run, number
                if not _is(record.topic, _timer_topic) or not _read(record.properties, &asked):
                    return run, number
                if queue_offset + number < delivered_before and asked.out_ms < delivered_ms:
                    continue
                store_ms = <int64_t>load64(record.store_host.at - 8)
                if place < anew_before and store_ms <= anew_stored_ms and asked.out_ms - store_ms >= anew_wait_ms:
                    return run, number
                if not self._add(run, place, &record, &asked, now_ms, first_ms):
                    return run, number
        finally:
            self._log.end()
        return run, count

    cdef bint _add(
        self, UnitRun run, int64_t place, LogRecord* record, Asked* asked, int64_t now_ms, int64_t first_ms
    ) except -1:
        cdef int64_t due_ms = asked.out_ms - asked.out_ms % self._tick_ms
        cdef int64_t rest
        cdef int32_t bits = DELETE if asked.is_delete else DUE
        if due_ms - now_ms >= self._roll_ms:
            bits |= ROLL
            rest = due_ms - now_ms - self._roll_ms
            due_ms = now_ms + (self._roll_ms // 2 if rest < self._roll_ms // 3 else self._roll_ms)
            due_ms -= due_ms % self._tick_ms
        due_ms = max(due_ms, first_ms)
        if not INT32_MIN <= due_ms - now_ms <= INT32_MAX:
            return False
        run.add(due_ms, bits, place, record.properties.at + record.properties.size - record.born_host.at + BORN_HOST_AT,
                asked.topic_hash)
        return True


cdef bint _read(Slice text, Asked* asked) noexcept:
    """Read the properties of a message; False if they name no time, or are odd."""
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.at + text.size
    cdef const uint8_t* middle
    cdef const uint8_t* stop
    cdef Py_ssize_t name_size, position
    cdef Slice value
    cdef uint8_t bits = 0
    asked.out_ms = -1
    asked.topic_hash = 0
    asked.is_delete = False
    while at < end:
        stop = pair_end(at, end, &middle)
        if middle != NULL and middle + 1 < stop:
            name_size = middle - at
            if name_size == 10 and memcmp(at, b"REAL_TOPIC", 10) == 0:
                for position in range(1, stop - middle):
                    bits |= middle[position]
                asked.topic_hash = <int32_t>java_hash(0, middle + 1, stop - middle - 1)
            elif name_size == 12 and memcmp(at, b"TIMER_OUT_MS", 12) == 0:
                value.at, value.size = middle + 1, stop - middle - 1
                if not read_digits(value, &asked.out_ms):
                    return False
            elif name_size == 17 and memcmp(at, b"TIMER_DEL_UNIQKEY", 17) == 0:
                asked.is_delete = True
        at = stop + 1
    return asked.out_ms >= 0 and bits < 0x80


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
