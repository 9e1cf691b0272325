"""Plain sends: the sends at the start of a received chunk, cut, checked and answered without an object per message.

Owns        which sends are plain, reading them (JSON and binary header), the bytes of their answers.
Must not know   the store, the rights of a sender, the time at which an answer is due.

Kernel: Cython without a Python form. The ordinary path (protocol/, processors/send.py) is the truth. A send is plain if
that path would store it as it is and answer SUCCESS. A request that is not plain ends the run: one with another code,
with a header field or a reserved property that no allow-list names, with a text that is not ASCII, or malformed. The
kernel takes nothing of it, and the ordinary path serves it. tests/parity/test_plain_sends.py feeds both paths the same
traffic.

Start reading at `PlainSendCutter.cut`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, FLAG_ONEWAY, PREFIX_BYTES, Field, Frame, Head, find_frame, has_code, int16, int32, may_pass, put,
    put_prefix, read_header, read_number, same,
)
from rocketlake.codec.property_scan cimport PropertyMarks, Slice, read_marks
from rocketlake.codec.record_layout cimport BATCH_HEAD_BYTES, PROPERTIES_BYTES_MAX, store32
from rocketlake.codec.record_run cimport RecordRun, RunTopic, put_number

__all__ = ["AnswerParts", "PlainSendCutter", "PlainSends", "PlainTopic"]

cdef enum:
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    TRANSACTION_BITS = 12
    INNER_BATCH_BITS = 192
    COMPRESSED = 1
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3
    MULTI_TAGS = 2
    RECORDS_MAX = 4096  # in one run
    RUN_BYTES_MAX = 4194304
    HEADER_BYTES_MAX = 49152  # all of an unescaped header is put into one local buffer
    KEY_BYTES_MAX = 255  # of a unique key

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

cdef struct Sent:
    # One request of the run.
    Py_ssize_t first_record
    Py_ssize_t records
    Py_ssize_t key_at  # its unique key in the text of the run; a batch may have none
    Py_ssize_t key_size
    int32_t opaque
    int32_t queue_id
    bint is_binary
    bint is_oneway


cdef class PlainTopic:
    """A topic that takes plain sends. `queues`: queue ids are below it; `sys_flag`: bits its messages get."""

    cdef readonly RunTopic run_topic
    cdef readonly int queues
    cdef int sys_flag

    def __init__(self, str name, int queues, bint is_multi_tag):
        self.run_topic = RunTopic(name)
        self.queues = queues
        self.sys_flag = MULTI_TAGS if is_multi_tag else 0


cdef class AnswerParts:
    """The parts that all answers of a broker share, as the ordinary path writes them.

    `json`: the header cut at message id, queue id, queue offset, unique key and opaque (6 parts). `binary`: its first
    bytes up to the opaque, those from behind the opaque up to the length of the fields, and the fields behind the
    unique key. `address`: the start of each message id.
    """

    cdef tuple json
    cdef bytes binary_start
    cdef bytes binary_flag
    cdef bytes binary_tail
    cdef bytes address

    def __init__(self, tuple json, tuple binary, bytes address):
        cdef bytes part
        if len(json) != 6 or len(binary) != 3:
            raise ValueError("the parts of an answer are not complete")
        for part in json:
            pass  # a TypeError for a part that is no bytes: the addresses of the parts are used below
        self.json = json
        self.binary_start, self.binary_flag, self.binary_tail = binary
        self.address = address


cdef class PlainSends:
    """The plain sends of one chunk. `run` holds their records; the rest of the chunk starts at `end`."""

    cdef readonly RecordRun run
    cdef readonly Py_ssize_t end
    cdef Sent* _sents
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef AnswerParts _parts
    cdef readonly bint waits
    """False if a sender does not wait for the disk (property WAIT)."""
    cdef readonly list marked
    """(topic, queue id, mark, messages) of each batch that says which messages of its producer it holds."""

    def __dealloc__(self):
        PyMem_Free(self._sents)

    cdef Sent* _next(self) except NULL:
        if self.count == self._room:
            self._room = max(2 * self._room, 32)
            grown = PyMem_Realloc(self._sents, self._room * sizeof(Sent))
            if grown == NULL:
                raise MemoryError()
            self._sents = <Sent*>grown
        return &self._sents[self.count]

    def outcomes(self):
        """(opaque, is binary, queue id, unique key, queue offset, physical offsets of its records) of each request that
        is not one-way. For answers that are no success."""
        cdef Py_ssize_t number, record
        cdef Sent* sent
        cdef list found = []
        for number in range(self.count):
            sent = &self._sents[number]
            if not sent.is_oneway:
                offsets = [
                    self.run.records[record].physical_offset
                    for record in range(sent.first_record, sent.first_record + sent.records)
                ]
                key = PyBytes_FromStringAndSize(<const char*>self.run.text + sent.key_at, sent.key_size).decode("ascii")
                found.append((sent.opaque, sent.is_binary, sent.queue_id, key or None,
                              self.run.records[sent.first_record].queue_offset, offsets))
        return found

    def topic_counts(self):
        """(topic, messages, bytes of their records, requests) of each topic."""
        cdef Py_ssize_t number, record
        cdef dict counts = {}
        cdef int64_t size
        if len(self.run._topics) == 1:
            return [((<RunTopic>self.run._topics[0]).name, self.run.count, self.run.size, self.count)]
        for number in range(self.count):
            sent = &self._sents[number]
            size = 0
            for record in range(sent.first_record, sent.first_record + sent.records):
                size += self.run.records[record].size
            part = self.run._parts[self.run.records[sent.first_record].part]
            name = (<RunTopic>self.run._topics[part.topic]).name
            messages, total, requests = counts.get(name, (0, 0, 0))
            counts[name] = messages + sent.records, total + size, requests + 1
        return [(name, *numbers) for name, numbers in counts.items()]

    def answers(self):
        """The SUCCESS answers of all requests that are not one-way, whole frames back to back. Call it after
        `encode`."""
        cdef Py_ssize_t number, size = 0
        cdef Sent* sent
        cdef Py_ssize_t fixed = 0
        cdef Py_ssize_t id_bytes = PyBytes_GET_SIZE(self._parts.address) + 16
        for part in self._parts.json:
            fixed += PyBytes_GET_SIZE(<bytes>part)
        fixed = max(fixed, PyBytes_GET_SIZE(self._parts.binary_tail) + 100) + 60
        for number in range(self.count):
            sent = &self._sents[number]
            if not sent.is_oneway:
                size += fixed + sent.key_size + sent.records * (id_bytes + 1)
        cdef bytes written = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(written)
        cdef uint8_t* at = start
        for number in range(self.count):
            sent = &self._sents[number]
            if not sent.is_oneway:
                at = self._binary_answer(at, sent) if sent.is_binary else self._json_answer(at, sent)
        return written[:at - start]

    cdef uint8_t* _ids(self, uint8_t* at, Sent* sent) noexcept:
        """The message ids of a request, joined by commas: the broker's address and the physical offset, in hex."""
        cdef Py_ssize_t record, digit
        cdef int64_t offset
        for record in range(sent.first_record, sent.first_record + sent.records):
            if record > sent.first_record:
                at[0] = c","
                at += 1
            at = put(at, self._parts.address)
            offset = self.run.records[record].physical_offset
            for digit in range(16):
                at[15 - digit] = b"0123456789ABCDEF"[offset & 15]
                offset >>= 4
            at += 16
        return at

    cdef uint8_t* _json_answer(self, uint8_t* at, Sent* sent) noexcept:
        cdef uint8_t* start = at
        cdef tuple parts = self._parts.json
        at = put(at + PREFIX_BYTES, <bytes>parts[0])
        at = self._ids(at, sent)
        at = put(at, <bytes>parts[1])
        at += put_number(at, sent.queue_id)
        at = put(at, <bytes>parts[2])
        at += put_number(at, self.run.records[sent.first_record].queue_offset)
        if sent.key_size:
            at = put(at, <bytes>parts[3])
            memcpy(at, self.run.text + sent.key_at, sent.key_size)
        at = put(at + sent.key_size, <bytes>parts[4])
        at += put_number(at, sent.opaque)
        at = put(at, <bytes>parts[5])
        put_prefix(start, at - start - PREFIX_BYTES, 0, 0)
        return at

    cdef uint8_t* _binary_answer(self, uint8_t* at, Sent* sent) noexcept:
        cdef uint8_t* start = at
        cdef uint8_t* fields
        cdef uint8_t* value
        at = put(at + PREFIX_BYTES, self._parts.binary_start)
        store32(at, sent.opaque)
        at = put(at + 4, self._parts.binary_flag)
        fields = at + 4
        at = _put_key(fields, b"msgId", 5)
        value = at + 4
        at = self._ids(value, sent)
        store32(value - 4, at - value)
        at = _put_key(at, b"queueId", 7)
        value = at + 4
        at = value + put_number(value, sent.queue_id)
        store32(value - 4, at - value)
        at = _put_key(at, b"queueOffset", 11)
        value = at + 4
        at = value + put_number(value, self.run.records[sent.first_record].queue_offset)
        store32(value - 4, at - value)
        if sent.key_size:
            at = _put_key(at, b"transactionId", 13)
            store32(at, sent.key_size)
            memcpy(at + 4, self.run.text + sent.key_at, sent.key_size)
            at += 4 + sent.key_size
        at = put(at, self._parts.binary_tail)
        store32(fields - 4, at - fields)
        put_prefix(start, at - start - PREFIX_BYTES, 0, 1)
        return at


cdef class PlainSendCutter:
    """Cuts plain sends from chunks. One for a broker and its present settings."""

    cdef object _find_topic
    cdef dict _topics
    cdef PlainTopic _last
    cdef AnswerParts _parts
    cdef bytes _store_host
    cdef bytes _added
    cdef int64_t _body_bytes_max
    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max

    def __init__(self, find_topic, AnswerParts parts, bytes store_host, bytes added_properties,
                 int64_t body_bytes_max, int64_t frame_bytes_max, int64_t header_bytes_max):
        """`find_topic(name)` gives the PlainTopic, or None while sends to the topic are not plain. The cutter keeps it
        until `forget_topics`. `added_properties`: the text that the broker adds to the properties of each message."""
        self._find_topic = find_topic
        self._topics = {}
        self._parts = parts
        self._store_host = store_host
        self._added = added_properties
        self._body_bytes_max = body_bytes_max
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = min(header_bytes_max, HEADER_BYTES_MAX)

    def forget_topics(self):
        """A topic was made, changed or deleted."""
        self._topics.clear()
        self._last = None

    def cut(self, bytes chunk, Py_ssize_t position, bytes born_host):
        """The plain sends of `chunk` from `position` on; None if there are none. `born_host`: the sender's encoded
        address."""
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* at = start + position
        cdef const uint8_t* end = start + PyBytes_GET_SIZE(chunk)
        cdef PlainSends sends = None
        cdef Frame frame
        while find_frame(at, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            if not has_code(&frame, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE):
                break
            if sends is None:
                sends = PlainSends.__new__(PlainSends)
                sends.run = RecordRun(born_host, self._store_host)
                sends._parts = self._parts
                sends.marked = []
                sends.waits = True
            elif sends.run.count >= RECORDS_MAX or sends.run.size >= RUN_BYTES_MAX:
                break
            if not self._take(sends, &frame):
                break
            at += frame.size
        if sends is None or sends.count == 0:
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
        topic = self._topic(fields.topic)
        if topic is None or not 0 <= fields.queue_id < topic.queues:
            return False
        if fields.sys_flag & (TRANSACTION_BITS | INNER_BATCH_BITS) or frame.body_size > self._body_bytes_max:
            return False
        if fields.is_batch or head.code == SEND_BATCH_MESSAGE:
            if fields.sys_flag & COMPRESSED:
                return False
            return self._take_batch(sends, &head, &fields, topic, frame.body, frame.body_size)
        if frame.body_size == 0:
            return False
        if fields.sys_flag & COMPRESSED and not _begins_packed(fields.sys_flag, frame.body, frame.body_size):
            return False
        return self._take_message(sends, &head, &fields, topic, frame.body, frame.body_size)

    cdef PlainTopic _topic(self, Slice name):
        cdef PlainTopic topic = self._last
        if topic is not None and PyBytes_GET_SIZE(topic.run_topic.encoded) == name.size and memcmp(
            PyBytes_AS_STRING(topic.run_topic.encoded), name.at, name.size
        ) == 0:
            return topic
        cdef bytes encoded = PyBytes_FromStringAndSize(<const char*>name.at, name.size)
        found = self._topics.get(encoded)
        if found is None:
            found = self._find_topic(encoded.decode("ascii"))
            if found is None:
                return None
            self._topics[encoded] = found
        self._last = found
        return found

    cdef bint _take_message(self, PlainSends sends, Head* head, Fields* fields, PlainTopic topic, const uint8_t* body,
                            Py_ssize_t body_size) except -1:
        cdef PropertyMarks marks
        cdef RecordRun run = sends.run
        cdef Py_ssize_t text_at, size
        cdef Sent* sent
        if not read_marks(fields.properties.at, fields.properties.size, True, &marks) or marks.is_special:
            return False
        if not _is_plain_key(marks.unique_key) or not self._fits(fields.properties.size) or marks.sequence.size:
            return False
        text_at = self._add_properties(run, fields.properties)
        size = run._text_size - text_at
        _move(&marks.unique_key, fields.properties.at, run.text + text_at)
        _move(&marks.keys, fields.properties.at, run.text + text_at)
        _move(&marks.tags, fields.properties.at, run.text + text_at)
        sent = sends._next()
        sent.first_record = run.count
        sent.records = 1
        sent.key_at = marks.unique_key.at - run.text
        sent.key_size = marks.unique_key.size
        _note_request(sent, head, fields)
        run.add(run.add_topic(topic.run_topic), <int32_t>fields.queue_id, <int32_t>fields.flag,
                <int32_t>(fields.sys_flag | topic.sys_flag), <int32_t>max(fields.reconsume_times, 0), fields.born_ms,
                body, body_size, text_at, size, &marks)
        if not _says_wait(marks.wait):
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
        if not read_marks(fields.properties.at, fields.properties.size, True, &marks) or marks.is_special:
            return False
        if marks.tags.size or marks.keys.size or (marks.unique_key.size and not _is_plain_key(marks.unique_key)):
            return False
        # Two passes, because a batch is taken as a whole or not at all: the first one checks every message.
        at = 0
        for number in range(messages):
            entry_body = int32(body + at + 16)
            properties.at = body + at + BATCH_HEAD_BYTES + entry_body + 2
            properties.size = int16(properties.at - 2)
            if not read_marks(properties.at, properties.size, False, &own) or own.is_special or own.sequence.size:
                return False
            if not self._fits(properties.size + fields.properties.size):
                return False
            at = properties.at + properties.size - body
        shared_at = run._text_size
        self._add_shared(run, fields.properties, marks.unique_key)
        shared_size = run._text_size - shared_at
        sent = sends._next()
        sent.first_record = run.count
        sent.records = messages
        sent.key_at = run.add_text(marks.unique_key.at, marks.unique_key.size)
        sent.key_size = marks.unique_key.size
        _note_request(sent, head, fields)
        topic_number = run.add_topic(topic.run_topic)
        at = 0
        for number in range(messages):
            entry_body = int32(body + at + 16)
            properties.at = body + at + BATCH_HEAD_BYTES + entry_body + 2
            properties.size = int16(properties.at - 2)
            text_at = self._add_terminated(run, properties)
            run.repeat_text(shared_at, shared_size)
            read_marks(run.text + text_at, properties.size, False, &own)
            run.add(topic_number, <int32_t>fields.queue_id, <int32_t>int32(body + at + 12),
                    <int32_t>(fields.sys_flag | topic.sys_flag), <int32_t>max(fields.reconsume_times, 0),
                    fields.born_ms, body + at + BATCH_HEAD_BYTES, entry_body, text_at, run._text_size - text_at, &own)
            at = properties.at + properties.size - body
        if not _says_wait(marks.wait):
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


cdef inline int _note_request(Sent* sent, Head* head, Fields* fields) noexcept:
    sent.opaque = <int32_t>head.opaque
    sent.queue_id = <int32_t>fields.queue_id
    sent.is_binary = head.is_binary
    sent.is_oneway = head.flag & FLAG_ONEWAY != 0
    return 0


cdef inline void _move(Slice* part, const uint8_t* old, const uint8_t* new) noexcept:
    """Make `part` point at the same place of the copy."""
    if part.size:
        part.at = new + (part.at - old)


cdef bint _says_wait(Slice value) noexcept:
    """True if WAIT is absent or "true"."""
    return value.size == 0 or (value.size == 4 and memcmp(value.at, b"true", 4) == 0)


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


# -- bytes -------------------------------------------------------------------------------------------------------------

cdef inline uint8_t* _put_key(uint8_t* at, const char* key, Py_ssize_t size) noexcept nogil:
    at[0] = 0
    at[1] = <uint8_t>size
    memcpy(at + 2, key, size)
    return at + 2 + size
