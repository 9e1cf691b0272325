"""Bodies of plain acknowledgements of many messages, read without an object per entry.

Owns        which bodies are plain: regular, of messages that lie in the topic that was popped, as clients write them.
Must not know   frames, records, queues.

Kernel: Cython without a Python form. protocol/bodies/pop.py is the truth: it reads, or refuses, each body that is not
plain. tests/parity/test_plain_acks.py feeds both the same bodies.
"""

from libc.stdint cimport int64_t, uint8_t

from rocketlake.broker.hot.plain_header cimport read_number, same
from rocketlake.codec.property_scan cimport Slice

__all__: list = []

cdef enum:
    SEEN_ALL = 0x1FF  # of AckEntry.seen
    SEEN_ENTRIES = 1
    SEEN_BROKER = 2


cdef int read_ack_body(const uint8_t* body, Py_ssize_t size, AckEntry* entries) noexcept:
    """Read the entries of a body; returns how many they are, -1 if the body is not plain."""
    cdef const uint8_t* at = body
    cdef const uint8_t* end = body + size
    cdef Slice name, value
    cdef int seen = 0, count = 0
    if at == end or at[0] != c"{":
        return -1
    while True:  # at "{" or ","
        at = _string(at + 1, end, &name)
        if at == NULL or at == end or at[0] != c":":
            return -1
        at += 1
        if same(name, b"acks", 4) and not seen & SEEN_ENTRIES:
            seen |= SEEN_ENTRIES
            at = _list(at, end, entries, &count)
        elif same(name, b"brokerName", 10) and not seen & SEEN_BROKER:
            seen |= SEEN_BROKER
            at = _string(at, end, &value)
        else:
            return -1
        if at == NULL or at == end:
            return -1
        if at[0] != c",":
            break
    return count if at[0] == c"}" and at + 1 == end and seen & SEEN_ENTRIES else -1


cdef int read_bits(Slice text, int64_t* numbers, int most) noexcept:
    """The numbers of the bits that are set, in order; returns how many, -1 if the text is not plain Base64, if a number
    is not below `most`, or if bytes behind it follow."""
    cdef Py_ssize_t position
    cdef int count = 0, bit, held = 0, digit, byte
    cdef int bits = 0, number = 0
    cdef Py_ssize_t size = text.size
    if size % 4 or size > most // 6 + 4:
        return -1
    while size > text.size - 2 and size > 0 and text.at[size - 1] == c"=":
        size -= 1
    for position in range(size):
        digit = _digit(text.at[position])
        if digit < 0:
            return -1
        bits = (bits << 6 | digit) & 0xFFFF
        held += 6
        if held < 8:
            continue
        held -= 8
        byte = bits >> held & 0xFF
        for bit in range(8):
            if byte >> bit & 1:
                if number + bit >= most:
                    return -1
                numbers[count] = number + bit
                count += 1
        number += 8
    # Bits behind the last byte are none of it.
    return count if not bits & (1 << held) - 1 else -1


cdef const uint8_t* _list(const uint8_t* at, const uint8_t* end, AckEntry* entries, int* count) noexcept:
    if at == end or at[0] != c"[":
        return NULL
    while count[0] < ENTRIES_MAX:  # at "[" or ","
        at = _entry(at + 1, end, &entries[count[0]])
        if at == NULL or at == end:
            return NULL
        count[0] += 1
        if at[0] != c",":
            return at + 1 if at[0] == c"]" else NULL
    return NULL


cdef const uint8_t* _entry(const uint8_t* at, const uint8_t* end, AckEntry* entry) noexcept:
    cdef Slice name, text
    cdef int64_t number = 0
    cdef int bit
    entry.seen = 0
    if at == end or at[0] != c"{":
        return NULL
    while True:  # at "{" or ","
        at = _string(at + 1, end, &name)
        if at == NULL or end - at < 2 or at[0] != c":":
            return NULL
        at += 1
        if at[0] == c'"':
            at = _string(at, end, &text)
            bit = _take_text(entry, name, text)
        else:
            text.at = at
            while at < end and c"0" <= at[0] <= c"9":
                at += 1
            text.size = at - text.at
            # Names first: a queue id is an int32, the other numbers are longs.
            if not read_number(text, 10 if same(name, b"q", 1) or same(name, b"rq", 2) else 18, &number):
                return NULL
            bit = _take_number(entry, name, number)
        if at == NULL or at == end or bit == 0 or entry.seen & bit:
            return NULL
        entry.seen |= bit
        if at[0] != c",":
            break
    if at[0] != c"}" or entry.seen != SEEN_ALL or not same(entry.retry, b"0", 1):
        return NULL
    return at + 1


cdef int _take_text(AckEntry* entry, Slice name, Slice text) noexcept:
    """The member's bit; 0 for one that is not known."""
    if same(name, b"b", 1):
        entry.bits = text
        return 1
    if same(name, b"c", 1):
        entry.group = text
        return 2
    if same(name, b"r", 1):
        entry.retry = text
        return 4
    if same(name, b"t", 1):
        entry.topic = text
        return 8
    return 0


cdef int _take_number(AckEntry* entry, Slice name, int64_t number) noexcept:
    """The same."""
    if same(name, b"it", 2):
        entry.invisible_ms = number
        return 16
    if same(name, b"pt", 2):
        entry.pop_ms = number
        return 32
    if same(name, b"q", 1):
        entry.queue_id = number
        return 64
    if same(name, b"rq", 2):
        entry.revive_queue = number
        return 128
    if same(name, b"so", 2):
        entry.start_offset = number
        return 256
    return 0


cdef const uint8_t* _string(const uint8_t* at, const uint8_t* end, Slice* text) noexcept:
    """Read a string without escapes; returns where it ends, NULL for any other."""
    if at == end or at[0] != c'"':
        return NULL
    at += 1
    text.at = at
    while at < end and at[0] != c'"':
        if at[0] < 0x20 or at[0] >= 0x7F or at[0] == c"\\":
            return NULL
        at += 1
    text.size = at - text.at
    return at + 1 if at < end else NULL


cdef int _digit(uint8_t letter) noexcept:
    if c"A" <= letter <= c"Z":
        return letter - c"A"
    if c"a" <= letter <= c"z":
        return letter - c"a" + 26
    if c"0" <= letter <= c"9":
        return letter - c"0" + 52
    return 62 if letter == c"+" else 63 if letter == c"/" else -1
