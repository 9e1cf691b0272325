"""Every property name that RocketMQ itself uses; all others belong to the user.

Owns        the names, which of them a user may not set (Java: MessageConst), and which of them leave a send plain.
Must not know   how properties are laid out in bytes (codec/property_text.py).
"""

from __future__ import annotations

__all__ = ["FAMILIES", "NAME_SEPARATOR", "PAIR_SEPARATOR", "PLAIN", "RESERVED", "SYSTEM", "is_plain"]

NAME_SEPARATOR = "\x01"
"""Ends a name in the property text; may occur neither in names nor in values."""
PAIR_SEPARATOR = "\x02"
"""Ends a value in the property text; may occur neither in names nor in values."""
KEY_SEPARATOR = " "
"""Between the keys of one message."""

# Set by the user.
KEYS = "KEYS"  # keys to look the message up by, blank separated
TAGS = "TAGS"  # its tag, for filtering
WAIT = "WAIT"  # "false": do not wait until it is on disk (absent = wait)
DELAY = "DELAY"  # delay level, 1..18
SHARDING_KEY = "__SHARDINGKEY"  # the key by which the queue of an ordered message was chosen
PRIORITY = "_SYS_MSG_PRIORITY_"  # of a message of a priority topic (5.4)
LITE_TOPIC = "__LITE_TOPIC"  # sub-topic of a message of a lite topic (5.4)
LITE_BEFORE = "__RL_LITE_BEFORE"  # where the message before it of its lite topic lies: queue id, queue offset
BUYER_ID = "BUYER_ID"
INSTANCE_ID = "INSTANCE_ID"  # namespace

# Delivery at a time.
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMERS = frozenset((TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS))  # each asks for a time of delivery
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
TIMER_DELETE_UNIQUE_KEY = "TIMER_DEL_UNIQKEY"
TIMER_ROLL_LABEL = "TIMER_ROLL_LABEL"  # 5.4

# Where a message parked elsewhere belongs.
RETRY_TOPIC = "RETRY_TOPIC"  # topic of a message on its way through %RETRY%
REAL_TOPIC = "REAL_TOPIC"  # topic and queue of a delayed or half message
REAL_QUEUE_ID = "REAL_QID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"  # id of the first copy of a retried message
RECONSUME_TIME = "RECONSUME_TIME"  # only on the way to the broker: becomes header fields
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
ORIGIN_GROUP = "ORIGIN_GROUP"  # group whose pop retry it is (5.3.4)
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT = "REDIRECT"

# Transactions.
TRANSACTION_PREPARED = "TRAN_MSG"  # "true": a half message
PRODUCER_GROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_OFFSET = "TRANS_OFFSET"  # of a half message kept in RocksDB (5.4)
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"

# Identity.
UNIQUE_KEY = "UNIQ_KEY"  # the message id made by the client
EXTEND_UNIQUE_INFO = "EXTEND_UNIQ_INFO"
DUPLICATE_INFO = "DUP_INFO"
RECORD_CRC = "__CRC32#"  # checksum over the whole record

# Set by the broker or by a client on the way.
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
CONSUME_START_TIME = "CONSUME_START_TIME"
MESSAGE_REGION = "MSG_REGION"
TRACE_SWITCH = "TRACE_ON"
CLUSTER = "CLUSTER"
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"

# Request and reply.
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
ARRIVE_TIME = "ARRIVE_TIME"

# RocketLake's own.
PRODUCER_SEQUENCE = "__RL_SEQ"  # which messages of which producer a batch holds, so that a replay can be told
LAST_ERROR = "LAST_ERROR"  # of a message that comes again or is a dead letter: how its consumer failed last
ALL_ENDS = "__RL_ENDS"  # of an op message: it and those before it name all transactions that ended before it

# Pop.
POP_CK = "POP_CK"
POP_CK_OFFSET = "POP_CK_OFFSET"
FIRST_POP_TIME = "1ST_POP_TIME"

# One record that holds many messages; one message in many queues.
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"

RESERVED = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, BUYER_ID, INSTANCE_ID,
        TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES, TIMER_DELAY_LEVEL, TIMER_DELETE_UNIQUE_KEY,
        RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES,
        DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID,
        TRANSACTION_PREPARED, PRODUCER_GROUP, TRANSACTION_PREPARED_QUEUE_OFFSET,
        UNIQUE_KEY, EXTEND_UNIQUE_INFO, DUPLICATE_INFO, RECORD_CRC,
        MIN_OFFSET, MAX_OFFSET, CONSUME_START_TIME, MESSAGE_REGION, TRACE_SWITCH, CLUSTER,
        TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG, BORN_HOST, BORN_TIMESTAMP,
        CORRELATION_ID, REPLY_TO_CLIENT, TTL, MESSAGE_TYPE, PUSH_REPLY_TIME, ARRIVE_TIME,
        POP_CK, POP_CK_OFFSET, FIRST_POP_TIME,
        INNER_MULTI_QUEUE_OFFSET, LITE_BEFORE, PRODUCER_SEQUENCE, ALL_ENDS,
    }
)  # fmt: skip
"""Names that a user may not give to properties."""

SYSTEM = RESERVED | {
    SHARDING_KEY, PRIORITY, LITE_TOPIC, TIMER_ROLL_LABEL, ORIGIN_GROUP, FORWARD_QUEUE_ID, REDIRECT, TRANSACTION_ID,
    TRANSACTION_OFFSET, TRANSACTION_CHECK_TIMES, CHECK_IMMUNITY_TIME, TRACE_CONTEXT,
    INNER_NUM, INNER_BASE, INNER_MULTI_DISPATCH, LAST_ERROR,
}  # fmt: skip
"""All names of this module: those that RocketMQ, or RocketLake, gives a meaning."""

FAMILIES = ("__", "_SYS_", "INNER_", "TIMER_", "TRAN_", "TRANS_", "TRANSACTION_", "POP_", "DLQ_", "ORIGIN_", "REAL_")
"""How names begin that RocketMQ gives a meaning, those of later releases too."""

PLAIN = frozenset(
    {
        KEYS, TAGS, WAIT, UNIQUE_KEY,  # the kernel treats them as the ordinary path does
        PRODUCER_SEQUENCE,  # of a batch; the kernel leaves a message that carries it to the ordinary path
        SHARDING_KEY, BUYER_ID, INSTANCE_ID,  # kept for the reader
        CORRELATION_ID, REPLY_TO_CLIENT, TTL,  # the consumer of a request reads them
        BORN_HOST, BORN_TIMESTAMP, TRACE_CONTEXT,  # a proxy says on whose behalf it sends
    }
)  # fmt: skip
"""The names of SYSTEM that leave a send plain: the broker stores them and does nothing else that a kernel does not do.

A send with any other name of SYSTEM or of FAMILIES takes the ordinary path (docs/internals/hot_path.md).
"""


def is_plain(name: str) -> bool:
    """True if a send with a property of this name may be plain. Names of users leave it plain."""
    return name in PLAIN or not (name in SYSTEM or name.startswith(FAMILIES))
