"""Plain records of the revive topic, parked for their time in the timer topic, without an object per property.

Owns        their properties, their keys; the record of a check point.
Must not know   requests, how a run is stored, which acknowledgements are plain (plain_ack.pyx).

Kernel: Cython without a Python form. pop/revive_log.py and delay/parking.py are the truth. A record is plain if they
would park it, and if the names that it holds are taken by JSON, keys and properties as they are.
tests/parity/test_plain_acks.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from rocketlake.broker.delay.plain_time cimport NAME_BYTES_MAX, PlainTimes
from rocketlake.codec.property_scan cimport DELIVER_MS, VALUE_END, ParkMarks, PropertyMarks, Slice
from rocketlake.codec.record_layout cimport TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RecordRun, RunTopic, put_number
from rocketlake.model.topic import TIMER_TOPIC

__all__ = ["ReviveRecords"]

cdef enum:
    DIFFERENCES_MAX = 64  # of a plain check point
    FIGURE_MAX = 999_999_999_999_999_999  # so that a sum of two is a figure as well
    POINT_BYTES_MAX = KEY_BYTES_MAX + 200 + (DIFFERENCES_MAX + 4) * NUMBER_BYTES
    TEXT_BYTES_MAX = KEY_BYTES_MAX + TOPIC_BYTES_MAX_V1 + 4 * NUMBER_BYTES + 80  # of properties

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(str text, Py_ssize_t* size) except NULL

cdef RunTopic _timer_topic = RunTopic(TIMER_TOPIC)


cdef class ReviveRecords:
    """Adds records to runs, all of one time: that of the last `begin`."""

    def __init__(self, PlainTimes times, str revive_topic):
        """ValueError for a topic that no run takes."""
        self._times = times
        self._revive_topic = RunTopic(revive_topic)

    def check_points(self, points, bytes host):
        """The run of these check points, of which nothing is acknowledged; None if not all are plain.

        `points`: (check point, revive queue, time of delivery in ms). `host`: of this broker, encoded.
        """
        cdef RecordRun run = RecordRun(host, host)
        self.begin()
        for point, revive_queue, deliver_ms in points:
            if not self._add_check_point(run, point, revive_queue, deliver_ms):
                return None
        return run

    cdef bint _add_check_point(self, RecordRun run, check_point, int64_t revive_queue, deliver_ms) except -1:
        cdef uint8_t text[POINT_BYTES_MAX]
        cdef uint8_t* at
        cdef Point point
        cdef int64_t difference, figure, due_ms
        cdef int64_t invisible_ms = check_point.invisible_ms
        cdef str broker_name = check_point.broker_name, group = check_point.group, topic = check_point.topic
        cdef list differences = check_point.differences
        cdef bytes body
        point.queue_id = check_point.queue_id
        point.start_offset = check_point.start_offset
        point.pop_ms = check_point.pop_ms
        for figure in (point.queue_id, point.start_offset, invisible_ms, point.pop_ms, revive_queue):
            if figure < 0 or figure > FIGURE_MAX:
                return False
        if not (_as_name(broker_name, &point.broker_name, NAME_BYTES_MAX) and _as_name(group, &point.group, NAME_BYTES_MAX)
                and _as_name(topic, &point.topic, TOPIC_BYTES_MAX_V1) and 0 < len(differences) <= DIFFERENCES_MAX
                and not check_point.suspend):
            return False
        due_ms = deliver_ms
        if not self.is_plain(due_ms):
            return False
        at = put_name(_put(text, b'{"bm":0,"bn":"'), point.broker_name, c'"')
        at = put_name(_put(at, b',"c":"'), point.group, c'"')
        at = _put(at, b',"d":[')
        for difference in differences:
            at = put_figure(at, difference, c",")
        at = put_figure(_put(at - 1, b'],"it":'), invisible_ms, c",")
        at = put_figure(_put(at, b'"n":'), len(differences), c",")
        at = put_figure(_put(at, b'"pt":'), point.pop_ms, c",")
        at = put_figure(_put(at, b'"q":'), point.queue_id, c",")
        at = put_figure(_put(at, b'"reviveTime":'), point.pop_ms + invisible_ms, c",")
        at = put_figure(_put(at, b'"ro":0,"so":'), point.start_offset, c",")
        at = put_name(_put(at, b'"sp":false,"t":"'), point.topic, c'"')
        at[0] = c"}"
        body = PyBytes_FromStringAndSize(<const char*>text, at + 1 - text)
        self.add(run, &point, b"ck", due_ms, point.start_offset, revive_queue, body)
        return True

    cdef int begin(self) except -1:
        return self._times.begin()

    cdef bint is_plain(self, int64_t deliver_ms) except -1:
        """True if a record for this time is parked. Ask it before `add`."""
        cdef uint8_t text[NUMBER_BYTES]
        cdef ParkMarks park
        cdef Slice no_key
        if deliver_ms < 0:
            return False
        park.time.at = text
        park.time.size = put_number(text, deliver_ms)
        park.time_kind = DELIVER_MS
        no_key.at = text
        no_key.size = 0
        return self._times.is_plain(&park, no_key)

    cdef int add(self, RecordRun run, Point* point, bytes tag, int64_t deliver_ms, int64_t number,
                 int64_t revive_queue, bytes body) except -1:
        """Add a record. `number`: the offset in its key."""
        cdef uint8_t text[TEXT_BYTES_MAX]
        cdef uint8_t* at
        cdef uint8_t* key
        cdef PropertyMarks marks
        cdef Py_ssize_t key_size, text_at
        at = _put(_put(text, b"TAGS\x01"), tag)
        at = put_figure(_put(at, b"\x02TIMER_DELIVER_MS\x01"), deliver_ms, VALUE_END)
        key = _put(at, b"UNIQ_KEY\x01")
        at = _put_key(key, point, number)
        at = _put(at, b"ck" if tag == b"ck" else b"ack")
        key_size = at - key
        at[0] = VALUE_END
        at = self._times.put_target(at + 1, self._revive_topic, revive_queue)
        text_at = run.add_text(text, at - text)
        marks.tags.at = run.text + text_at + 5
        marks.tags.size = PyBytes_GET_SIZE(tag)
        marks.unique_key.at = run.text + text_at + (key - text)
        marks.unique_key.size = key_size
        marks.keys.size = marks.wait.size = marks.sequence.size = 0
        marks.is_special = False
        run.keep(body)
        return run.add(run.add_topic(_timer_topic), 0, 0, 0, 0, self._times._now,
                       <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), text_at, at - text, &marks)


cdef uint8_t* _put_key(uint8_t* at, Point* point, int64_t number) noexcept:
    at = put_name(at, point.topic, c"@")
    at = put_figure(at, point.queue_id, c"@")
    at = put_figure(at, number, c"@")
    at = put_name(at, point.group, c"@")
    at = put_figure(at, point.pop_ms, c"@")
    return put_name(at, point.broker_name, c"@")


cdef inline uint8_t* _put(uint8_t* at, bytes part) noexcept:
    memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    return at + PyBytes_GET_SIZE(part)


cdef bint _as_name(str text, Slice* name, Py_ssize_t most) except -1:
    cdef Py_ssize_t size
    name.at = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
    name.size = size
    return is_name(name[0], most)


cdef uint8_t* put_name(uint8_t* at, Slice name, uint8_t behind) noexcept:
    memcpy(at, name.at, name.size)
    at[name.size] = behind
    return at + name.size + 1


cdef uint8_t* put_figure(uint8_t* at, int64_t figure, uint8_t behind) noexcept:
    if figure < 0:
        at[0] = c"-"
        at += 1
        figure = -figure
    at += put_number(at, figure)
    at[0] = behind
    return at + 1


cdef bint is_name(Slice name, Py_ssize_t most) noexcept:
    """True for a name that JSON, a key and properties take as it is."""
    cdef Py_ssize_t position
    for position in range(name.size):
        if not 0x20 < name.at[position] < 0x7F or name.at[position] == c'"' or name.at[position] == c"\\":
            return False
    return 0 < name.size <= most
