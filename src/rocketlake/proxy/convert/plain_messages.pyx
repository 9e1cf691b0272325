"""Sends of gRPC clients, read without a protobuf object and written as requests of RocketMQ.

Owns        which sends are plain; reading them into what a broker stores; the bytes of the requests that store it.
Must not know   connections, queues, which topics there are, answers (plain_answers.pyx).

Kernel: Cython without a Python form. protobuf and outgoing.py are the truth. A send is plain if they would take it, and
the properties made of it would be these. A request that is not plain gives None, and the ordinary path takes or refuses
it: one with several messages, an unknown or repeated field, a text that is not printable ASCII, a number that is not
regular, a limit that is passed, a name that RocketMQ reserves. tests/property/test_proxy_kernels.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from rocketlake.broker.hot.plain_header cimport PREFIX_BYTES, put, put_prefix
from rocketlake.codec.name_set cimport NameSet
from rocketlake.codec.property_scan cimport NAME_END, VALUE_END, Slice
from rocketlake.codec.record_layout cimport store32
from rocketlake.codec.record_run cimport put_number as put_digits
from rocketlake.model.property_names import FAMILIES, SYSTEM
from rocketlake.protocol.language import LANGUAGE_CODES, OUR_LANGUAGE
from rocketlake.protocol.versions import OUR_VERSION
from rocketlake.proxy.v2.wire cimport BYTES, NUMBER, bytes_of, is_blank, is_printable, read_bytes, read_number, read_pair
from rocketlake.proxy.v2.enums import MessageType

__all__ = ["PlainMessage", "SendReader", "frames"]

cdef enum:
    LISTED_MAX = 64  # user properties, keys, entries of an acknowledgement
    GZIP = 2
    COMPRESSED = 1
    PREPARED = 4
    NANOS_MAX = 999999999
    ENCODING_MAX = 2
    TYPE_MAX = 6
    DIGITS_MAX = 20
    SEND_MESSAGE_V2 = 310
    FRAME_BYTES = 120  # of a frame without fixed fields, properties and body
    TRANSACTION = 4  # of MessageType, as the others
    NORMAL = 1
    FIFO = 2
    DELAY = 3

cdef int64_t SECONDS_MAX = 253402300799
cdef NameSet _reserved = NameSet(SYSTEM)
cdef NameSet _families = NameSet(FAMILIES)
cdef int LANGUAGE = LANGUAGE_CODES[OUR_LANGUAGE]
cdef int VERSION = OUR_VERSION

if (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION) != (1, 2, 3, 4):
    raise ImportError("the numbers of the enums have changed")

cdef struct Parts:
    # The fields of a message that is read; a slice of no bytes: it has no such field.
    uint32_t seen  # a bit for each field of the message, that of its system properties too
    Slice topic
    Slice body
    Slice tag
    Slice id
    Slice born_host
    Slice group
    Slice trace
    int64_t encoding
    int64_t type
    int64_t born_ms
    int64_t due_ms  # -1: none
    int keys
    int properties
    Py_ssize_t sizes  # of names, values, tag and keys together
    Slice key[LISTED_MAX]
    Slice name[LISTED_MAX]
    Slice value[LISTED_MAX]


cdef class PlainMessage:
    """A message as a broker stores it. Texts are ASCII. `born_ms`: -1 if the client did not say it."""

    cdef bytes _request
    cdef Py_ssize_t _body_at
    cdef Py_ssize_t _body_size
    cdef readonly bytes topic
    cdef readonly bytes message_id
    cdef readonly bytes group
    cdef readonly bytes properties
    cdef readonly int sys_flag
    cdef readonly int type
    cdef readonly int64_t born_ms

    cdef Py_ssize_t frame_room(self) noexcept:
        """Bytes that its frame takes at most, without the fixed fields."""
        return FRAME_BYTES + PyBytes_GET_SIZE(self.properties) + self._body_size

    cdef uint8_t* put_frame(self, uint8_t* start, bytes fixed, int64_t opaque, int64_t now_ms) noexcept:
        """The SEND_MESSAGE_V2 that stores it."""
        cdef const uint8_t* body = <const uint8_t*>PyBytes_AS_STRING(self._request) + self._body_at
        cdef uint8_t* at = start + PREFIX_BYTES
        cdef uint8_t* fields
        at[0], at[1] = SEND_MESSAGE_V2 >> 8, SEND_MESSAGE_V2 & 0xFF
        at[2] = LANGUAGE
        at[3], at[4] = VERSION >> 8, VERSION & 0xFF
        store32(at + 5, opaque)
        store32(at + 9, 0)
        store32(at + 13, 0)
        fields = at + 21
        at = put(fields, fixed)
        at = _put_number_field(at, c"g", self.born_ms if self.born_ms >= 0 else now_ms)
        at = _put_field(at, c"i", self.properties)
        store32(fields - 4, at - fields)
        memcpy(at, body, self._body_size)
        put_prefix(start, at - start - PREFIX_BYTES, self._body_size, 1)
        return at + self._body_size

    @property
    def body(self):
        """A view of the request."""
        return memoryview(self._request)[self._body_at:self._body_at + self._body_size]


cdef class SendReader:
    """Reads requests under these limits."""

    cdef int64_t _body_max
    cdef int64_t _properties_max
    cdef int64_t _property_bytes_max
    cdef int64_t _group_max
    cdef int64_t _id_max
    cdef int64_t _delay_max

    def __init__(self, limits):
        self._body_max = limits.body_bytes_max
        self._properties_max = limits.user_properties_max
        self._property_bytes_max = limits.user_property_bytes_max
        self._group_max = limits.message_group_bytes_max
        self._id_max = limits.id_bytes_max
        self._delay_max = limits.delay_ms_max

    def read(self, bytes request not None, bytes peer not None, int64_t now_ms):
        """The message of a SendMessageRequest; None if it is not plain. `peer`: the client's address, ASCII."""
        cdef Parts parts
        cdef Slice whole
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(request)
        cdef const uint8_t* end = at + PyBytes_GET_SIZE(request)
        if at == end or at[0] != (1 << 3 | BYTES):
            return None
        at = read_bytes(at + 1, end, &whole)
        if at != end:
            return None
        _clear(&parts)
        if not _read_message(&parts, whole) or not self._is_taken(&parts, now_ms):
            return None
        return self._message(&parts, request, peer)

    cdef bint _is_taken(self, Parts* parts, int64_t now_ms) noexcept:
        """The checks of outgoing.py that are not made while the texts are read."""
        if parts.topic.size == 0 or parts.body.size == 0 or is_blank(parts.id):
            return False
        if parts.body.size > self._body_max > 0 or parts.properties > self._properties_max > 0:
            return False
        if parts.sizes > self._property_bytes_max > 0 or parts.group.size > self._group_max > 0:
            return False
        if parts.id.size + parts.trace.size + parts.born_host.size > self._id_max > 0:
            return False
        if parts.tag.size and (is_blank(parts.tag) or memchr(parts.tag.at, c"|", parts.tag.size) != NULL):
            return False
        if parts.group.size and is_blank(parts.group):
            return False
        if parts.due_ms < 0:
            return True
        return parts.type != TRANSACTION and not (parts.due_ms - now_ms > self._delay_max > 0)

    cdef PlainMessage _message(self, Parts* parts, bytes request, bytes peer):
        cdef PlainMessage made = PlainMessage.__new__(PlainMessage)
        made._request = request
        made._body_at = parts.body.at - <const uint8_t*>PyBytes_AS_STRING(request)
        made._body_size = parts.body.size
        made.topic = bytes_of(parts.topic)
        made.message_id = bytes_of(parts.id)
        made.group = bytes_of(parts.group)
        made.born_ms = parts.born_ms
        made.sys_flag = COMPRESSED if parts.encoding == GZIP else 0
        if parts.type == TRANSACTION:
            made.sys_flag |= PREPARED
            made.type = TRANSACTION
        elif parts.due_ms >= 0:
            made.type = DELAY
        else:
            made.type = FIFO if parts.group.size else NORMAL
        made.properties = _properties(parts, peer)
        return made


cdef void _clear(Parts* parts) noexcept:
    parts.seen = 0
    parts.topic.size = parts.body.size = parts.tag.size = parts.id.size = parts.born_host.size = 0
    parts.group.size = parts.trace.size = 0
    parts.encoding = parts.type = parts.keys = parts.properties = parts.sizes = 0
    parts.born_ms = parts.due_ms = -1


cdef bint _read_message(Parts* parts, Slice whole) noexcept:
    """topic 1, user_properties 2, system_properties 3, body 4."""
    cdef const uint8_t* at = whole.at
    cdef const uint8_t* end = whole.at + whole.size
    cdef Slice found
    cdef uint8_t tag
    while at < end:
        tag = at[0]
        at = read_bytes(at + 1, end, &found)
        if at == NULL:
            return False
        if tag == (2 << 3 | BYTES):
            if not _read_property(parts, found):
                return False
            continue
        if tag & 7 != BYTES or tag > (4 << 3 | BYTES) or parts.seen >> (tag >> 3) & 1:
            return False
        parts.seen |= 1 << (tag >> 3)
        if tag == (1 << 3 | BYTES):
            if not _read_topic(parts, found):
                return False
        elif tag == (3 << 3 | BYTES):
            if not _read_system(parts, found):
                return False
        elif tag == (4 << 3 | BYTES):
            parts.body = found
        else:
            return False
    return True


cdef bint _read_topic(Parts* parts, Slice whole) noexcept:
    """resource_namespace 1, name 2."""
    cdef Slice found[2]
    if not read_pair(whole, found):
        return False
    parts.topic = found[1]
    return True


cdef bint _read_property(Parts* parts, Slice whole) noexcept:
    """An entry of user_properties. A name that stands twice, or that RocketMQ gives a meaning, is not plain."""
    cdef Slice found[2]
    cdef Slice name
    cdef int number
    if parts.properties == LISTED_MAX or not read_pair(whole, found):
        return False
    name = found[0]
    if name.size == 0 or found[1].size == 0 or _reserved.has(name.at, name.size) or _families.has_start(name.at, name.size):
        return False
    for number in range(parts.properties):
        if parts.name[number].size == name.size and memcmp(parts.name[number].at, name.at, name.size) == 0:
            return False
    parts.name[parts.properties] = name
    parts.value[parts.properties] = found[1]
    parts.properties += 1
    parts.sizes += name.size + found[1].size
    return True


cdef bint _read_system(Parts* parts, Slice whole) noexcept:
    """The system properties that clients send; each other one is not plain."""
    cdef const uint8_t* at = whole.at
    cdef const uint8_t* end = whole.at + whole.size
    cdef Slice text
    cdef int64_t tag, number = 0
    cdef uint32_t seen = 0
    text.at = at
    text.size = 0
    while at < end:
        at = read_number(at, end, &tag)
        if at == NULL or tag >= 32 << 3:
            return False
        if tag & 7 == NUMBER:
            at = read_number(at, end, &number)
        elif tag & 7 == BYTES:
            at = read_bytes(at, end, &text)
        else:
            return False
        if at == NULL or (seen >> (tag >> 3) & 1 and tag >> 3 != 2):
            return False
        seen |= <uint32_t>1 << (tag >> 3)
        if not (_take_number(parts, tag >> 3, number) if tag & 7 == NUMBER else _take_text(parts, tag >> 3, text)):
            return False
    return True


cdef bint _take_number(Parts* parts, int64_t field, int64_t number) noexcept:
    """body_encoding 5, message_type 6, queue_id 13, which means nothing in a send."""
    if field == 5:
        parts.encoding = number
        return number <= ENCODING_MAX
    if field == 6:
        parts.type = number
        return number <= TYPE_MAX
    return field == 13 and number < 1 << 31


cdef bint _take_text(Parts* parts, int64_t field, Slice text) noexcept:
    """tag 1, keys 2, message_id 3, body_digest 4, born_timestamp 7, born_host 8, delivery_timestamp 11,
    message_group 17, trace_context 18."""
    if field == 7:
        return _read_time(text, &parts.born_ms)
    if field == 11:
        return _read_time(text, &parts.due_ms)
    if field == 4:
        return _is_digest(text)
    if not is_printable(text):
        return False
    if field == 1:
        parts.tag = text
        parts.sizes += text.size
    elif field == 2:
        if parts.keys == LISTED_MAX or is_blank(text):
            return False
        parts.key[parts.keys] = text
        parts.keys += 1
        parts.sizes += text.size
    elif field == 3:
        parts.id = text
    elif field == 8:
        parts.born_host = text
        return text.size == 0 or (text.at[0] != c" " and text.at[text.size - 1] != c" ")
    elif field == 17:
        parts.group = text
    elif field == 18:
        parts.trace = text
    else:
        return False
    return True


cdef bint _read_time(Slice whole, int64_t* ms) noexcept:
    """A timestamp from 1970 on: seconds 1, nanos 2."""
    cdef const uint8_t* at = whole.at
    cdef const uint8_t* end = whole.at + whole.size
    cdef int64_t found[2]
    cdef int64_t number
    cdef int seen = 0, which
    found[0] = found[1] = 0
    while at < end:
        which = (at[0] >> 3) - 1
        if at[0] & 7 != NUMBER or not 0 <= which <= 1 or seen >> which & 1:
            return False
        seen |= 1 << which
        at = read_number(at + 1, end, &number)
        if at == NULL or number > (NANOS_MAX if which else SECONDS_MAX):
            return False
        found[which] = number
    ms[0] = found[0] * 1000 + found[1] // 1000000
    return True


cdef bint _is_digest(Slice whole) noexcept:
    """True for a digest that protobuf reads: type 1, checksum 2. It is not compared: Apache's proxy does not either."""
    cdef const uint8_t* at = whole.at
    cdef const uint8_t* end = whole.at + whole.size
    cdef Slice text
    cdef int64_t number
    while at < end:
        if at[0] == (1 << 3 | NUMBER):
            at = read_number(at + 1, end, &number)
        elif at[0] == (2 << 3 | BYTES):
            at = read_bytes(at + 1, end, &text)
            if at != NULL and not is_printable(text):
                return False
        else:
            return False
        if at == NULL:
            return False
    return True


cdef bytes _properties(Parts* parts, bytes peer):
    """The text of the properties that `outgoing.properties_of` makes."""
    cdef Slice host = parts.born_host
    cdef Py_ssize_t room = parts.sizes + 2 * parts.properties + parts.keys + 220
    cdef bytes text
    cdef uint8_t* start
    cdef uint8_t* at
    cdef int number
    if host.size == 0:
        host.at = <const uint8_t*>PyBytes_AS_STRING(peer)
        host.size = PyBytes_GET_SIZE(peer)
    room += parts.id.size + parts.topic.size + parts.group.size + parts.trace.size + host.size
    text = PyBytes_FromStringAndSize(NULL, room)
    start = at = <uint8_t*>PyBytes_AS_STRING(text)
    for number in range(parts.properties):
        at = _put(_put(at, parts.name[number], NAME_END), parts.value[number], VALUE_END)
    at = _put_pair(at, b"TAGS\x01", 5, parts.tag)
    if parts.keys:
        memcpy(at, b"KEYS\x01", 5)
        at += 5
        for number in range(parts.keys):
            at = _put(at, parts.key[number], c" ")
        at[-1] = VALUE_END
    at = _put_pair(at, b"UNIQ_KEY\x01", 9, parts.id)
    if parts.type == TRANSACTION:
        memcpy(at, b"TRAN_MSG\x01true\x02", 14)
        at = _put_pair(at + 14, b"PGROUP\x01", 7, parts.topic)
    if parts.due_ms >= 0:
        at = _put_decimal(at, b"TIMER_DELIVER_MS\x01", 17, parts.due_ms)
    at = _put_pair(at, b"__SHARDINGKEY\x01", 14, parts.group)
    at = _put_pair(at, b"TRACE_CONTEXT\x01", 14, parts.trace)
    at = _put_pair(at, b"__BORNHOST\x01", 11, host)
    if parts.born_ms >= 0:
        at = _put_decimal(at, b"BORN_TIMESTAMP\x01", 15, parts.born_ms)
    return text[:at - start]


cdef uint8_t* _put(uint8_t* at, Slice text, uint8_t end) noexcept:
    memcpy(at, text.at, text.size)
    at[text.size] = end
    return at + text.size + 1


cdef uint8_t* _put_pair(uint8_t* at, const char* name, Py_ssize_t size, Slice value) noexcept:
    if value.size == 0:
        return at
    memcpy(at, name, size)
    return _put(at + size, value, VALUE_END)


cdef uint8_t* _put_decimal(uint8_t* at, const char* name, Py_ssize_t size, int64_t number) noexcept:
    cdef uint8_t digits[DIGITS_MAX]
    cdef int count = 0
    memcpy(at, name, size)
    at += size
    while True:
        digits[count] = c"0" + number % 10
        number //= 10
        count += 1
        if number == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    at[0] = VALUE_END
    return at + 1


def frames(list messages not None, list fixed not None, int64_t opaque, int64_t now_ms):
    """The requests that store these messages, back to back, numbered from `opaque` on.

    `fixed`: for each message the fields that name its queue (`Sender.fixed_part` of client/calls/send.py), encoded.
    """
    cdef PlainMessage message
    cdef Py_ssize_t size = 0
    cdef bytes part, written
    cdef uint8_t* at
    if len(messages) != len(fixed) or opaque < 0:
        raise ValueError(f"{len(messages)} messages, fields of {len(fixed)}, from number {opaque}")
    for message, part in zip(messages, fixed):
        size += message.frame_room() + len(part)
    written = PyBytes_FromStringAndSize(NULL, size)
    at = <uint8_t*>PyBytes_AS_STRING(written)
    for message, part in zip(messages, fixed):
        at = message.put_frame(at, part, opaque & 0x7FFFFFFF, now_ms)
        opaque += 1
    return written[:at - <uint8_t*>PyBytes_AS_STRING(written)]


cdef uint8_t* _put_field(uint8_t* at, uint8_t name, bytes value) noexcept:
    at[0], at[1], at[2] = 0, 1, name
    store32(at + 3, PyBytes_GET_SIZE(value))
    return put(at + 7, value)


cdef uint8_t* _put_number_field(uint8_t* at, uint8_t name, int64_t number) noexcept:
    cdef Py_ssize_t size = put_digits(at + 7, number)
    at[0], at[1], at[2] = 0, 1, name
    store32(at + 3, size)
    return at + 7 + size
