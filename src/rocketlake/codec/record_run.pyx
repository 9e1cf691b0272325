"""A run of records: those of one received chunk, encoded together into one buffer.

Owns        the bytes of plain records (record.py's layout), their consume-queue entries, their key hashes and tag
    codes.
Must not know   frames, requests, files, the next offset of a queue.

Kernel: Cython without a Python form, because it makes no Python object per message. record.py, consume_queue/entry.py
and dispatch_scan.py do the same in Python and are the truth; tests/parity/test_plain_sends.py compares the bytes.

Life of a run: it is filled (`add`), learns its queues and their next offsets (`find_queues`, `number`), is encoded
(`encode`), and then gives the entries of each queue and the key pairs. Memory: the run owns its text and its hashes.
Bodies lie in the chunks they came in, which the run keeps until `encode`.

Limits: texts are ASCII, so a byte is a UTF-16 unit of Java's string hash; the cutter of the run checks that.
"""

from array import array

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from rocketlake.base.checksum cimport checksum_of
from rocketlake.base.java.java_hash cimport java_hash
from rocketlake.codec.property_scan cimport PropertyMarks
from rocketlake.codec.record_layout cimport (
    BORN_HOST_AT, BORN_HOST_V6, BORN_MS_AT, CRC_AT, ENTRY_SIZE, FLAG_AT, HOST_BYTES_V4, HOST_BYTES_V6, MAGIC_AT,
    MAGIC_V1, PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, RECORD_BYTES_MIN, STORE_HOST_V6, SYS_FLAG_AT, TOPIC_BYTES_MAX_V1,
    load32, load64, store32, store64,
)

__all__ = ["RecordRun", "RunTopic", "number_records"]

cdef enum:
    FIXED_BYTES = RECORD_BYTES_MIN - 2 * HOST_BYTES_V4  # of a v1 record without hosts, topic, body, properties
    HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6


cdef class RunTopic:
    """A topic as runs know it: its name, ASCII, at most 127 bytes."""

    def __init__(self, str name):
        cdef bytes start
        self.name = name
        self.encoded = name.encode("ascii")
        if not 0 < len(self.encoded) <= TOPIC_BYTES_MAX_V1:
            raise ValueError(f"no topic of a run: {name!r}")
        start = self.encoded + b"#"
        self.hash_start = java_hash(0, <const uint8_t*>PyBytes_AS_STRING(start), PyBytes_GET_SIZE(start))


cdef class RecordRun:
    """Plain records, in the order in which they came. After `encode`: `physical_offset`, `size` and `store_ms`."""

    def __cinit__(self, bytes born_host, bytes store_host):
        """Hosts are encoded, 8 bytes (IPv4) or 20 (IPv6)."""
        self._born_host = born_host
        self.set_born_host(<const uint8_t*>PyBytes_AS_STRING(born_host), PyBytes_GET_SIZE(born_host))
        self._store_host = store_host
        self._topics = []
        self._queues = []
        self._sources = []
        self.physical_offset = -1

    def __dealloc__(self):
        PyMem_Free(self.records)
        PyMem_Free(self._parts)
        PyMem_Free(self.text)
        PyMem_Free(self._hashes)

    def __len__(self):
        return self.count

    # -- filling -------------------------------------------------------------------------------------------------------

    cdef int keep(self, object source) except -1:
        """Keep this object until `encode`: the bodies of the records that are added next lie in it."""
        self._sources.append(source)
        return 0

    cdef int set_born_host(self, const uint8_t* host, Py_ssize_t size) except -1:
        """The records that are added next were born at this host, which lies in a kept source."""
        if size != HOST_BYTES_V4 and size != HOST_BYTES_V6:
            raise ValueError(f"no host has {size} bytes")
        self._born_at = host
        self._born_bytes = size
        return 0

    cdef int add_topic(self, RunTopic topic) except -1:
        """The number of a topic, for `add`."""
        cdef Py_ssize_t number
        for number in range(len(self._topics)):
            if self._topics[number] is topic:
                return <int>number
        self._topics.append(topic)
        return <int>(len(self._topics) - 1)

    cdef Py_ssize_t add_text(self, const uint8_t* text, Py_ssize_t size) except -1:
        """Append text to the text of the run; returns where the new text starts."""
        cdef Py_ssize_t at = self._make_room(size)
        memcpy(self.text + at, text, size)
        return at

    cdef Py_ssize_t repeat_text(self, Py_ssize_t text_at, Py_ssize_t size) except -1:
        """Append a part of the run's own text once more; returns where the copy starts."""
        cdef Py_ssize_t at = self._make_room(size)
        memcpy(self.text + at, self.text + text_at, size)
        return at

    cdef Py_ssize_t _make_room(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t at = self._text_size
        if at + size > self._text_room:
            self._text_room = max(2 * self._text_room, at + size, 4096)
            self.text = <uint8_t*>_grown(self.text, self._text_room)
        self._text_size = at + size
        return at

    cdef int add(self, int topic, int32_t queue_id, int32_t flag, int32_t sys_flag, int32_t reconsume_times,
                 int64_t born_ms, const uint8_t* body, Py_ssize_t body_size, Py_ssize_t properties_at,
                 Py_ssize_t properties_size, PropertyMarks* marks) except -1:
        """Add one record. Its property text is in the run, its body in a kept source; `marks` point into that text."""
        cdef Record* record
        cdef RunTopic of = <RunTopic>self._topics[topic]
        if self.count == self._room:
            self._room = max(2 * self._room, 32)
            self.records = <Record*>_grown(self.records, self._room * sizeof(Record))
        record = &self.records[self.count]
        record.body = body
        record.body_size = body_size
        record.properties_at = properties_at
        record.properties_size = properties_size
        record.flag = flag
        record.sys_flag = sys_flag & ~HOST_BITS
        record.born_host = self._born_at
        if self._born_bytes > HOST_BYTES_V4:
            record.sys_flag |= BORN_HOST_V6
        if PyBytes_GET_SIZE(self._store_host) > HOST_BYTES_V4:
            record.sys_flag |= STORE_HOST_V6
        record.reconsume_times = reconsume_times
        record.born_ms = born_ms
        record.prepared_offset = 0
        record.tag_code = <int32_t>java_hash(0, marks.tags.at, marks.tags.size)
        record.size = (FIXED_BYTES + self._born_bytes + PyBytes_GET_SIZE(self._store_host)
                       + PyBytes_GET_SIZE(of.encoded) + body_size + properties_size)
        record.part = self._part(topic, queue_id)
        record.first_key = self._hash_count
        if marks.unique_key.size:
            self._add_hash(of.hash_start, marks.unique_key.at, marks.unique_key.size)
        if marks.keys.size:
            self._add_words(of.hash_start, marks.keys.at, marks.keys.size)
        record.keys = self._hash_count - record.first_key
        self._parts[record.part].count += 1
        self.count += 1
        self.size += record.size
        return 0

    cdef int _part(self, int topic, int32_t queue_id) except -1:
        cdef Py_ssize_t number
        for number in range(self._part_count):
            if self._parts[number].queue_id == queue_id and self._parts[number].topic == topic:
                return <int>number
        if self._part_count == self._part_room:
            self._part_room = max(2 * self._part_room, 16)
            self._parts = <Part*>_grown(self._parts, self._part_room * sizeof(Part))
        self._parts[self._part_count].topic = topic
        self._parts[self._part_count].queue_id = queue_id
        self._parts[self._part_count].count = 0
        self._part_count += 1
        return <int>(self._part_count - 1)

    cdef int _add_words(self, uint32_t hash_start, const uint8_t* keys, Py_ssize_t size) except -1:
        """A hash for each word of the property KEYS."""
        cdef Py_ssize_t start = 0, position
        for position in range(size + 1):
            if position == size or keys[position] == c" ":
                if position > start:
                    self._add_hash(hash_start, keys + start, position - start)
                start = position + 1
        return 0

    cdef int _add_hash(self, uint32_t hash_start, const uint8_t* key, Py_ssize_t size) except -1:
        """The number of layout.key_hash: the absolute Java hash of "topic#key"."""
        cdef int32_t value = <int32_t>java_hash(hash_start, key, size)
        if self._hash_count == self._hash_room:
            self._hash_room = max(2 * self._hash_room, 32)
            self._hashes = <int64_t*>_grown(self._hashes, self._hash_room * sizeof(int64_t))
        self._hashes[self._hash_count] = value if value >= 0 else -<int64_t>value if value != -2147483648 else 0
        self._hash_count += 1
        return 0

    # -- encoding ------------------------------------------------------------------------------------------------------

    def find_queues(self, find):
        """Find the consume queues of the records: `find(topic, queue id)` gives each."""
        cdef Py_ssize_t number
        cdef list queues = []
        for number in range(self._part_count):
            queues.append(find((<RunTopic>self._topics[self._parts[number].topic]).name, self._parts[number].queue_id))
        self._queues = queues

    def number(self):
        """Number the records from the next offsets of their queues. No other append to these queues before
        `take_numbers`."""
        cdef Py_ssize_t number
        for number in range(self._part_count):
            self._parts[number].queue_offset = self._queues[number].next_offset

    def take_numbers(self):
        """The records are in the log: their queue offsets are given away."""
        cdef Py_ssize_t number
        for number in range(self._part_count):
            self._queues[number].next_offset = self._parts[number].queue_offset + self._parts[number].count

    def encode(self, int64_t physical_offset, int64_t store_ms):
        """The records as they lie in the log from `physical_offset` on."""
        cdef bytes encoded = PyBytes_FromStringAndSize(NULL, self.size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(encoded)
        cdef uint8_t* start = at
        cdef const uint8_t* store_host = <const uint8_t*>PyBytes_AS_STRING(self._store_host)
        cdef Py_ssize_t born_bytes
        cdef Py_ssize_t store_bytes = PyBytes_GET_SIZE(self._store_host)
        cdef Py_ssize_t number, topic_bytes
        cdef Record* record
        cdef RunTopic topic
        self.physical_offset = physical_offset
        self.store_ms = store_ms
        self._number_records()
        for number in range(self.count):
            record = &self.records[number]
            topic = <RunTopic>self._topics[self._parts[record.part].topic]
            topic_bytes = PyBytes_GET_SIZE(topic.encoded)
            record.physical_offset = physical_offset + (at - start)
            store32(at, record.size)
            store32(at + MAGIC_AT, MAGIC_V1)
            store32(at + CRC_AT, checksum_of(record.body, record.body_size) & 0x7FFFFFFF)
            store32(at + QUEUE_ID_AT, self._parts[record.part].queue_id)
            store32(at + FLAG_AT, record.flag)
            store64(at + QUEUE_OFFSET_AT, record.queue_offset)
            store64(at + PHYSICAL_OFFSET_AT, record.physical_offset)
            store32(at + SYS_FLAG_AT, record.sys_flag)
            store64(at + BORN_MS_AT, record.born_ms)
            at += BORN_HOST_AT
            born_bytes = HOST_BYTES_V6 if record.sys_flag & BORN_HOST_V6 else HOST_BYTES_V4
            memcpy(at, record.born_host, born_bytes)
            at += born_bytes
            store64(at, store_ms)
            at += 8
            memcpy(at, store_host, store_bytes)
            at += store_bytes
            store32(at, record.reconsume_times)
            store64(at + 4, record.prepared_offset)
            store32(at + 12, record.body_size)
            at += 16
            memcpy(at, record.body, record.body_size)
            at += record.body_size
            at[0] = <uint8_t>topic_bytes
            at += 1
            memcpy(at, PyBytes_AS_STRING(topic.encoded), topic_bytes)
            at += topic_bytes
            at[0] = <uint8_t>(record.properties_size >> 8)
            at[1] = <uint8_t>record.properties_size
            at += 2
            memcpy(at, self.text + record.properties_at, record.properties_size)
            at += record.properties_size
            record.body = record.born_host = NULL
        if at - start != self.size:
            raise AssertionError(f"a run of {self.size} bytes was encoded in {at - start}")
        self._sources.clear()
        self._encode_entries()
        return encoded

    cdef int _number_records(self) except -1:
        """Give each record its queue offset, and each part the number of its first entry."""
        cdef Py_ssize_t number, first = 0
        cdef Record* record
        for number in range(self._part_count):
            self._parts[number].first = first
            first += self._parts[number].count
            self._parts[number].count = 0
        for number in range(self.count):
            record = &self.records[number]
            record.queue_offset = self._parts[record.part].queue_offset + self._parts[record.part].count
            self._parts[record.part].count += 1
        return 0

    cdef int _encode_entries(self) except -1:
        cdef bytes entries = PyBytes_FromStringAndSize(NULL, self.count * ENTRY_SIZE)
        cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(entries)
        cdef uint8_t* at
        cdef Py_ssize_t number
        cdef Record* record
        cdef Part* part
        for number in range(self.count):
            record = &self.records[number]
            part = &self._parts[record.part]
            at = start + ENTRY_SIZE * (part.first + (record.queue_offset - part.queue_offset))
            store64(at, record.physical_offset)
            store32(at + 8, record.size)
            store64(at + 12, record.tag_code)
        self._entries = entries
        return 0

    # -- entries, keys, arrivals: after `encode` -----------------------------------------------------------------------

    def entries(self):
        """(consume queue, first queue offset, entries, end of the last record) of each queue."""
        cdef Py_ssize_t number
        cdef Part* part
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(self._entries)
        cdef list found = []
        for number in range(self._part_count):
            part = &self._parts[number]
            at = start + ENTRY_SIZE * part.first
            found.append((
                self._queues[number],
                part.queue_offset,
                PyBytes_FromStringAndSize(<const char*>at, ENTRY_SIZE * part.count),
                <int64_t>load64(at + ENTRY_SIZE * (part.count - 1)) + load32(at + ENTRY_SIZE * (part.count - 1) + 8),
            ))
        return found

    def key_stretches(self):
        """(array('q') of hash, physical offset, hash, ... in the order of the log, store time): all have one time."""
        cdef Py_ssize_t number, key
        cdef Record* record
        cdef bytes pairs = PyBytes_FromStringAndSize(NULL, 16 * self._hash_count)
        cdef int64_t* at = <int64_t*>PyBytes_AS_STRING(pairs)
        for number in range(self.count):
            record = &self.records[number]
            for key in range(record.first_key, record.first_key + record.keys):
                at[0] = self._hashes[key]
                at[1] = record.physical_offset
                at += 2
        return ((array("q", pairs), self.store_ms),)

    def arrivals(self, str topic, int32_t queue_id):
        """(next queue offset, tag code) of each record of a queue."""
        cdef Py_ssize_t number
        return [
            (self.records[number].queue_offset + 1, self.records[number].tag_code)
            for number in range(self.count)
            if self._parts[self.records[number].part].queue_id == queue_id
            and (<RunTopic>self._topics[self._parts[self.records[number].part].topic]).name == topic
        ]


def number_records(bytearray records, object starts, Py_ssize_t offsets_at, Py_ssize_t store_ms_at,
                   int64_t queue_offset, int64_t physical_offset, int64_t store_ms):
    """Write queue offset, physical offset and store time into records that lie back to back. `starts`: where each of
    them starts; the first one gets these offsets. Python form: store/large_batch.py."""
    cdef uint8_t* data = <uint8_t*>PyByteArray_AS_STRING(records)
    cdef const int64_t[::1] begins = starts
    cdef Py_ssize_t number, size = len(records)
    cdef Py_ssize_t last = max(offsets_at + 16, store_ms_at + 8)
    for number in range(begins.shape[0]):
        if not 0 <= begins[number] <= size - last:
            raise ValueError(f"no record begins at {begins[number]}")
        store64(data + begins[number] + offsets_at, queue_offset + number)
        store64(data + begins[number] + offsets_at + 8, physical_offset + begins[number])
        store64(data + begins[number] + store_ms_at, store_ms)


cdef void* _grown(void* block, Py_ssize_t size) except NULL:
    cdef void* grown = PyMem_Realloc(block, size)
    if grown == NULL:
        raise MemoryError()
    return grown


cdef Py_ssize_t put_number(uint8_t* target, int64_t value) noexcept:
    """Decimal digits of a number that is not negative; returns how many. `target` has room for 19."""
    cdef uint8_t digits[20]
    cdef Py_ssize_t count = 0, position
    while True:
        digits[count] = <uint8_t>(48 + value % 10)
        count += 1
        value //= 10
        if value == 0:
            break
    for position in range(count):
        target[position] = digits[count - 1 - position]
    return count
