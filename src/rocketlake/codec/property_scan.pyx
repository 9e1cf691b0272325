"""The property text of a plain send, read without an object per property.

Owns        finding the properties that broker and store use; telling which names leave a send plain.
Must not know   frames, records, the effects of properties that are not plain.

Kernel: Cython without a Python form. property_text.py and model/property_names.py are the truth;
tests/parity/test_property_scan.py compares.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp

from rocketlake.codec.name_set cimport NameSet
from rocketlake.model.property_names import FAMILIES, PLAIN, SYSTEM

__all__ = ["leaves_plain"]

cdef enum:
    NAMES_MAX = 64

# SYSTEM without PLAIN, and the prefixes of names that RocketMQ reserves.
cdef NameSet _plain = NameSet(PLAIN)
cdef NameSet _special = NameSet(SYSTEM - PLAIN)
cdef NameSet _families = NameSet(FAMILIES)


def leaves_plain(bytes name):
    """`property_names.is_plain`, for the test that compares them."""
    return bool(is_plain_name(name, len(name)))


cdef bint is_plain_name(const uint8_t* name, Py_ssize_t size) noexcept:
    """True if a send with a property of this name may be plain."""
    if not _special.may_have(name[0]) and not _families.may_have(name[0]):
        return True
    return _plain.has(name, size) or not (_special.has(name, size) or _families.has_start(name, size))


cdef bint read_marks(
    const uint8_t* text, Py_ssize_t size, bint unique_names, PropertyMarks* marks, ParkMarks* park
) noexcept:
    """Read a property text; False unless it is regular: ASCII, name \\x01 value \\x02 ..., nothing of it empty.

    The last \\x02 may be missing, but not behind a zero byte: store/log_walk.py takes such a record for torn.
    With `unique_names` two equal names make it irregular; without, the last counts.
    `park`: where the properties of a message that is parked go; NULL: they are special like others of RocketMQ's.
    """
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + size
    cdef const uint8_t* middle
    cdef const uint8_t* stop
    cdef uint8_t bits = 0
    cdef Slice names[NAMES_MAX]
    cdef Py_ssize_t count = 0, earlier, name_size
    marks.unique_key.size = marks.keys.size = marks.tags.size = marks.wait.size = marks.sequence.size = 0
    marks.is_special = False
    if park != NULL:
        park.prepared.size = park.group.size = park.transaction_id.size = park.topic.size = park.queue_id.size = 0
        park.time.size = 0
        park.is_stored = False
    for earlier in range(size):
        bits |= text[earlier]
    if bits >= 0x80 or (size and text[size - 1] == 0):
        return False
    while at < end:
        stop = pair_end(at, end, &middle)
        if middle == NULL or middle == at or middle + 1 == stop:
            return False
        if memchr(middle + 1, NAME_END, stop - middle - 1) != NULL:
            return False
        name_size = middle - at
        if unique_names:
            if count == NAMES_MAX:
                return False
            for earlier in range(count):
                if names[earlier].size == name_size and memcmp(names[earlier].at, at, name_size) == 0:
                    return False
            names[count].at = at
            names[count].size = name_size
            count += 1
        if name_size == 4:
            if memcmp(at, b"TAGS", 4) == 0:
                marks.tags.at, marks.tags.size = middle + 1, stop - middle - 1
            elif memcmp(at, b"KEYS", 4) == 0:
                marks.keys.at, marks.keys.size = middle + 1, stop - middle - 1
            elif memcmp(at, b"WAIT", 4) == 0:
                marks.wait.at, marks.wait.size = middle + 1, stop - middle - 1
            elif not is_plain_name(at, 4):
                marks.is_special = True
        elif name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
            marks.unique_key.at, marks.unique_key.size = middle + 1, stop - middle - 1
        elif name_size == 8 and memcmp(at, b"__RL_SEQ", 8) == 0:
            marks.sequence.at, marks.sequence.size = middle + 1, stop - middle - 1
        elif not is_plain_name(at, name_size) and (park == NULL or not _take_park_mark(park, at, middle, stop)):
            marks.is_special = True
        at = stop + 1
    return True


cdef bint _take_park_mark(ParkMarks* park, const uint8_t* name, const uint8_t* middle, const uint8_t* stop) noexcept:
    """Take a property if it is one of a message that is parked. Only one may ask for a time."""
    cdef Py_ssize_t size = middle - name
    cdef Slice value
    value.at = middle + 1
    value.size = stop - middle - 1
    if size == 6 and memcmp(name, b"PGROUP", 6) == 0:
        park.group = value
    elif size == 8 and memcmp(name, b"TRAN_MSG", 8) == 0:
        park.prepared = value
    elif size == 17 and memcmp(name, b"__transactionId__", 17) == 0:
        park.transaction_id = value
    elif size >= 14 and memcmp(name, b"TIMER_DEL", 9) == 0:
        return _take_time(park, name, size, value)
    else:
        park.is_stored = True
        if size == 8 and memcmp(name, b"REAL_QID", 8) == 0:
            park.queue_id = value
        elif size == 10 and memcmp(name, b"REAL_TOPIC", 10) == 0:
            park.topic = value
        else:
            return (
                (size == 7 and memcmp(name, b"CLUSTER", 7) == 0)
                or (size == 8 and memcmp(name, b"TRACE_ON", 8) == 0)
                or (size == 10 and memcmp(name, b"MSG_REGION", 10) == 0)
            )
    return True


cdef bint _take_time(ParkMarks* park, const uint8_t* name, Py_ssize_t size, Slice value) noexcept:
    if park.time.size:
        return False
    if size == 14 and memcmp(name, b"TIMER_DELAY_MS", 14) == 0:
        park.time_kind = DELAY_MS
    elif size == 15 and memcmp(name, b"TIMER_DELAY_SEC", 15) == 0:
        park.time_kind = DELAY_SECONDS
    elif size == 16 and memcmp(name, b"TIMER_DELIVER_MS", 16) == 0:
        park.time_kind = DELIVER_MS
    else:
        return False
    park.time = value
    return True
