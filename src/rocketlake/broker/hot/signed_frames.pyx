"""Signed requests in a received chunk: how far one user has signed, and may send or read, what is there.

Owns        the signature of a plain header, without a dict of fields; what was allowed to the user before.
Must not know   users and policies (auth/), what the requests do: the kernels of plain requests read them again.

Kernel: Cython without a Python form. The ordinary path (auth/signature.py, net/gate/access_gate.py) is the truth: it
serves, or refuses, each request at which `end` stops. tests/parity/test_signed_frames.py feeds both the same requests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.auth.keyed_sha1 cimport DIGEST_BYTES, KeyedSha1
from rocketlake.broker.hot.plain_header cimport FIELDS_MAX, Field, Frame, Head, find_frame, read_header, same
from rocketlake.broker.hot.pops.ack_body cimport ENTRIES_MAX, AckEntry, read_ack_body
from rocketlake.codec.property_scan cimport Slice

__all__ = ["SignedFrames"]

cdef enum:
    PULL_MESSAGE = 11
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    LITE_PULL_MESSAGE = 361
    POP_MESSAGE = 200050
    ACK_MESSAGE = 200051
    BATCH_ACK_MESSAGE = 200151
    RESPONSE_BIT = 1
    SIGNATURE_BYTES = 28
    HEADER_BYTES_MAX = 49152  # as that of plain sends
    CHUNK_BYTES_MAX = 1048576  # looked at in one call
    KNOWN_MAX = 4096

cdef enum Names:
    # Where a request names what it is about.
    NOWHERE
    AS_SEND
    AS_READ
    IN_BODY

cdef const char* _BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef class SignedFrames:
    """Of one user on one host, while accounts do not change.

    `allows(topic, group)`: may the user read the topic with the group, or send to it if `group` is None?
    """

    cdef bytes _user
    cdef KeyedSha1 _key
    cdef object _allows
    cdef dict _known
    cdef bytes _last
    cdef int64_t _frame_bytes_max
    cdef int64_t _header_bytes_max

    def __init__(self, str user, str secret, allows, int64_t frame_bytes_max, int64_t header_bytes_max):
        self._user = user.encode()
        self._key = KeyedSha1(secret.encode())
        self._allows = allows
        self._known = {}
        self._last = b""
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = min(header_bytes_max, HEADER_BYTES_MAX)

    def end(self, bytes chunk, Py_ssize_t position):
        """Where the requests end that start at `position`, are signed by the user and allowed to it."""
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(chunk)
        cdef const uint8_t* at = start + position
        cdef const uint8_t* end = start + min(PyBytes_GET_SIZE(chunk), position + CHUNK_BYTES_MAX)
        cdef Frame frame
        while find_frame(at, end, self._frame_bytes_max, self._header_bytes_max, &frame):
            if not self._is_allowed(&frame):
                break
            at += frame.size
        return at - start

    cdef bint _is_allowed(self, Frame* frame) except -1:
        cdef uint8_t scratch[HEADER_BYTES_MAX]
        cdef Field fields[FIELDS_MAX]
        cdef Head head
        cdef Slice user, signature, topic, group
        cdef int number, count = read_header(frame, &head, fields, scratch)
        cdef Names names = NOWHERE
        if count >= 0 and not head.flag & RESPONSE_BIT:
            names = _names_of(head.code)
        if names == NOWHERE:
            return False
        count = _sort(fields, count)
        if count < 0:
            return False
        user.size = signature.size = topic.size = group.size = 0
        for number in range(count):
            if same(fields[number].name, b"AccessKey", 9):
                user = fields[number].value
            elif same(fields[number].name, b"Signature", 9):
                signature = fields[number].value
                fields[number].value.size = 0  # it does not sign itself
            elif names == AS_SEND and same(fields[number].name, b"b", 1):
                topic = fields[number].value
            elif names == AS_READ and same(fields[number].name, b"topic", 5):
                topic = fields[number].value
            elif names == AS_READ and same(fields[number].name, b"consumerGroup", 13):
                group = fields[number].value
        if user.size != PyBytes_GET_SIZE(self._user) or memcmp(user.at, PyBytes_AS_STRING(self._user), user.size):
            return False
        if signature.size != SIGNATURE_BYTES or not self._has_signed(frame, fields, count, signature):
            return False
        if names == IN_BODY:
            return self._may_all(frame)
        if topic.size == 0 or (names == AS_READ) != (group.size > 0):
            return False
        if head.code == ACK_MESSAGE and _is_retry(topic):
            return False  # a retry topic belongs to its group, the ordinary path knows to which
        return self._may(topic, group)

    cdef bint _has_signed(self, Frame* frame, Field* fields, int count, Slice signature) except -1:
        cdef uint8_t values[HEADER_BYTES_MAX]
        cdef uint8_t digest[DIGEST_BYTES]
        cdef Py_ssize_t size = 0
        cdef int number
        for number in range(count):
            memcpy(values + size, fields[number].value.at, fields[number].value.size)
            size += fields[number].value.size
        self._key.sign(values, size, frame.body, frame.body_size, digest)
        return _is_base64(digest, signature.at)

    cdef bint _may_all(self, Frame* frame) except -1:
        """May the user read what the entries of a body name?"""
        cdef AckEntry entries[ENTRIES_MAX]
        cdef int number, count = read_ack_body(frame.body, frame.body_size, entries)
        for number in range(count):
            if entries[number].topic.size == 0 or entries[number].group.size == 0:
                return False
            if not self._may(entries[number].topic, entries[number].group):
                return False
        return count > 0

    cdef bint _may(self, Slice topic, Slice group) except -1:
        """What was allowed is kept; what was not ends the run each time, and the ordinary path says why."""
        cdef bytes last = self._last
        if (PyBytes_GET_SIZE(last) == topic.size + 1 + group.size
                and memcmp(PyBytes_AS_STRING(last), topic.at, topic.size) == 0
                and PyBytes_AS_STRING(last)[topic.size] == 0
                and memcmp(PyBytes_AS_STRING(last) + topic.size + 1, group.at, group.size) == 0):
            return True
        cdef bytes key = (PyBytes_FromStringAndSize(<const char*>topic.at, topic.size) + b"\0"
                          + PyBytes_FromStringAndSize(<const char*>group.at, group.size))
        if key in self._known:
            self._last = key
            return True
        name, _, reader = key.decode("ascii").partition("\0")
        if not self._allows(name, reader or None):
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = True
        return True


cdef Names _names_of(int64_t code) noexcept:
    if code == SEND_MESSAGE_V2 or code == SEND_BATCH_MESSAGE:
        return AS_SEND
    if code == PULL_MESSAGE or code == LITE_PULL_MESSAGE or code == POP_MESSAGE or code == ACK_MESSAGE:
        return AS_READ
    return IN_BODY if code == BATCH_ACK_MESSAGE else NOWHERE


cdef inline bint _is_retry(Slice topic) noexcept:
    return topic.size >= 7 and memcmp(topic.at, b"%RETRY%", 7) == 0


cdef int _sort(Field* fields, int count) noexcept:
    """Sort by name, each once; returns how many there are, -1 if a name has two values: readers could disagree.

    Java's client with binary headers writes each field twice when it signs: what it signed, and the header of its own.
    """
    cdef int number, place, moved, order, kept = 0
    cdef Field field
    for number in range(count):
        field = fields[number]
        place = kept
        order = 1
        while place:
            order = _compare(fields[place - 1].name, field.name)
            if order <= 0:
                break
            place -= 1
        if order == 0:
            if _compare(fields[place - 1].value, field.value):
                return -1
            continue
        for moved in range(kept, place, -1):
            fields[moved] = fields[moved - 1]
        fields[place] = field
        kept += 1
    return kept


cdef inline int _compare(Slice one, Slice other) noexcept:
    cdef int order
    if one.size and other.size and one.at[0] != other.at[0]:  # most often
        return one.at[0] - other.at[0]
    order = memcmp(one.at, other.at, min(one.size, other.size))
    return order if order else (one.size > other.size) - (one.size < other.size)


cdef bint _is_base64(const uint8_t* digest, const uint8_t* text) noexcept:
    """True if the text is the Base64 form of a digest. The time tells nothing of where they differ."""
    cdef const uint8_t* at = digest
    cdef uint8_t differs = 0
    cdef uint8_t last[3]
    cdef int group, unit
    last[0] = at[18]
    last[1] = at[19]
    last[2] = 0
    for group in range(7):
        if group == 6:
            at = last - 18
        unit = at[3 * group] << 16 | at[3 * group + 1] << 8 | at[3 * group + 2]
        differs |= text[4 * group] ^ <uint8_t>_BASE64[unit >> 18 & 63]
        differs |= text[4 * group + 1] ^ <uint8_t>_BASE64[unit >> 12 & 63]
        differs |= text[4 * group + 2] ^ <uint8_t>_BASE64[unit >> 6 & 63]
        differs |= text[4 * group + 3] ^ (c"=" if group == 6 else <uint8_t>_BASE64[unit & 63])
    return differs == 0
