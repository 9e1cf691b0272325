"""Plain acknowledgements of popped messages that stand in a row in a chunk, without an object per record.

Owns        which acknowledgements are plain, reading them, the bodies of their records, their answers.
Must not know   queues and topics, how a run is stored, when an answer is due (ack_runs.py).

Kernel: Cython without a Python form. The ordinary path (processors/ack.py, pop/revive_log.py, delay/parking.py) is the
truth. An acknowledgement is plain if that path would note it for a later time: one that wants an answer, of a message
that its queue holds, by a regular handle whose time is not over. One of many messages is plain if each of its entries
is. Headers are JSON: no binary header can hold the codes. tests/parity/test_plain_acks.py feeds both paths the same
traffic.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.broker.delay.plain_time cimport NAME_BYTES_MAX
from rocketlake.broker.hot.pops.ack_body cimport ENTRIES_MAX, AckEntry, read_ack_body, read_bits
from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, PREFIX_BYTES, Field, Frame, Head, find_frame, has_code, may_pass, put, put_prefix, read_header,
    read_number, same,
)
from rocketlake.broker.pop.revive_record cimport (
    KEY_BYTES_MAX, NUMBER_BYTES, Point, ReviveRecords, is_name, put_figure, put_name,
)
from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_layout cimport TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RecordRun, put_number
from rocketlake.model.topic import TIMER_TOPIC

__all__ = ["PlainAckCutter", "PlainAcks"]

cdef enum:
    ACK_MESSAGE = 200051
    BATCH_ACK_MESSAGE = 200151
    SEEN_ALL = 31  # of Ack.seen
    HANDLE_PARTS_MIN = 7
    HANDLE_PARTS_MAX = 8
    ACKS_MAX = 1024  # of a run
    OFFSETS_MAX = 256  # of an entry
    BODY_BYTES_MAX = KEY_BYTES_MAX + 80 + OFFSETS_MAX * NUMBER_BYTES

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


cdef class PlainAcks:
    """The plain acknowledgements of one chunk.

    `run` holds their records; the rest of the chunk starts at `end`. `taken`: ((group, topic, queue id), when the
    messages would come again, how many) of each record. `opaques`: those of their requests.
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
        return TIMER_TOPIC, self.run.count, self.run.size, self.run.count

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
    cdef ReviveRecords _records
    cdef int _revive_queues
    cdef bytes _broker_name
    cdef bytes _host
    cdef tuple _answer
    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max
    cdef dict _known
    cdef str _group
    cdef bytes _group_text
    cdef str _topic
    cdef bytes _topic_text

    def __init__(self, bounds, ReviveRecords records, int revive_queues, bytes broker_name, bytes host, tuple answer,
                 tuple limits):
        """`bounds(topic, queue id)`: (first, last) queue offset that may be acknowledged, None if the queue's
        acknowledgements are not plain. `host`: the encoded address of this broker. `answer`: the header of an answer,
        cut at its opaque. `limits`: bytes of a frame, of a header."""
        self._bounds = bounds
        self._records = records
        self._revive_queues = revive_queues
        self._broker_name = broker_name
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
            if not has_code(&frame, ACK_MESSAGE, BATCH_ACK_MESSAGE):
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
        self._records.begin()
        return acks

    cdef bint _take(self, PlainAcks acks, Frame* frame) except -1:
        """Take one frame if it is a plain acknowledgement."""
        cdef Field found[FIELDS_MAX]
        cdef Head head
        cdef int count = read_header(frame, &head, found, NULL)
        if count < 0 or head.flag != 0:
            return False
        if head.code == BATCH_ACK_MESSAGE:
            if not _may_all_pass(found, count) or not self._take_body(acks, frame):
                return False
        elif head.code != ACK_MESSAGE or frame.body_size or not self._take_one(acks, found, count):
            return False
        acks.opaques.append(head.opaque)
        return True

    cdef bint _take_one(self, PlainAcks acks, Field* found, int count) except -1:
        """Take the acknowledgement of one message, which its header names."""
        cdef Ack ack
        cdef Handle handle
        cdef Point point
        cdef int number
        cdef int64_t first, last, due_ms
        ack.seen = 0
        for number in range(count):
            if not _take_field(&ack, found[number].name, found[number].value):
                return False
        if ack.seen != SEEN_ALL or not _read_handle(ack.handle, &handle) or handle.queue_id != ack.queue_id:
            return False
        point.topic = ack.topic
        point.group = ack.group
        point.broker_name = handle.broker_name
        point.queue_id = handle.queue_id
        point.start_offset = handle.start_offset
        point.pop_ms = handle.pop_ms
        due_ms = handle.pop_ms + handle.invisible_ms
        bounds = self._bounds_of(&point, handle.revive_queue)
        if bounds is None:
            return False
        first, last = bounds
        if not first <= ack.offset <= last or not self._records.is_plain(due_ms):
            return False
        self._add(acks, &point, ack.offset, NULL, 0, handle.revive_queue, due_ms)
        return True

    cdef bint _take_body(self, PlainAcks acks, Frame* frame) except -1:
        """Take the acknowledgement of many messages, which its body names."""
        cdef AckEntry entries[ENTRIES_MAX]
        cdef int64_t offsets[OFFSETS_MAX]
        cdef Point point
        cdef AckEntry* entry
        cdef int number, count = read_ack_body(frame.body, frame.body_size, entries)
        if count <= 0:
            return False
        for number in range(count):  # all or none
            entry = &entries[number]
            self._name(&point, entry)
            bounds = self._bounds_of(&point, entry.revive_queue)
            if bounds is None or not self._records.is_plain(entry.pop_ms + entry.invisible_ms):
                return False
            if self._offsets(entry, bounds, offsets) <= 0:
                return False
        for number in range(count):
            entry = &entries[number]
            self._name(&point, entry)
            self._records.is_plain(entry.pop_ms + entry.invisible_ms)
            bounds = self._bounds_of(&point, entry.revive_queue)
            self._add(acks, &point, -1, offsets, self._offsets(entry, bounds, offsets), entry.revive_queue,
                      entry.pop_ms + entry.invisible_ms)
        return True

    cdef int _name(self, Point* point, AckEntry* entry) except -1:
        point.topic = entry.topic
        point.group = entry.group
        point.broker_name.at = <const uint8_t*>PyBytes_AS_STRING(self._broker_name)
        point.broker_name.size = PyBytes_GET_SIZE(self._broker_name)
        point.queue_id = entry.queue_id
        point.start_offset = entry.start_offset
        point.pop_ms = entry.pop_ms
        return 0

    cdef int _offsets(self, AckEntry* entry, bounds, int64_t* offsets) except -2:
        """The offsets of the entry that lie in its queue; -1 if they are not plain."""
        cdef int64_t first, last
        cdef int number, kept = 0, count = read_bits(entry.bits, offsets, OFFSETS_MAX)
        first, last = bounds
        for number in range(count):
            offsets[number] += entry.start_offset
            if first <= offsets[number] <= last:
                offsets[kept] = offsets[number]
                kept += 1
        return -1 if count < 0 else kept

    cdef object _bounds_of(self, Point* point, int64_t revive_queue):
        """(first, last) queue offset that may be acknowledged; None if the check point is not plain."""
        if not 0 <= revive_queue < self._revive_queues:
            return None
        if not (is_name(point.topic, TOPIC_BYTES_MAX_V1) and is_name(point.group, NAME_BYTES_MAX)
                and is_name(point.broker_name, NAME_BYTES_MAX)):
            return None
        key = self._key(point)
        bounds = self._known.get(key)
        if bounds is None:
            bounds = self._bounds(key[1], key[2])
            if bounds is not None:
                self._known[key] = bounds
        return bounds

    cdef tuple _key(self, Point* point):
        """(group, topic, queue id); most often the names are those of the acknowledgement before."""
        if not _is(point.group, self._group_text):
            self._group_text = PyBytes_FromStringAndSize(<const char*>point.group.at, point.group.size)
            self._group = self._group_text.decode("ascii")
        if not _is(point.topic, self._topic_text):
            self._topic_text = PyBytes_FromStringAndSize(<const char*>point.topic.at, point.topic.size)
            self._topic = self._topic_text.decode("ascii")
        return self._group, self._topic, point.queue_id

    cdef int _add(self, PlainAcks acks, Point* point, int64_t offset, const int64_t* offsets, int count,
                  int64_t revive_queue, int64_t due_ms) except -1:
        """Add the record of one message, or (`offset` -1) of `offsets`."""
        cdef uint8_t text[BODY_BYTES_MAX]
        cdef bytes body = PyBytes_FromStringAndSize(<const char*>text, _put_body(text, point, offset, offsets, count)
                                                    - text)
        self._records.add(acks.run, point, b"ack" if offset >= 0 else b"bAck", due_ms, offset, revive_queue, body)
        acks.taken.append((self._key(point), due_ms, 1 if offset >= 0 else count))
        return 0


cdef uint8_t* _put_body(uint8_t* at, Point* point, int64_t offset, const int64_t* offsets, int count) noexcept:
    """The AckRecord."""
    cdef int number
    at = put_figure(put(at, b'{"ao":'), offset if offset >= 0 else 0, c",")
    if offset < 0:
        at = put(at, b'"aol":[')
        for number in range(count):
            at = put_figure(at, offsets[number], c"," if number < count - 1 else c"]")
        at[0] = c","
        at += 1
    at = put_name(put(at, b'"bn":"'), point.broker_name, c'"')
    at = put_name(put(at, b',"c":"'), point.group, c'"')
    at = put_figure(put(at, b',"pt":'), point.pop_ms, c",")
    at = put_figure(put(at, b'"q":'), point.queue_id, c",")
    at = put_figure(put(at, b'"so":'), point.start_offset, c",")
    at = put_name(put(at, b'"t":"'), point.topic, c'"')
    at[0] = c"}"
    return at + 1


cdef bint _may_all_pass(Field* found, int count) noexcept:
    cdef int number
    for number in range(count):
        if not may_pass(found[number].name):
            return False
    return True


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


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
