"""Plain ends of transactions: those between the plain sends of a chunk, checked without an object per end.

Owns        which ends are plain, reading them (JSON and binary header), the record of a committed message.
Must not know   the ledger, op messages, the store, when ends may join a run (end_runs.py).

Kernel: Cython without a Python form. The ordinary path (processors/transaction.py, transaction/named_half.py,
sends/committed.py) is the truth. An end is plain if that path would commit or roll back and answer nobody: a one-way
request that fits to a half message in memory, which was sent and never put back. Every other one ends the run.
tests/parity/test_plain_ends.py feeds both paths the same traffic.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from rocketlake.broker.hot.plain_header cimport (
    FIELDS_MAX, FLAG_ONEWAY, Field, Frame, Head, equal, may_pass, read_header, read_number, same, says_wait,
)
from rocketlake.broker.hot.plain_run cimport PlainSends, Sent
from rocketlake.broker.hot.plain_topics cimport PlainTopic, PlainTopics
from rocketlake.codec.property_scan cimport VALUE_END, ParkMarks, PropertyMarks, Slice, read_marks
from rocketlake.codec.record_run cimport RecordRun
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.store.log_window cimport LogRecord, LogWindow

__all__ = ["PlainEnds"]

cdef enum:
    END_TRANSACTION = 37
    COMMIT = 8
    ROLLBACK = 12
    TRANSACTION_BITS = 12
    INNER_BATCH_BITS = 192
    COUNTED_ALL = 15  # of End.seen

cdef bytes _half_topic = HALF_TOPIC.encode("ascii")


cdef class PlainEnds:
    """Takes ends into the run of a cutter; between `begin` and `end` of one cut."""

    def __init__(self, PlainTopics topics, LogWindow log, admit, stands_alone):
        """`admit(asker)`: (bytes that the op message still takes, place below which half messages may be of deleted
        topics), None while ends of the asker take the ordinary path. `stands_alone(queue offset)`: true if the half
        message there is open, and the only place of its transaction."""
        self._topics = topics
        self._log = log
        self._admit = admit
        self._stands_alone = stands_alone
        self.is_full = True

    cdef int begin(self, object asker) except -1:
        """An end of this asker came, the first one of a cut. `is_full`: no more ends are taken."""
        self._log.end()
        self._kept = None
        self._taken = set()
        self.is_full = True
        admitted = self._admit(asker)
        if admitted is not None:
            self._room, self._dead_until = admitted
            self.is_full = self._room < 0
        return 0

    cdef int end(self) except -1:
        """The cut is over."""
        self._kept = self._taken = None
        self.is_full = True
        self._log.end()
        return 0

    cdef bint take(self, PlainSends sends, Frame* frame) except -1:
        """Take one frame if it is a plain end. The end that fills the op message is the last one of its run: the op
        message is written behind it."""
        cdef Field found[FIELDS_MAX]
        cdef Head head
        cdef End end
        cdef int number, count
        if self.is_full or frame.body_size:
            return False
        count = read_header(frame, &head, found, NULL)
        if count < 0 or head.code != END_TRANSACTION or head.flag != FLAG_ONEWAY:
            return False
        end.seen = 0
        end.transaction_id.size = end.message_id.size = 0
        for number in range(count):
            if not _take_field(&end, found[number].name, found[number].value):
                return False
        if end.seen != COUNTED_ALL or (end.outcome != COMMIT and end.outcome != ROLLBACK):
            return False
        return self._take_named(sends, &end)

    cdef bint _take_named(self, PlainSends sends, End* end) except -1:
        """Take an end, if it fits to the half message that it names."""
        cdef LogRecord half
        cdef PropertyMarks marks
        cdef ParkMarks target
        cdef PlainTopic topic
        cdef RecordRun run = sends.run
        cdef int64_t queue_id, left
        cdef Py_ssize_t text_at
        cdef Sent* sent
        if end.physical_offset < self._dead_until or not self._log.find(end.physical_offset, &half):
            return False
        if half.queue_offset != end.queue_offset or not _is(half.topic, _half_topic) or half.body.size == 0:
            return False
        if half.sys_flag & INNER_BATCH_BITS or half.properties.size == 0:
            return False
        if half.properties.at[half.properties.size - 1] != VALUE_END:
            return False
        if not read_marks(half.properties.at, half.properties.size, True, &marks, &target) or marks.is_special:
            return False
        if marks.sequence.size or target.time.size or not equal(target.group, end.group):
            return False
        if not (equal(marks.unique_key, end.transaction_id) or equal(marks.unique_key, end.message_id)):
            return False
        if target.topic.size == 0 or not read_number(target.queue_id, 10, &queue_id):
            return False
        topic = self._topics.find(target.topic)
        if topic is None or not 0 <= queue_id < topic.read_queues:
            return False
        if not (_is(half.born_host, run._born_host) and _is(half.store_host, run._store_host)):
            return False
        queue_offset = end.queue_offset
        if queue_offset in self._taken or not self._stands_alone(queue_offset):
            return False
        self._taken.add(queue_offset)
        sends.ended.append((queue_offset, end.outcome == COMMIT))
        left = end.queue_offset
        while left >= 10:
            self._room -= 1
            left //= 10
        self._room -= 2
        self.is_full = self._room < 0
        if end.outcome == ROLLBACK:
            return True
        if self._log.view is not self._kept:
            self._kept = self._log.view
            run.keep(self._kept)
        sent = sends.next_sent()
        sent.first_record = run.count
        sent.records = 1
        sent.key_size = 0
        sent.is_oneway = True
        text_at = run.add_text(half.properties.at, half.properties.size)
        run.add(run.add_topic(topic.run_topic), <int32_t>queue_id, half.flag, half.sys_flag & ~TRANSACTION_BITS | COMMIT,
                half.reconsume_times, half.born_ms, half.body.at, half.body.size, text_at, half.properties.size, &marks)
        run.records[run.count - 1].prepared_offset = end.physical_offset
        if not says_wait(marks.wait):
            sends.waits = False
        sends.count += 1
        return True


cdef bint _take_field(End* end, Slice name, Slice value) noexcept:
    """Take one header field; False if the end is not plain by its name or its value."""
    if same(name, b"producerGroup", 13):
        end.group = value
        end.seen |= 1
    elif same(name, b"tranStateTableOffset", 20):
        end.seen |= 2
        return read_number(value, 18, &end.queue_offset)
    elif same(name, b"commitLogOffset", 15):
        end.seen |= 4
        return read_number(value, 18, &end.physical_offset)
    elif same(name, b"commitOrRollback", 16):
        end.seen |= 8
        return read_number(value, 10, &end.outcome)
    elif same(name, b"msgId", 5):
        end.message_id = value
    elif same(name, b"transactionId", 13):
        end.transaction_id = value
    elif same(name, b"fromTransactionCheck", 20):
        return same(value, b"true", 4) or same(value, b"false", 5)
    elif not same(name, b"topic", 5):
        return may_pass(name)
    return True


cdef inline bint _is(Slice text, bytes wanted) noexcept:
    return text.size == PyBytes_GET_SIZE(wanted) and memcmp(text.at, PyBytes_AS_STRING(wanted), text.size) == 0
