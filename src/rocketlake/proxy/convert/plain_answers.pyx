"""The answers to plain sends; acknowledgements of gRPC clients and the answers to them.

Owns        the bytes of answers that say OK, reading plain acknowledgements and a broker's answers to plain sends.
Must not know   which sends are plain (plain_messages.pyx), connections.

Kernel: Cython without a Python form; protobuf is the truth, and what is not plain is for it.
tests/property/test_proxy_kernels.py compares.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from rocketlake.broker.hot.plain_header cimport FIELDS_MAX, Field, Frame, Head, find_frame, read_header, same
from rocketlake.broker.hot.plain_header cimport read_number as read_decimal
from rocketlake.codec.property_scan cimport Slice
from rocketlake.proxy.v2.wire cimport (
    BYTES, NUMBER, bytes_of, number_bytes, put_head, put_text, read_bytes, read_pair, text_bytes,
)
from rocketlake.proxy.v2.enums import Code

__all__ = ["ack_answer", "read_acks", "send_answer", "succeeded"]

cdef enum:
    FRAME_MAX = 0x7FFFFFFF
    FLAG_RESPONSE = 1

cdef bytes _OK = b"\x08\xa0\x9c\x01\x12\x02OK"
cdef Py_ssize_t OK_BYTES = len(_OK)

if Code.OK != 20000:
    raise ImportError("the numbers of the enums have changed")


def send_answer(bytes message_id not None, int64_t offset, bytes transaction_id not None, bytes recall_handle not None):
    """A SendMessageResponse of one entry that says OK."""
    cdef Py_ssize_t size = text_bytes(OK_BYTES)
    cdef bytes made
    cdef uint8_t* at
    if offset < 0:
        raise ValueError(f"no queue offset: {offset}")
    if message_id:
        size += text_bytes(PyBytes_GET_SIZE(message_id))
    if transaction_id:
        size += text_bytes(PyBytes_GET_SIZE(transaction_id))
    if offset:
        size += 1 + number_bytes(offset)
    if recall_handle:
        size += text_bytes(PyBytes_GET_SIZE(recall_handle))
    made = PyBytes_FromStringAndSize(NULL, text_bytes(OK_BYTES) + text_bytes(size))
    at = <uint8_t*>PyBytes_AS_STRING(made)
    at = _put_ok(at)
    at = _put_ok(put_head(at, 2, BYTES, size))
    at = _put_bytes(_put_bytes(at, 2, message_id), 3, transaction_id)
    if offset:
        at = put_head(at, 4, NUMBER, offset)
    _put_bytes(at, 5, recall_handle)
    return made


cdef uint8_t* _put_ok(uint8_t* at) noexcept:
    """A status as field 1."""
    return put_text(at, 1, <const uint8_t*>PyBytes_AS_STRING(_OK), OK_BYTES)


cdef uint8_t* _put_bytes(uint8_t* at, int field, bytes text) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    return put_text(at, field, <const uint8_t*>PyBytes_AS_STRING(text), size) if size else at


def succeeded(bytes answers not None, Py_ssize_t position):
    """(opaque, where the answer ends, queue offset, transaction id, recall handle) of the answer at `position`; None if
    it is not whole, or not a plain SUCCESS without a body. The offset is -1 unless the answer is one to a send."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(answers)
    cdef const uint8_t* end = start + PyBytes_GET_SIZE(answers)
    cdef Frame frame
    cdef Field fields[FIELDS_MAX]
    cdef Slice queue, offset, key, handle
    cdef Head head
    cdef int64_t queue_id, number
    cdef int each, count
    cdef bint is_of_send = False
    if not 0 <= position <= PyBytes_GET_SIZE(answers):
        raise ValueError(f"no position in {len(answers)} bytes: {position}")
    if not find_frame(start + position, end, FRAME_MAX, FRAME_MAX, &frame):
        return None
    queue.size = offset.size = key.size = handle.size = 0
    count = read_header(&frame, &head, fields, NULL)
    if count < 0 or head.code != 0 or head.flag != FLAG_RESPONSE or head.opaque < 0 or frame.body_size:
        return None
    for each in range(count):
        if same(fields[each].name, b"queueOffset", 11):
            offset = fields[each].value
        elif same(fields[each].name, b"transactionId", 13):
            key = fields[each].value
        elif same(fields[each].name, b"recallHandle", 12):
            handle = fields[each].value
        elif same(fields[each].name, b"queueId", 7):
            queue = fields[each].value
        elif same(fields[each].name, b"msgId", 5):
            is_of_send = True
    if not is_of_send or not read_decimal(queue, 10, &queue_id) or not read_decimal(offset, 18, &number) or number < 0:
        return head.opaque, position + frame.size, -1, b"", b""
    return head.opaque, position + frame.size, number, bytes_of(key), bytes_of(handle)


def read_acks(bytes request not None):
    """(group, topic, [(message id, receipt handle), ...]) of an AckMessageRequest, in bytes; None if it is not plain."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(request)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(request)
    cdef Slice names[2]
    cdef Slice found
    cdef Slice pair[2]
    cdef int which
    cdef list entries = []
    names[0].size = names[1].size = 0
    while at < end:
        which = (at[0] >> 3) - 1
        if at[0] & 7 != BYTES or not 0 <= which <= 2:
            return None
        at = read_bytes(at + 1, end, &found)
        if at == NULL or not read_pair(found, pair):
            return None
        if which == 2:
            entries.append((bytes_of(pair[0]), bytes_of(pair[1])))
        elif names[which].size or pair[1].size == 0:
            return None
        else:
            names[which] = pair[1]
    if not names[0].size or not names[1].size or not entries:
        return None
    return bytes_of(names[0]), bytes_of(names[1]), entries


def ack_answer(list entries not None):
    """An AckMessageResponse that says OK to each entry: (message id, receipt handle) in bytes."""
    cdef Py_ssize_t total = text_bytes(OK_BYTES)
    cdef bytes message_id, handle, made
    cdef uint8_t* at
    for message_id, handle in entries:
        total += text_bytes(_entry_bytes(message_id, handle))
    made = PyBytes_FromStringAndSize(NULL, total)
    at = _put_ok(<uint8_t*>PyBytes_AS_STRING(made))
    for message_id, handle in entries:
        at = put_head(at, 2, BYTES, _entry_bytes(message_id, handle))
        at = _put_bytes(_put_bytes(at, 1, message_id), 2, handle)
        at = put_text(at, 3, <const uint8_t*>PyBytes_AS_STRING(_OK), OK_BYTES)
    return made


cdef Py_ssize_t _entry_bytes(bytes message_id, bytes handle) except -1:
    cdef Py_ssize_t size = text_bytes(OK_BYTES)
    if message_id is None or handle is None:
        raise TypeError("an entry is (message id, receipt handle) in bytes")
    if message_id:
        size += text_bytes(PyBytes_GET_SIZE(message_id))
    if handle:
        size += text_bytes(PyBytes_GET_SIZE(handle))
    return size
