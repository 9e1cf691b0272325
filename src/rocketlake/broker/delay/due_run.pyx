"""The copies of waiting messages that are due, made together, without an object per message.

Owns        which waiting messages are plain, the record of each copy.
Must not know   when a message is due, the wheel, how a run is stored.

Kernel: Cython without a Python form. The ordinary path (delivery.py, timer.py) is the truth. A waiting message is plain
if that path would store a copy of it now: it lies in memory, has a regular property text with a unique key and a time
that is over, goes to a topic and a queue that consumers read, and nothing takes it back. Every other one ends the run.
tests/parity/test_due_runs.py feeds both paths the same messages.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from rocketlake.codec.property_scan cimport VALUE_END, PropertyMarks, Slice, pair_end, read_digits, read_marks
from rocketlake.codec.record_layout cimport BORN_HOST_AT
from rocketlake.codec.record_run cimport RecordRun, RunTopic
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.log_window cimport LogRecord, LogWindow

__all__ = ["DueRunCutter", "DueTopic"]

cdef enum:
    TRANSACTION_BITS = 12
    INNER_BATCH_BITS = 192
    DUE = 1
    ROLL = 2
    ROW_WORDS = 3

cdef bytes _timer_topic = TIMER_TOPIC.encode("ascii")


cdef class DueTopic:
    """A topic that takes copies in its queues below `read_queues`."""

    cdef RunTopic run_topic
    cdef int read_queues

    def __init__(self, str name, int read_queues):
        """ValueError for a name that no run takes."""
        self.run_topic = RunTopic(name)
        self.read_queues = read_queues


cdef DueTopic _roll_topic = DueTopic(TIMER_TOPIC, 1)


cdef class DueRunCutter:
    """Makes runs of copies."""

    cdef LogWindow _log
    cdef object _find
    cdef dict _topics
    cdef DueTopic _last
    cdef int64_t _tick_ms

    def __init__(self, LogWindow log, find, int tick_ms):
        """`find(name)`: the DueTopic of this name, None if its copies are not plain; asked once until `forget`."""
        self._log = log
        self._find = find
        self._tick_ms = tick_ms
        self._topics = {}

    def forget(self):
        """A topic was made, changed or deleted."""
        self._topics.clear()
        self._last = None

    def cut(self, const int64_t[::1] units, int64_t above, frozenset taken_back, Py_ssize_t most, Py_ssize_t bytes_most):
        """(run, its messages, {topic: (messages, bytes)}) of the next units, which stand at the end of the rows
        (UnitStack), the next one last; None if the next one is not plain. `above`: those below this log offset are not
        plain. `taken_back`: unique keys, as bytes, that are not plain."""
        cdef RecordRun run = None
        cdef Py_ssize_t at = units.shape[0] // ROW_WORDS
        cdef Py_ssize_t size, count = 0
        cdef int64_t total = 0, place, due_ms, size_and_bits
        cdef dict counts = {}
        cdef LogRecord record
        cdef object kept = None
        cdef str name, counted = None
        try:
            while at > 0 and (run is None or (run.count < most and run.size < bytes_most)):
                place = units[ROW_WORDS * at - 3]
                due_ms = units[ROW_WORDS * at - 2]
                size_and_bits = units[ROW_WORDS * at - 1]
                if place < above or not self._log.find(place, &record):
                    break
                if run is None:
                    run = RecordRun(_bytes(record.born_host), _bytes(record.store_host))
                if self._log.view is not kept:
                    kept = self._log.view
                    run.keep(kept)
                size = run.size
                name = self._take(run, &record, size_and_bits >> 8, size_and_bits & 255, due_ms, taken_back)
                if name is None:
                    break
                if name is not counted:
                    _note(counts, counted, count, total)
                    counted, count, total = name, 0, 0
                count += 1
                total += run.size - size
                at -= 1
            _note(counts, counted, count, total)
        finally:
            self._log.end()
        return None if run is None or run.count == 0 else (run, run.count, counts)

    cdef str _take(
        self, RecordRun run, LogRecord* record, int64_t size, int bits, int64_t due_ms, frozenset taken_back
    ):
        """Take one record into the run; the name of its topic, None if it is not plain."""
        cdef PropertyMarks marks
        cdef Slice topic_name, queue_text, out_text
        cdef int64_t queue_id, out_ms
        cdef Py_ssize_t text_at
        cdef DueTopic topic
        cdef const uint8_t* text = record.properties.at
        if bits != DUE and bits != DUE | ROLL:
            return None
        if text + record.properties.size - (record.born_host.at - BORN_HOST_AT) != size:
            return None
        if not _is(record.topic, _timer_topic) or record.sys_flag & (TRANSACTION_BITS | INNER_BATCH_BITS):
            return None
        if not _is(record.store_host, run._store_host):
            return None
        if record.properties.size == 0 or text[record.properties.size - 1] != VALUE_END:
            return None
        if not read_marks(text, record.properties.size, True, &marks, NULL) or marks.unique_key.size == 0:
            return None
        if not _find_target(text, record.properties.size, &topic_name, &queue_text, &out_text):
            return None
        if not (read_digits(out_text, &out_ms) and read_digits(queue_text, &queue_id)):
            return None
        if bits & ROLL:
            topic = _roll_topic
            queue_id = 0
        else:
            if out_ms - out_ms % self._tick_ms > due_ms:
                return None
            topic = self._topic(topic_name)
            if topic is None or queue_id >= topic.read_queues:
                return None
            if taken_back and _bytes(marks.unique_key) in taken_back:
                return None
        run.set_born_host(record.born_host.at, record.born_host.size)
        text_at = run.add_text(text, record.properties.size)
        run.add(run.add_topic(topic.run_topic), <int32_t>queue_id, record.flag, record.sys_flag,
                record.reconsume_times, record.born_ms, record.body.at, record.body.size, text_at,
                record.properties.size, &marks)
        return topic.run_topic.name

    cdef DueTopic _topic(self, Slice name):
        cdef bytes encoded
        if self._last is not None and _is(name, self._last.run_topic.encoded):
            return self._last
        encoded = _bytes(name)
        if encoded not in self._topics:
            self._topics[encoded] = self._find(encoded.decode("ascii"))
        found = self._topics[encoded]
        if found is not None:
            self._last = found
        return found


cdef int _note(dict counts, str name, Py_ssize_t count, int64_t size) except -1:
    if count:
        messages, total = counts.get(name, (0, 0))
        counts[name] = messages + count, total + size
    return 0


cdef bint _find_target(
    const uint8_t* text, Py_ssize_t size, Slice* topic, Slice* queue_id, Slice* out_ms
) noexcept:
    """Find REAL_TOPIC, REAL_QID and TIMER_OUT_MS in a regular property text; False if one is missing, or if the message
    takes another one back."""
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + size
    cdef const uint8_t* middle
    cdef const uint8_t* stop
    cdef Py_ssize_t name_size
    cdef int seen = 0
    while at < end:
        stop = pair_end(at, end, &middle)
        name_size = middle - at
        if name_size == 8 and memcmp(at, b"REAL_QID", 8) == 0:
            queue_id.at, queue_id.size = middle + 1, stop - middle - 1
            seen |= 1
        elif name_size == 10 and memcmp(at, b"REAL_TOPIC", 10) == 0:
            topic.at, topic.size = middle + 1, stop - middle - 1
            seen |= 2
        elif name_size == 12 and memcmp(at, b"TIMER_OUT_MS", 12) == 0:
            out_ms.at, out_ms.size = middle + 1, stop - middle - 1
            seen |= 4
        elif name_size == 17 and memcmp(at, b"TIMER_DEL_UNIQKEY", 17) == 0:
            return False
        at = stop + 1
    return seen == 7


cdef bytes _bytes(Slice text):
    return PyBytes_FromStringAndSize(<const char*>text.at, text.size)


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
