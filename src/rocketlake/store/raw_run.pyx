"""Records as another store has encoded them: one walk over their bytes checks them and finds what queues and index take.

Owns        the checks of a record (those of dispatch_scan.py), rows of one queue, key hashes, tag codes; without an
            object a record.
Must not know   files, who sent the bytes, when queues and index are written.

Kernel: Cython without a Python form. dispatch_scan.py and entry_run.py are the truth and do the same where it is missing;
tests/parity/test_raw_run.py compares. A record with a topic, tag or key that is not ASCII is left to them.
"""

from array import array

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from rocketlake.base.checksum cimport checksum_of
from rocketlake.base.java.java_hash cimport java_hash
from rocketlake.codec.record_layout cimport (
    BODY_AT, BODY_LENGTH_AT, BORN_HOST_V6, CRC_AT, ENTRY_SIZE, HOST_V6_MORE, MAGIC_AT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2,
    PHYSICAL_OFFSET_AT, PROPERTIES_BYTES_MAX, QUEUE_ID_AT, QUEUE_OFFSET_AT, QUEUE_OFFSET_MAX, RECORD_BYTES_MIN,
    STORE_HOST_V6, STORE_MS_AT, SYS_FLAG_AT, TOPIC_BYTES_MAX, TOPIC_BYTES_MAX_V1, load16, load32, load64, store32, store64,
)

__all__ = ["OTHER", "RawRun", "scan_run"]

OTHER = 4
"""A whole record that this scan does not take apart."""

cdef enum:
    # As in dispatch_scan.py.
    END = 0
    BLANK = 1
    BROKEN = 2
    BAD_LENGTH = 3
    NOT_PLAIN = 4
    FOUND = 5

cdef enum:
    BUCKETS = 256
    TRANSACTION_MASK = 12
    TRANSACTION_PREPARED = 4
    TRANSACTION_ROLLBACK = 12
    UNKNOWN_LEVEL_MS = 1000
    LEVEL_DIGITS_MAX = 9
    VALUE_END = 2

cdef struct Text:
    const uint8_t* at
    Py_ssize_t size

cdef struct Found:
    # One record: where it ends, and what queues and index want of it.
    Text topic
    Text tags
    Text keys
    Text unique_key
    Text level
    int64_t queue_offset
    int64_t store_ms
    int32_t queue_id
    int32_t sys_flag

cdef struct Row:
    # Records of one queue whose queue offsets follow each other.
    int topic
    int32_t queue_id
    int next  # in its bucket, -1 at its end
    Py_ssize_t count
    Py_ssize_t first  # number of its first entry
    int64_t queue_offset  # of its first record
    int64_t end_physical

cdef struct Entry:
    int row
    int64_t number  # in its row
    int64_t physical_offset
    int64_t tag_code
    int32_t size

cdef struct Stretch:
    # Keys of records of one store time: the key index notes one time for what it takes together.
    Py_ssize_t pairs_end
    int64_t store_ms


cdef class RawRun:
    """One or more records, back to back, in one file."""

    cdef readonly long long physical_offset
    cdef readonly long long size
    cdef readonly long long store_ms
    """Store time of the last record."""
    cdef Py_ssize_t _count
    cdef list _topics
    cdef dict _numbers
    cdef list _queues
    cdef bytes _topic  # of the newest record
    cdef int _topic_number
    cdef uint32_t _hash_start
    cdef Row* _rows
    cdef Py_ssize_t _row_count
    cdef Py_ssize_t _row_room
    cdef Entry* _entries
    cdef Py_ssize_t _entry_count
    cdef Py_ssize_t _entry_room
    cdef int64_t* _pairs
    cdef Py_ssize_t _pair_count
    cdef Py_ssize_t _pair_room
    cdef Stretch* _stretches
    cdef Py_ssize_t _stretch_count
    cdef Py_ssize_t _stretch_room
    cdef int _buckets[BUCKETS]

    def __cinit__(self):
        cdef int number
        self._topics = []
        self._numbers = {}
        self._queues = []
        self._topic = b""
        for number in range(BUCKETS):
            self._buckets[number] = -1

    def __dealloc__(self):
        PyMem_Free(self._rows)
        PyMem_Free(self._entries)
        PyMem_Free(self._pairs)
        PyMem_Free(self._stretches)

    def __len__(self):
        return self._count

    # -- filling -------------------------------------------------------------------------------------------------------

    cdef int _add(self, const Found* found, int64_t physical_offset, int32_t size, delays_ms) except -1:
        cdef int32_t kind = found.sys_flag & TRANSACTION_MASK
        cdef int topic = self._number_of(found.topic)
        cdef Row* row
        cdef Entry* entry
        cdef int64_t tag_code
        if kind != TRANSACTION_ROLLBACK:
            if found.unique_key.size:
                self._add_key(found.unique_key.at, found.unique_key.size, physical_offset, found.store_ms)
            if found.keys.size:
                self._add_words(found.keys.at, found.keys.size, physical_offset, found.store_ms)
            if kind != TRANSACTION_PREPARED:
                tag_code = _delay_ms(found.level, delays_ms) if found.level.size else 0
                if tag_code:
                    tag_code += found.store_ms
                else:
                    tag_code = <int32_t>java_hash(0, found.tags.at, found.tags.size)
                if self._entry_count == self._entry_room:
                    self._entry_room = max(2 * self._entry_room, 256)
                    self._entries = <Entry*>_grown(self._entries, self._entry_room * sizeof(Entry))
                entry = &self._entries[self._entry_count]
                self._entry_count += 1
                entry.row = self._row(topic, found.queue_id, found.queue_offset)
                row = &self._rows[entry.row]
                entry.number = row.count
                entry.physical_offset = physical_offset
                entry.tag_code = tag_code
                entry.size = size
                row.count += 1
                row.end_physical = physical_offset + size
        self._count += 1
        self.size += size
        self.store_ms = found.store_ms
        return 0

    cdef int _number_of(self, Text topic) except -1:
        """The number of a topic; the hash of its keys begins with it."""
        cdef bytes start
        if len(self._topic) != topic.size or memcmp(PyBytes_AS_STRING(self._topic), topic.at, topic.size) != 0:
            self._topic = PyBytes_FromStringAndSize(<const char*>topic.at, topic.size)
            start = self._topic + b"#"
            self._hash_start = java_hash(0, <const uint8_t*>PyBytes_AS_STRING(start), len(start))
            self._topic_number = self._numbers.setdefault(self._topic, len(self._topics))
            if self._topic_number == len(self._topics):
                self._topics.append(self._topic.decode("ascii"))
        return self._topic_number

    cdef int _row(self, int topic, int32_t queue_id, int64_t queue_offset) except -1:
        """The number of the row that this record goes on, or begins."""
        cdef uint32_t bucket = (<uint32_t>queue_id + 31 * <uint32_t>topic) % BUCKETS
        cdef int number = self._buckets[bucket]
        cdef Row* row
        while number >= 0:
            row = &self._rows[number]
            if row.queue_id == queue_id and row.topic == topic:  # the newest of its queue: older ones are behind it
                if row.queue_offset + row.count == queue_offset:
                    return number
                break
            number = row.next
        if self._row_count == self._row_room:
            self._row_room = max(2 * self._row_room, 32)
            self._rows = <Row*>_grown(self._rows, self._row_room * sizeof(Row))
        row = &self._rows[self._row_count]
        row.topic, row.queue_id, row.queue_offset, row.count = topic, queue_id, queue_offset, 0
        row.next = self._buckets[bucket]
        self._buckets[bucket] = <int>self._row_count
        self._row_count += 1
        return <int>(self._row_count - 1)

    cdef int _add_words(self, const uint8_t* keys, Py_ssize_t size, int64_t physical_offset, int64_t store_ms) except -1:
        """A key for each word of the property KEYS."""
        cdef Py_ssize_t start = 0, position
        for position in range(size + 1):
            if position == size or keys[position] == c" ":
                if position > start:
                    self._add_key(keys + start, position - start, physical_offset, store_ms)
                start = position + 1
        return 0

    cdef int _add_key(self, const uint8_t* key, Py_ssize_t size, int64_t physical_offset, int64_t store_ms) except -1:
        """The hash is the number of layout.key_hash: the absolute Java hash of "topic#key"."""
        cdef int32_t value = <int32_t>java_hash(self._hash_start, key, size)
        cdef Stretch* stretch
        if self._stretch_count == 0 or self._stretches[self._stretch_count - 1].store_ms != store_ms:
            if self._stretch_count == self._stretch_room:
                self._stretch_room = max(2 * self._stretch_room, 16)
                self._stretches = <Stretch*>_grown(self._stretches, self._stretch_room * sizeof(Stretch))
            self._stretches[self._stretch_count].store_ms = store_ms
            self._stretch_count += 1
        if self._pair_count + 2 > self._pair_room:
            self._pair_room = max(2 * self._pair_room, 512)
            self._pairs = <int64_t*>_grown(self._pairs, self._pair_room * sizeof(int64_t))
        self._pairs[self._pair_count] = value if value >= 0 else -<int64_t>value if value != -2147483648 else 0
        self._pairs[self._pair_count + 1] = physical_offset
        self._pair_count += 2
        stretch = &self._stretches[self._stretch_count - 1]
        stretch.pairs_end = self._pair_count
        return 0

    # -- what queues and index take ------------------------------------------------------------------------------------

    def find_queues(self, find):
        """Find the queue of each row, and have it give out none of these queue offsets itself."""
        cdef Py_ssize_t number
        cdef list queues = []
        for number in range(self._row_count):
            queues.append(find(self._topics[self._rows[number].topic], self._rows[number].queue_id))
        for number, queue in enumerate(queues):
            if queue is not None:
                queue.next_offset = max(queue.next_offset, self._rows[number].queue_offset + self._rows[number].count)
        self._queues = queues

    def entries(self):
        """(consume queue, first queue offset, entries, end of the last record) of each row."""
        cdef Py_ssize_t number, first = 0
        cdef bytes packed = PyBytes_FromStringAndSize(NULL, self._entry_count * ENTRY_SIZE)
        cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(packed)
        cdef uint8_t* at
        cdef Entry* entry
        cdef Row* row
        cdef list found = []
        for number in range(self._row_count):
            self._rows[number].first = first
            first += self._rows[number].count
        for number in range(self._entry_count):
            entry = &self._entries[number]
            at = start + ENTRY_SIZE * (self._rows[entry.row].first + entry.number)
            store64(at, entry.physical_offset)
            store32(at + 8, entry.size)
            store64(at + 12, entry.tag_code)
        for number in range(self._row_count):
            row = &self._rows[number]
            part = PyBytes_FromStringAndSize(<const char*>(start + ENTRY_SIZE * row.first), ENTRY_SIZE * row.count)
            found.append((self._queues[number], row.queue_offset, part, row.end_physical))
        return found

    def key_stretches(self):
        """(array('q') of hash, physical offset, hash, ..., store time) for the records of each time, in log order."""
        cdef Py_ssize_t number, begin = 0
        cdef list found = []
        for number in range(self._stretch_count):
            stretch = &self._stretches[number]
            pairs = PyBytes_FromStringAndSize(<const char*>(self._pairs + begin), 8 * (stretch.pairs_end - begin))
            found.append((array("q", pairs), stretch.store_ms))
            begin = stretch.pairs_end
        return found

    def arrivals(self, str topic, int32_t queue_id):
        """(next queue offset, tag code) of each record of a queue."""
        cdef Py_ssize_t number
        cdef Row* row
        cdef list found = []
        for number in range(self._entry_count):
            row = &self._rows[self._entries[number].row]
            if row.queue_id == queue_id and self._topics[row.topic] == topic:
                found.append((row.queue_offset + self._entries[number].number + 1, self._entries[number].tag_code))
        return found


def scan_run(const uint8_t[::1] data, int64_t base_offset, bint check_crc, delays_ms):
    """The records from the start of `data`, which lies at physical offset `base_offset`, as dispatch_scan.scan.

    Returns (RawRun, bytes taken, END | BLANK | BROKEN | BAD_LENGTH | OTHER).
    """
    cdef RawRun run = RawRun()
    cdef Found found
    cdef Py_ssize_t position = 0, size = data.shape[0]
    cdef const uint8_t* start = &data[0] if size else NULL
    cdef int status
    run.physical_offset = base_offset
    while True:
        status = _read(start + position, size - position, base_offset + position, check_crc, &found)
        if status != FOUND:
            return run, position, status
        if found.topic.size != 19 or memcmp(found.topic.at, b"SCHEDULE_TOPIC_XXXX", 19) != 0:
            found.level.size = 0
        run._add(&found, base_offset + position, <int32_t>load32(start + position), delays_ms)
        position += load32(start + position)


cdef int _read(const uint8_t* at, Py_ssize_t left, int64_t offset, bint check_crc, Found* found) noexcept:
    """The record at `at`, of which `left` bytes are there; every length inside is checked before it is used."""
    cdef int64_t size, body, body_size, topic, topic_size, properties, properties_size
    cdef uint32_t magic
    if left < 8:
        return END
    size, magic = <int32_t>load32(at), load32(at + MAGIC_AT)
    if magic == <uint32_t>MAGIC_BLANK:
        return BLANK
    if (magic != <uint32_t>MAGIC_V1 and magic != <uint32_t>MAGIC_V2) or size < RECORD_BYTES_MIN:
        return BROKEN
    if left < size:
        return END
    found.sys_flag = <int32_t>load32(at + SYS_FLAG_AT)
    body = BODY_AT
    if found.sys_flag & BORN_HOST_V6:
        body += HOST_V6_MORE
    if found.sys_flag & STORE_HOST_V6:
        body += HOST_V6_MORE
    if body + 3 > size:
        return BAD_LENGTH
    found.queue_id, found.queue_offset = <int32_t>load32(at + QUEUE_ID_AT), <int64_t>load64(at + QUEUE_OFFSET_AT)
    if <int64_t>load64(at + PHYSICAL_OFFSET_AT) != offset or found.queue_id < 0:
        return BROKEN
    if not 0 <= found.queue_offset <= QUEUE_OFFSET_MAX:
        return BROKEN
    body_size = <int32_t>load32(at + body - (BODY_AT - BODY_LENGTH_AT))
    topic = body + body_size + (1 if magic == <uint32_t>MAGIC_V1 else 2)
    if body_size < 0 or topic + 2 > size:
        return BAD_LENGTH
    topic_size = at[topic - 1] if magic == <uint32_t>MAGIC_V1 else load16(at + topic - 2)
    properties = topic + topic_size + 2
    if topic_size == 0 or properties > size:
        return BAD_LENGTH
    if topic_size > (TOPIC_BYTES_MAX_V1 if magic == <uint32_t>MAGIC_V1 else TOPIC_BYTES_MAX):
        return BAD_LENGTH
    properties_size = load16(at + properties - 2)
    if properties_size > PROPERTIES_BYTES_MAX or properties + properties_size != size:
        return BAD_LENGTH
    if check_crc and body_size > 0:
        if (checksum_of(at + body, body_size) & 0x7FFFFFFF) != load32(at + CRC_AT):
            return BROKEN
    found.store_ms = <int64_t>load64(at + STORE_MS_AT + (HOST_V6_MORE if found.sys_flag & BORN_HOST_V6 else 0))
    found.topic.at, found.topic.size = at + topic, topic_size
    _read_properties(at + properties, properties_size, found)
    if not (_is_ascii(found.topic) and _is_ascii(found.tags) and _is_ascii(found.keys) and _is_ascii(found.unique_key)):
        return NOT_PLAIN
    return FOUND


cdef void _read_properties(const uint8_t* text, Py_ssize_t size, Found* found) noexcept:
    """The values that are wanted. Of equal names the last counts; an empty value is none."""
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + size
    cdef const uint8_t* stop
    found.tags.size = found.keys.size = found.unique_key.size = found.level.size = 0
    while at < end:
        stop = <const uint8_t*>memchr(at, VALUE_END, end - at)
        if stop == NULL:
            stop = end
        if stop - at > 5 and memcmp(at, b"TAGS\x01", 5) == 0:
            found.tags.at, found.tags.size = at + 5, stop - at - 5
        elif stop - at > 5 and memcmp(at, b"KEYS\x01", 5) == 0:
            found.keys.at, found.keys.size = at + 5, stop - at - 5
        elif stop - at > 9 and memcmp(at, b"UNIQ_KEY\x01", 9) == 0:
            found.unique_key.at, found.unique_key.size = at + 9, stop - at - 9
        elif stop - at > 6 and memcmp(at, b"DELAY\x01", 6) == 0:
            found.level.at, found.level.size = at + 6, stop - at - 6
        at = stop + 1


cdef bint _is_ascii(Text text) noexcept:
    cdef uint8_t bits = 0
    cdef Py_ssize_t position
    for position in range(text.size):
        bits |= text.at[position]
    return bits < 0x80


cdef int64_t _delay_ms(Text level, delays_ms) except -1:
    """How long a delayed message waits, 0 if the text is no level. A level above the highest becomes the highest."""
    cdef int64_t number = 0
    cdef Py_ssize_t position
    if level.size > LEVEL_DIGITS_MAX:
        return 0
    for position in range(level.size):
        if not c"0" <= level.at[position] <= c"9":
            return 0
        number = 10 * number + level.at[position] - c"0"
    if number == 0:
        return 0
    return delays_ms[min(number, len(delays_ms)) - 1] if len(delays_ms) else UNKNOWN_LEVEL_MS


cdef void* _grown(void* block, Py_ssize_t size) except NULL:
    cdef void* grown = PyMem_Realloc(block, size)
    if grown == NULL:
        raise MemoryError()
    return grown
