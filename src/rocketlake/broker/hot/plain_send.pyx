"""Plain sends: the sends at the start of a received chunk, cut and checked without an object per message.

Owns        which sends are plain, reading them (JSON and binary header), the property text of a half message.
Must not know   the store, the rights of a sender, the bytes of answers (plain_run.pyx), which ends are plain
    (plain_end.pyx), which times are (delay/plain_time.pyx).

Kernel: Cython without a Python form. The ordinary path (protocol/, processors/send.py) is the truth. A send is plain if
that path would store it as it is, as a half message or in the timer topic, and answer SUCCESS. A request that is not plain ends the run:
one with another code, with a header field or a reserved property that no allow-list names, with a text that is not
ASCII, or malformed. The kernel takes nothing of it, and the ordinary path serves it. tests/parity/test_plain_sends.py
and test_plain_ends.py feed both paths the same traffic.

Start reading at `PlainSendCutter.cut`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from rocketlake.broker.delay.plain_time cimport HANDLE_BYTES_MAX, PlainTimes, put_real_target
from rocketlake.broker.hot.plain_end cimport PlainEnds
from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, FLAG_ONEWAY, Field, Frame, Head, equal, find_frame, has_code, int16, int32, may_pass, put, read_header,
    read_number, same, says_wait,
)
from rocketlake.broker.hot.plain_run cimport AnswerParts, PlainSends, Sent
from rocketlake.broker.hot.plain_topics cimport PlainTopic, PlainTopics
from rocketlake.broker.sends.copy_room import HALF_ROOM_BYTES
from rocketlake.codec.property_scan cimport VALUE_END, ParkMarks, PropertyMarks, Slice, read_marks
from rocketlake.codec.record_layout cimport BATCH_HEAD_BYTES, PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX_V1
from rocketlake.codec.record_run cimport RecordRun, RunTopic
from rocketlake.model.topic import HALF_TOPIC, TIMER_TOPIC

__all__ = ["PlainSendCutter"]

cdef enum:
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    END_TRANSACTION = 37
    TRANSACTION_BITS = 12
    ENDED_BIT = 8  # of a commit or a rollback
    INNER_BATCH_BITS = 192
    COMPRESSED = 1
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3
    RECORDS_MAX = 4096  # in one run
    RUN_BYTES_MAX = 4194304
    HEADER_BYTES_MAX = 49152  # all of an unescaped header is put into one local buffer
    KEY_BYTES_MAX = 255  # of a unique key
    TARGET_BYTES_MAX = 80 + KEY_BYTES_MAX + TOPIC_BYTES_MAX_V1  # of what a parked message gets

cdef RunTopic _half_topic = RunTopic(HALF_TOPIC)
cdef RunTopic _timer_topic = RunTopic(TIMER_TOPIC)
cdef Py_ssize_t _half_room = HALF_ROOM_BYTES

cdef struct Fields:
    # The header fields of a send that the kernel uses; `seen` has a bit for each letter.
    uint32_t seen
    Slice topic
    Slice properties
    int64_t queue_id
    int64_t sys_flag
    int64_t born_ms
    int64_t flag
    int64_t reconsume_times
    bint is_batch

cdef class PlainSendCutter:
    """Cuts plain sends from chunks. One for a broker and its present settings."""

    cdef PlainTopics _topics
    cdef PlainEnds _ends
    cdef PlainTimes _times
    cdef AnswerParts _parts
    cdef bytes _store_host
    cdef bytes _added
    cdef bint _takes_halves
    cdef int64_t _body_bytes_max
    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max

    def __init__(self, PlainTopics topics, PlainEnds ends, PlainTimes times, AnswerParts parts, bytes store_host,
                 bytes added_properties, bint takes_halves, tuple limits):
        """`ends`: None if ends of transactions join no run; `times`: None if messages for a time do not. `limits`: bytes
        of a body, of a frame, of its header. `added_properties`: the text that the broker adds to those of each message.
        """
        self._topics = topics
        self._ends = ends
        self._times = times
        self._parts = parts
        self._store_host = store_host
        self._added = added_properties
        self._takes_halves = takes_halves
        self._body_bytes_max, self._frame_bytes_max, self._header_bytes_max = limits
        self._header_bytes_max = min(self._header_bytes_max, HEADER_BYTES_MAX)

    def cut(self, bytes chunk, Py_ssize_t position, bytes born_host, asker):
        """The plain sends of `chunk` from `position` on, and plain ends between them; None if there are none.

        `born_host`: the encoded address of the asker."""
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* begin = start + position
        cdef const uint8_t* at = begin
        cdef const uint8_t* end = start + PyBytes_GET_SIZE(chunk)
        cdef PlainSends sends = None
        cdef Frame frame
        cdef bint is_end, has_ends = False
        if self._times is not None:
            self._times.begin()
        while find_frame(at, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            is_end = not has_code(&frame, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE)
            if is_end and (self._ends is None or not has_code(&frame, END_TRANSACTION, END_TRANSACTION)):
                break
            if sends is None:
                sends = PlainSends.__new__(PlainSends, RecordRun(born_host, self._store_host), self._parts)
            elif sends.run.count >= RECORDS_MAX or sends.run.size >= RUN_BYTES_MAX:
                break
            if is_end:
                if not has_ends:
                    self._ends.begin(asker)
                    has_ends = True
                if not self._ends.take(sends, &frame):
                    break
                at += frame.size
                if self._ends.is_full:
                    break
            else:
                if not self._take(sends, &frame):
                    break
                at += frame.size
        if has_ends:
            self._ends.end()
        if at == begin:
            return None
        sends.run.keep(chunk)
        sends.end = at - start
        return sends

    cdef bint _take(self, PlainSends sends, Frame* frame) except -1:
        """Take one frame if it is a plain send."""
        cdef uint8_t scratch[HEADER_BYTES_MAX]
        cdef Field found[FIELDS_MAX]
        cdef Fields fields
        cdef Head head
        cdef PlainTopic topic
        cdef int number, count = read_header(frame, &head, found, scratch)
        fields.seen = 0
        fields.is_batch = False
        fields.properties.size = 0
        fields.reconsume_times = 0
        for number in range(count):
            if not _take_field(&fields, found[number].name, found[number].value):
                return False
        if count < 0 or head.flag & ~FLAG_ONEWAY or fields.seen & 0xFF != 0xFF:  # a to h must be there
            return False
        if head.code != SEND_MESSAGE_V2 and head.code != SEND_BATCH_MESSAGE:
            return False
        topic = self._topics.find(fields.topic)
        if topic is None or not 0 <= fields.queue_id < topic.queues:
            return False
        if fields.sys_flag & (ENDED_BIT | INNER_BATCH_BITS) or frame.body_size > self._body_bytes_max:
            return False
        if fields.is_batch or head.code == SEND_BATCH_MESSAGE:
            if fields.sys_flag & (TRANSACTION_BITS | COMPRESSED):
                return False
            return self._take_batch(sends, &head, &fields, topic, frame.body, frame.body_size)
        if frame.body_size == 0:
            return False
        if fields.sys_flag & COMPRESSED and not _begins_packed(fields.sys_flag, frame.body, frame.body_size):
            return False
        return self._take_message(sends, &head, &fields, topic, frame.body, frame.body_size)

    cdef bint _take_message(self, PlainSends sends, Head* head, Fields* fields, PlainTopic topic, const uint8_t* body,
                            Py_ssize_t body_size) except -1:
        cdef uint8_t target[TARGET_BYTES_MAX]
        cdef PropertyMarks marks
        cdef ParkMarks park
        cdef uint8_t handle[HANDLE_BYTES_MAX]
        cdef RecordRun run = sends.run
        cdef RunTopic run_topic = topic.run_topic
        cdef int32_t queue_id = <int32_t>fields.queue_id
        cdef Py_ssize_t text_at, size, target_size = 0, room = 0, handle_size = 0
        cdef Sent* sent
        if not read_marks(fields.properties.at, fields.properties.size, True, &marks, &park) or marks.is_special:
            return False
        if not _is_plain_key(marks.unique_key) or marks.sequence.size or park.is_stored:
            return False
        if park.prepared.size:
            if not self._takes_halves or not same(park.prepared, b"true", 4) or park.group.size == 0 or park.time.size:
                return False
            if park.transaction_id.size and not equal(park.transaction_id, marks.unique_key):
                return False
            target_size = _put_target(target, &park, marks.unique_key, run_topic, fields.queue_id) - target
            room = target_size + _half_room
            run_topic = _half_topic
            queue_id = 0
        elif park.group.size or park.transaction_id.size or fields.sys_flag & TRANSACTION_BITS:
            return False
        elif park.time.size:
            if self._times is None or not self._times.is_plain(&park, marks.unique_key):
                return False
            target_size = room = self._times.put_target(target, run_topic, queue_id) - target
            handle_size = self._times.put_handle(handle, run_topic, marks.unique_key) - handle
            run_topic = _timer_topic
            queue_id = 0
        if not self._fits(fields.properties.size + room):
            return False
        text_at = self._add_properties(run, fields.properties)
        if target_size:
            run.add_text(target, target_size)
        size = run._text_size - text_at
        if handle_size:
            run.add_text(handle, handle_size)
        _move(&marks.unique_key, fields.properties.at, run.text + text_at)
        _move(&marks.keys, fields.properties.at, run.text + text_at)
        _move(&marks.tags, fields.properties.at, run.text + text_at)
        sent = sends.next_sent()
        sent.first_record = run.count
        sent.records = 1
        sent.key_at = marks.unique_key.at - run.text
        sent.key_size = marks.unique_key.size
        sent.handle_at = text_at + size
        sent.handle_size = handle_size
        _note_request(sends, sent, head, fields)
        run.add(run.add_topic(run_topic), queue_id, <int32_t>fields.flag,
                <int32_t>(fields.sys_flag & ~TRANSACTION_BITS | topic.sys_flag),
                <int32_t>max(fields.reconsume_times, 0), fields.born_ms, body, body_size, text_at, size, &marks)
        if not says_wait(marks.wait):
            sends.waits = False
        sends.count += 1
        return True

    cdef bint _take_batch(self, PlainSends sends, Head* head, Fields* fields, PlainTopic topic, const uint8_t* body,
                          Py_ssize_t body_size) except -1:
        """Each message of a batch body keeps its own properties and gets those of the batch behind them."""
        cdef PropertyMarks marks
        cdef PropertyMarks own
        cdef RecordRun run = sends.run
        cdef Py_ssize_t messages, number, shared_at, shared_size, text_at, at, entry_body
        cdef Slice properties
        cdef Sent* sent
        cdef int topic_number
        messages = _count_batch(body, body_size)
        if messages <= 0 or messages > RECORDS_MAX:
            return False
        if not read_marks(fields.properties.at, fields.properties.size, True, &marks, NULL) or marks.is_special:
            return False
        if marks.tags.size or marks.keys.size or (marks.unique_key.size and not _is_plain_key(marks.unique_key)):
            return False
        # Two passes, because a batch is taken as a whole or not at all: the first one checks every message.
        at = 0
        for number in range(messages):
            entry_body = int32(body + at + 16)
            properties.at = body + at + BATCH_HEAD_BYTES + entry_body + 2
            properties.size = int16(properties.at - 2)
            if not read_marks(properties.at, properties.size, False, &own, NULL) or own.is_special or own.sequence.size:
                return False
            if not self._fits(properties.size + fields.properties.size):
                return False
            at = properties.at + properties.size - body
        shared_at = run._text_size
        self._add_shared(run, fields.properties, marks.unique_key)
        shared_size = run._text_size - shared_at
        sent = sends.next_sent()
        sent.first_record = run.count
        sent.records = messages
        sent.key_at = run.add_text(marks.unique_key.at, marks.unique_key.size)
        sent.key_size = marks.unique_key.size
        sent.handle_size = 0
        _note_request(sends, sent, head, fields)
        topic_number = run.add_topic(topic.run_topic)
        at = 0
        for number in range(messages):
            entry_body = int32(body + at + 16)
            properties.at = body + at + BATCH_HEAD_BYTES + entry_body + 2
            properties.size = int16(properties.at - 2)
            text_at = self._add_terminated(run, properties)
            run.repeat_text(shared_at, shared_size)
            read_marks(run.text + text_at, properties.size, False, &own, NULL)
            run.add(topic_number, <int32_t>fields.queue_id, <int32_t>int32(body + at + 12),
                    <int32_t>(fields.sys_flag | topic.sys_flag), <int32_t>max(fields.reconsume_times, 0),
                    fields.born_ms, body + at + BATCH_HEAD_BYTES, entry_body, text_at, run._text_size - text_at, &own)
            at = properties.at + properties.size - body
        if not says_wait(marks.wait):
            sends.waits = False
        if marks.sequence.size:
            mark = PyBytes_FromStringAndSize(<const char*>marks.sequence.at, marks.sequence.size).decode("ascii")
            sends.marked.append((topic.run_topic.name, fields.queue_id, mark, messages))
        sends.count += 1
        return True

    cdef bint _fits(self, Py_ssize_t properties_size) noexcept:
        return properties_size + 2 + PyBytes_GET_SIZE(self._added) <= PROPERTIES_BYTES_MAX

    cdef Py_ssize_t _add_properties(self, RecordRun run, Slice properties) except -1:
        """Add the property text of a message and the broker's own properties to the run; returns where the text
        starts."""
        cdef Py_ssize_t at = self._add_terminated(run, properties)
        run.add_text(<const uint8_t*>PyBytes_AS_STRING(self._added), PyBytes_GET_SIZE(self._added))
        return at

    cdef Py_ssize_t _add_terminated(self, RecordRun run, Slice properties) except -1:
        cdef uint8_t pair_end = 2
        cdef Py_ssize_t at = run.add_text(properties.at, properties.size)
        if properties.size and properties.at[properties.size - 1] != pair_end:
            run.add_text(&pair_end, 1)
        return at

    cdef int _add_shared(self, RecordRun run, Slice properties, Slice unique_key) except -1:
        """Add the properties of a batch, without its unique key, and the broker's own to the run."""
        cdef Slice before, behind
        if unique_key.size == 0:
            self._add_properties(run, properties)
            return 0
        before.at = properties.at
        before.size = unique_key.at - 9 - properties.at  # 9: UNIQ_KEY and its separator
        behind.at = unique_key.at + unique_key.size + 1
        behind.size = max(properties.at + properties.size - behind.at, 0)
        run.add_text(before.at, before.size)
        if behind.size:
            self._add_terminated(run, behind)
        run.add_text(<const uint8_t*>PyBytes_AS_STRING(self._added), PyBytes_GET_SIZE(self._added))
        return 0


cdef inline int _note_request(PlainSends sends, Sent* sent, Head* head, Fields* fields) noexcept:
    sent.opaque = <int32_t>head.opaque
    sent.queue_id = <int32_t>fields.queue_id
    sent.is_binary = head.is_binary
    sent.is_oneway = head.flag & FLAG_ONEWAY != 0
    sends.asked += not sent.is_oneway
    return 0


cdef uint8_t* _put_target(
    uint8_t* at, ParkMarks* park, Slice unique_key, RunTopic topic, int64_t queue_id
) noexcept:
    """Put the properties that say what a half message is meant for; returns where they end (transaction/half.py).

    A message that was sent before has the id of its transaction already.
    """
    if park.transaction_id.size == 0:
        memcpy(at, b"__transactionId__\x01", 18)
        memcpy(at + 18, unique_key.at, unique_key.size)
        at[18 + unique_key.size] = VALUE_END
        at += 19 + unique_key.size
    return put_real_target(at, topic, queue_id)


cdef inline void _move(Slice* part, const uint8_t* old, const uint8_t* new) noexcept:
    """Make `part` point at the same place of the copy."""
    if part.size:
        part.at = new + (part.at - old)


cdef bint _begins_packed(int64_t sys_flag, const uint8_t* body, Py_ssize_t size) noexcept:
    """True if a body starts as its compression flag asks; any other may be plain (codec/compression.py)."""
    cdef int kind = (sys_flag >> 8) & 7
    if kind == ZLIB or kind == 0:
        return size > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0 and not body[1] & 32
    if kind == LZ4:
        return size >= 4 and memcmp(body, b"\x04\x22\x4d\x18", 4) == 0
    if kind == ZSTD:
        return size >= 4 and memcmp(body, b"\x28\xb5\x2f\xfd", 4) == 0
    return False


cdef bint _is_plain_key(Slice key) noexcept:
    """True for a unique key that JSON writes without an escape."""
    cdef Py_ssize_t position
    if not 0 < key.size <= KEY_BYTES_MAX:
        return False
    for position in range(key.size):
        if key.at[position] < 0x20 or key.at[position] >= 0x7F or key.at[position] in (c'"', c"\\"):
            return False
    return True


# -- header fields -----------------------------------------------------------------------------------------------------

cdef bint _take_field(Fields* fields, Slice name, Slice value) noexcept:
    """Take one header field; False if the send is not plain by its name or its value."""
    cdef uint8_t letter
    cdef int64_t number
    if name.size != 1 or not c"a" <= name.at[0] <= c"m":
        return may_pass(name)
    letter = name.at[0]
    fields.seen |= <uint32_t>1 << (letter - c"a")
    if letter == c"b":
        fields.topic = value
    elif letter == c"i":
        fields.properties = value
    elif letter == c"d":
        return read_number(value, 10, &number)
    elif letter == c"e":
        return read_number(value, 10, &fields.queue_id)
    elif letter == c"f":
        return read_number(value, 10, &fields.sys_flag)
    elif letter == c"g":
        return read_number(value, 18, &fields.born_ms)
    elif letter == c"h":
        return read_number(value, 10, &fields.flag)
    elif letter == c"j":
        return read_number(value, 10, &fields.reconsume_times)
    elif letter == c"l":
        return read_number(value, 10, &number)
    elif letter == c"m":
        fields.is_batch = value.size == 4 and memcmp(value.at, b"true", 4) == 0
        return fields.is_batch or (value.size == 5 and memcmp(value.at, b"false", 5) == 0)
    return True


cdef Py_ssize_t _count_batch(const uint8_t* body, Py_ssize_t size) noexcept nogil:
    """Number of messages in a batch body; -1 if the body is not made of whole entries (codec/record_batch.py)."""
    cdef Py_ssize_t at = 0, count = 0
    cdef int64_t entry, entry_body, properties
    while at < size:
        if size - at < BATCH_HEAD_BYTES + 2:
            return -1
        entry = int32(body + at)
        entry_body = int32(body + at + 16)
        if entry_body < 0 or entry > size - at or BATCH_HEAD_BYTES + entry_body + 2 > entry:
            return -1
        properties = int16(body + at + BATCH_HEAD_BYTES + entry_body)
        if properties < 0 or BATCH_HEAD_BYTES + entry_body + 2 + properties != entry:
            return -1
        at += entry
        count += 1
    return count
