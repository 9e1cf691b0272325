"""Plain acknowledgements: those of single popped messages that stand in a row in a chunk, without an object per record.

Owns        which acknowledgements are plain, reading them, their records in the timer topic, their answers.
Must not know   queues and topics, how a run is stored, when an answer is due (ack_runs.py).

Kernel: Cython without a Python form. The ordinary path (processors/ack.py, pop/revive_log.py, delay/parking.py) is the
truth. An acknowledgement is plain if that path would note it for a later time: one that wants an answer, of a message
that its queue holds, by a regular handle whose time is not over. Headers are JSON: no binary header can hold the code.
tests/parity/test_plain_acks.py feeds both paths the same traffic.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.broker.delay.plain_time cimport NAME_BYTES_MAX, PlainTimes
from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, PREFIX_BYTES, Field, Frame, Head, find_frame, has_code, may_pass, put, put_prefix, read_header,
    read_number, same,
)
from rocketlake.codec.property_scan cimport DELIVER_MS, VALUE_END, ParkMarks, PropertyMarks, Slice
from rocketlake.codec.record_layout cimport TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RecordRun, RunTopic, put_number
from rocketlake.model.topic import TIMER_TOPIC

__all__ = ["PlainAckCutter", "PlainAcks"]

cdef enum:
    ACK_MESSAGE = 200051
    SEEN_ALL = 31  # of Ack.seen
    HANDLE_PARTS_MIN = 7
    HANDLE_PARTS_MAX = 8
    ACKS_MAX = 1024  # of a run
    NUMBER_BYTES = 20
    KEY_BYTES_MAX = TOPIC_BYTES_MAX_V1 + 2 * NAME_BYTES_MAX + 4 * NUMBER_BYTES
    TEXT_BYTES_MAX = KEY_BYTES_MAX + TOPIC_BYTES_MAX_V1 + 4 * NUMBER_BYTES + 80  # of properties, and of a body

cdef struct Ack:
    # The header fields of an acknowledgement; `seen` has a bit for each of those that must be there.
    int seen
    Slice group
    Slice topic
    Slice handle
    int64_t queue_id
    int64_t offset

cdef struct Handle:
    # See PopHandle.
    int64_t start_offset
    int64_t pop_ms
    int64_t invisible_ms
    int64_t revive_queue
    int64_t queue_id
    Slice broker_name

cdef RunTopic _timer_topic = RunTopic(TIMER_TOPIC)


cdef class PlainAcks:
    """The plain acknowledgements of one chunk.

    `run` holds their records; the rest of the chunk starts at `end`. `taken`: ((group, topic, queue id), when the
    message would come again) of each. `opaques`: those of their requests.
    """

    cdef readonly RecordRun run
    cdef readonly list taken
    cdef readonly list opaques
    cdef readonly Py_ssize_t end
    cdef tuple _answer

    def __len__(self):
        return len(self.opaques)

    @property
    def timer_count(self):
        """(topic, messages, bytes of their records, requests)."""
        return _timer_topic.name, self.run.count, self.run.size, self.run.count

    def answers(self):
        """The SUCCESS answers, whole frames back to back."""
        cdef bytes before = self._answer[0]
        cdef bytes behind = self._answer[1]
        cdef Py_ssize_t room = PREFIX_BYTES + PyBytes_GET_SIZE(before) + NUMBER_BYTES + PyBytes_GET_SIZE(behind)
        cdef bytes written = PyBytes_FromStringAndSize(NULL, len(self.opaques) * room)
        cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(written)
        cdef uint8_t* frame
        cdef uint8_t* at = start
        for opaque in self.opaques:
            frame = at
            at = put(at + PREFIX_BYTES, before)
            at += put_number(at, opaque)
            at = put(at, behind)
            put_prefix(frame, at - frame - PREFIX_BYTES, 0, 0)
        return written[:at - start]


cdef class PlainAckCutter:
    """Cuts plain acknowledgements out of chunks, for one state of the settings."""

    cdef object _bounds
    cdef PlainTimes _times
    cdef RunTopic _revive_topic
    cdef int _revive_queues
    cdef bytes _host
    cdef tuple _answer
    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max
    cdef dict _known
    cdef str _group
    cdef bytes _group_text
    cdef str _topic
    cdef bytes _topic_text

    def __init__(self, bounds, PlainTimes times, str revive_topic, int revive_queues, bytes host, tuple answer,
                 tuple limits):
        """`bounds(topic, queue id)`: (first, last) queue offset that may be acknowledged, None if the queue's
        acknowledgements are not plain. `host`: the encoded address of this broker. `answer`: the header of an answer,
        cut at its opaque. `limits`: bytes of a frame, of a header. ValueError for a topic that no run takes."""
        self._bounds = bounds
        self._times = times
        self._revive_topic = RunTopic(revive_topic)
        self._revive_queues = revive_queues
        self._host = host
        self._answer = answer
        self._frame_bytes_max, self._header_bytes_max = limits
        self._known = {}
        self._group = self._topic = ""
        self._group_text = self._topic_text = b""

    def cut(self, bytes chunk, Py_ssize_t position, int room):
        """The plain acknowledgements of `chunk` from `position` on, at most `room`; None if there are none."""
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* begin = start + position
        cdef const uint8_t* at = begin
        cdef const uint8_t* end = start + PyBytes_GET_SIZE(chunk)
        cdef PlainAcks acks = None
        cdef Frame frame
        self._known.clear()
        if room > ACKS_MAX:
            room = ACKS_MAX
        while room > 0 and find_frame(at, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            if not has_code(&frame, ACK_MESSAGE, ACK_MESSAGE):
                break
            if acks is None:
                acks = self._begin()
            if not self._take(acks, &frame):
                break
            at += frame.size
            room -= 1
        if at == begin:
            return None
        acks.end = at - start
        return acks

    cdef PlainAcks _begin(self):
        cdef PlainAcks acks = PlainAcks.__new__(PlainAcks)
        acks.run = RecordRun(self._host, self._host)
        acks.taken = []
        acks.opaques = []
        acks._answer = self._answer
        self._times.begin()
        return acks

    cdef bint _take(self, PlainAcks acks, Frame* frame) except -1:
        """Take one frame if it is a plain acknowledgement."""
        cdef Field found[FIELDS_MAX]
        cdef Head head
        cdef Ack ack
        cdef Handle handle
        cdef int number, count
        cdef int64_t first, last
        if frame.body_size:
            return False
        count = read_header(frame, &head, found, NULL)
        if count < 0 or head.code != ACK_MESSAGE or head.flag != 0:
            return False
        ack.seen = 0
        for number in range(count):
            if not _take_field(&ack, found[number].name, found[number].value):
                return False
        if ack.seen != SEEN_ALL or not _read_handle(ack.handle, &handle):
            return False
        if handle.queue_id != ack.queue_id or not 0 <= handle.revive_queue < self._revive_queues:
            return False
        if not (_is_name(ack.topic, TOPIC_BYTES_MAX_V1) and _is_name(ack.group, NAME_BYTES_MAX)
                and _is_name(handle.broker_name, NAME_BYTES_MAX)):
            return False
        key = self._key(&ack)
        bounds = self._known.get(key)
        if bounds is None:
            bounds = self._bounds(key[1], key[2])
            if bounds is None:
                return False
            self._known[key] = bounds
        first, last = bounds
        if not first <= ack.offset <= last or not self._add(acks.run, &ack, &handle):
            return False
        acks.taken.append((key, handle.pop_ms + handle.invisible_ms))
        acks.opaques.append(head.opaque)
        return True

    cdef tuple _key(self, Ack* ack):
        """(group, topic, queue id); most often the names are those of the acknowledgement before."""
        if not _is(ack.group, self._group_text):
            self._group_text = PyBytes_FromStringAndSize(<const char*>ack.group.at, ack.group.size)
            self._group = self._group_text.decode("ascii")
        if not _is(ack.topic, self._topic_text):
            self._topic_text = PyBytes_FromStringAndSize(<const char*>ack.topic.at, ack.topic.size)
            self._topic = self._topic_text.decode("ascii")
        return self._group, self._topic, ack.queue_id

    cdef bint _add(self, RecordRun run, Ack* ack, Handle* handle) except -1:
        """Add the record, as parked for its time; False if it is not plain by that time."""
        cdef uint8_t text[TEXT_BYTES_MAX]
        cdef uint8_t* at
        cdef uint8_t* due_at
        cdef uint8_t* key_at
        cdef PropertyMarks marks
        cdef ParkMarks park
        cdef Slice key
        cdef bytes body
        cdef Py_ssize_t text_at, size
        at = put(text, b"TAGS\x01ack\x02TIMER_DELIVER_MS\x01")
        due_at = at
        at += put_number(at, handle.pop_ms + handle.invisible_ms)
        park.time.at = due_at
        park.time.size = at - due_at
        park.time_kind = DELIVER_MS
        at = put(at, b"\x02UNIQ_KEY\x01")
        key_at = at
        at = _put_key(at, ack, handle)
        key.at = key_at
        key.size = at - key_at
        if not self._times.is_plain(&park, key):
            return False
        at[0] = VALUE_END
        at = self._times.put_target(at + 1, self._revive_topic, handle.revive_queue)
        size = at - text
        text_at = run.add_text(text, size)
        marks.tags.at = run.text + text_at + 5
        marks.tags.size = 3
        marks.unique_key.at = run.text + text_at + (key_at - text)
        marks.unique_key.size = key.size
        marks.keys.size = marks.wait.size = marks.sequence.size = 0
        marks.is_special = False
        body = PyBytes_FromStringAndSize(<const char*>text, _put_body(text, ack, handle) - text)
        run.keep(body)
        run.add(run.add_topic(_timer_topic), 0, 0, 0, 0, self._times._now, <const uint8_t*>PyBytes_AS_STRING(body),
                PyBytes_GET_SIZE(body), text_at, size, &marks)
        return True


cdef uint8_t* _put_key(uint8_t* at, Ack* ack, Handle* handle) noexcept:
    at = _put_name(at, ack.topic, c"@")
    at = _put_figure(at, handle.queue_id, c"@")
    at = _put_figure(at, ack.offset, c"@")
    at = _put_name(at, ack.group, c"@")
    at = _put_figure(at, handle.pop_ms, c"@")
    at = _put_name(at, handle.broker_name, c"@")
    return put(at, b"ack")


cdef uint8_t* _put_body(uint8_t* at, Ack* ack, Handle* handle) noexcept:
    """The AckRecord."""
    at = _put_figure(put(at, b'{"ao":'), ack.offset, c",")
    at = _put_name(put(at, b'"bn":"'), handle.broker_name, c'"')
    at = _put_name(put(at, b',"c":"'), ack.group, c'"')
    at = _put_figure(put(at, b',"pt":'), handle.pop_ms, c",")
    at = _put_figure(put(at, b'"q":'), handle.queue_id, c",")
    at = _put_figure(put(at, b'"so":'), handle.start_offset, c",")
    at = _put_name(put(at, b'"t":"'), ack.topic, c'"')
    at[0] = c"}"
    return at + 1


cdef inline uint8_t* _put_name(uint8_t* at, Slice name, uint8_t behind) noexcept:
    memcpy(at, name.at, name.size)
    at[name.size] = behind
    return at + name.size + 1


cdef inline uint8_t* _put_figure(uint8_t* at, int64_t figure, uint8_t behind) noexcept:
    at += put_number(at, figure)
    at[0] = behind
    return at + 1


cdef bint _take_field(Ack* ack, Slice name, Slice value) noexcept:
    """Take one header field; False if the acknowledgement is not plain by its name or its value."""
    if same(name, b"consumerGroup", 13):
        ack.group = value
        ack.seen |= 1
    elif same(name, b"topic", 5):
        ack.topic = value
        ack.seen |= 2
    elif same(name, b"queueId", 7):
        ack.seen |= 4
        return read_number(value, 10, &ack.queue_id) and ack.queue_id >= 0
    elif same(name, b"extraInfo", 9):
        ack.handle = value
        ack.seen |= 8
    elif same(name, b"offset", 6):
        ack.seen |= 16
        return read_number(value, 18, &ack.offset) and ack.offset >= 0
    else:
        return may_pass(name)
    return True


cdef bint _read_handle(Slice text, Handle* handle) noexcept:
    """Read a handle; False if it is not as brokers write it."""
    cdef Slice part
    cdef int64_t figure
    cdef int number = 0
    cdef const uint8_t* end = text.at + text.size
    part.at = text.at
    while True:
        part.size = 0
        while part.at + part.size < end and part.at[part.size] != c" ":
            part.size += 1
        if number == 5:
            handle.broker_name = part
        elif number == 4:
            pass  # the mark of the topic: the header names the topic
        elif number == HANDLE_PARTS_MAX or not read_number(part, 18, &figure):
            return False
        elif number == 7:
            pass  # the offset: the header names it, too
        elif figure < 0:
            return False
        elif number == 0:
            handle.start_offset = figure
        elif number == 1:
            handle.pop_ms = figure
        elif number == 2:
            handle.invisible_ms = figure
        elif number == 3:
            handle.revive_queue = figure
        else:
            handle.queue_id = figure
        number += 1
        part.at += part.size
        if part.at == end:
            return number >= HANDLE_PARTS_MIN
        part.at += 1


cdef bint _is_name(Slice name, Py_ssize_t most) noexcept:
    """True for a name that JSON, a key and properties take as it is."""
    cdef Py_ssize_t position
    for position in range(name.size):
        if not 0x20 < name.at[position] < 0x7F or name.at[position] == c'"' or name.at[position] == c"\\":
            return False
    return 0 < name.size <= most


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
