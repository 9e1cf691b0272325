"""What a run of plain sends holds: its requests, their records, the bytes of their answers.

Owns        which record belongs to which request, the answers (JSON and binary header), the counts of a run.
Must not know   how requests are read and checked (plain_send.pyx, plain_end.pyx), when an answer is due.

Kernel: Cython without a Python form. sends/answer.py and protocol/ write the same answers and are the truth;
tests/parity/test_plain_sends.py compares the bytes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from rocketlake.broker.hot.plain_header cimport PREFIX_BYTES, put, put_prefix
from rocketlake.codec.record_layout cimport store32
from rocketlake.codec.record_run cimport RecordRun, RunTopic, put_number

__all__ = ["AnswerParts", "PlainSends"]


cdef class AnswerParts:
    """The parts that all answers of a broker share, as the ordinary path writes them.

    `json`: the header cut at message id, queue id, queue offset, unique key and opaque (6 parts). `json_handle`: what
    stands between unique key and recall handle, where there is one. `binary`: its first bytes up to the opaque, those
    from behind the opaque up to the length of the fields, and the fields behind the unique key. `address`: the start of
    each message id.
    """

    def __init__(self, tuple json, bytes json_handle, tuple binary, bytes address):
        cdef bytes part
        if len(json) != 6 or len(binary) != 3:
            raise ValueError("the parts of an answer are not complete")
        for part in json:
            pass  # a TypeError for a part that is no bytes: the addresses of the parts are used below
        self.json = json
        self.json_handle = json_handle
        self.binary_start, self.binary_flag, self.binary_tail = binary
        self.address = address


cdef class PlainSends:
    """The plain sends of one chunk, and the ends of transactions between them.

    `run` holds their records; the rest of the chunk starts at `end`. `count`: requests that store messages; `asked`:
    those of them that want an answer. `waits`: False if a sender does not wait for the disk (property WAIT). `marked`:
    (topic, queue id, mark, messages) of each batch that says which messages of its producer it holds. `ended`: (queue
    offset of the half message, is it committed) of each end.
    """

    def __cinit__(self, RecordRun run, AnswerParts parts):
        self.run = run
        self._parts = parts
        self.marked = []
        self.ended = []
        self.waits = True

    def __dealloc__(self):
        PyMem_Free(self._sents)

    cdef Sent* next_sent(self) except NULL:
        """Room for the next request; the caller fills it and counts it."""
        if self.count == self._room:
            self._room = max(2 * self._room, 32)
            grown = PyMem_Realloc(self._sents, self._room * sizeof(Sent))
            if grown == NULL:
                raise MemoryError()
            self._sents = <Sent*>grown
        return &self._sents[self.count]

    def outcomes(self):
        """(opaque, is binary, queue id, unique key, recall handle, queue offset, physical offsets of its records) of each
        request that is not one-way. For answers that are no success."""
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
                found.append((
                    sent.opaque, sent.is_binary, sent.queue_id, self._text(sent.key_at, sent.key_size),
                    self._text(sent.handle_at, sent.handle_size), self.run.records[sent.first_record].queue_offset, offsets,
                ))
        return found

    cdef str _text(self, Py_ssize_t at, Py_ssize_t size):
        return PyBytes_FromStringAndSize(<const char*>self.run.text + at, size).decode("ascii") if size else None

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
        fixed += PyBytes_GET_SIZE(self._parts.json_handle)
        fixed = max(fixed, PyBytes_GET_SIZE(self._parts.binary_tail) + 120) + 60
        for number in range(self.count):
            sent = &self._sents[number]
            if not sent.is_oneway:
                size += fixed + sent.key_size + sent.handle_size + sent.records * (id_bytes + 1)
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
        at += sent.key_size
        if sent.handle_size:
            at = put(at, self._parts.json_handle)
            memcpy(at, self.run.text + sent.handle_at, sent.handle_size)
            at += sent.handle_size
        at = put(at, <bytes>parts[4])
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
        if sent.handle_size:
            at = _put_key(at, b"recallHandle", 12)
            store32(at, sent.handle_size)
            memcpy(at + 4, self.run.text + sent.handle_at, sent.handle_size)
            at += 4 + sent.handle_size
        at = put(at, self._parts.binary_tail)
        store32(fields - 4, at - fields)
        put_prefix(start, at - start - PREFIX_BYTES, 0, 1)
        return at


cdef inline uint8_t* _put_key(uint8_t* at, const char* key, Py_ssize_t size) noexcept nogil:
    at[0] = 0
    at[1] = <uint8_t>size
    memcpy(at + 2, key, size)
    return at + 2 + size
