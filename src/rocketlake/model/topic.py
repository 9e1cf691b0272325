"""A topic's settings, permissions, the topics RocketMQ uses itself, the version of a table.

Owns        TopicConfig, Perm, DataVersion, names of system topics.
Must not know   routes (route.py), files, wire names.

Source: Java TopicConfig, PermName, TopicValidator, DataVersion.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DataVersion", "Perm", "TopicConfig", "TopicFilterType"]

DEFAULT_QUEUES = 16


class Perm:
    """Permission bits of a topic; 6 = read and write. Plain ints, as they come from the wire."""

    PRIORITY = 8
    READ = 4
    WRITE = 2
    INHERIT = 1

    @staticmethod
    def is_readable(perm: int) -> bool:
        """True if consumers may read."""
        return perm & Perm.READ != 0

    @staticmethod
    def is_writeable(perm: int) -> bool:
        """True if producers may write."""
        return perm & Perm.WRITE != 0

    @staticmethod
    def is_inherited(perm: int) -> bool:
        """True if this topic may be the pattern of topics that are made by their first send."""
        return perm & Perm.INHERIT != 0

    @staticmethod
    def is_valid(perm: int) -> bool:
        """0..7."""
        return 0 <= perm < Perm.PRIORITY

    @staticmethod
    def to_text(perm: int) -> str:
        """ "RW-", as admin tools show it."""
        return ("R" if perm & 4 else "-") + ("W" if perm & 2 else "-") + ("X" if perm & 1 else "-")


class TopicFilterType(enum.Enum):
    """How many tags a message of the topic has."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


@dataclass(slots=True)
class TopicConfig:
    """Settings of one topic on one broker; defaults are RocketMQ's."""

    name: str
    read_queues: int = DEFAULT_QUEUES
    write_queues: int = DEFAULT_QUEUES
    perm: int = Perm.READ | Perm.WRITE
    filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_readable(self) -> bool:
        """True if consumers may read."""
        return Perm.is_readable(self.perm)

    @property
    def is_writeable(self) -> bool:
        """True if producers may write."""
        return Perm.is_writeable(self.perm)

    @property
    def queues(self) -> int:
        """How many queues there are, those included that only readers or only writers may use."""
        return max(self.read_queues, self.write_queues)

    @property
    def cleanup_policy(self) -> str:
        """DELETE or COMPACTION."""
        return self.attributes.get("cleanup.policy", "DELETE")


@dataclass(frozen=True, slots=True, order=True)
class DataVersion:
    """The version of a table; compared by state version, then counter, then time. `timestamp` is epoch ms."""

    state_version: int = 0
    counter: int = 0
    timestamp: int = 0

    def next(self, now_ms: int, state_version: int = 0) -> DataVersion:
        """The version after a change."""
        return DataVersion(state_version=state_version, counter=self.counter + 1, timestamp=now_ms)


TOPIC_SYS_FLAG_UNIT = 1
TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION = 2

TEMPLATE_TOPIC = "TBW102"
"""The pattern after which topics are created when a producer sends to an unknown one."""
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
AUDIT_TOPIC = "RMQ_SYS_AUDIT_TOPIC"
"""Ours: Apache's brokers have none."""
TRANSACTION_CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
REVIVE_LOG_PREFIX = "rmq_sys_REVIVE_LOG_"
SYNC_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
REPLY_TOPIC_ENDING = "REPLY_TOPIC"

SYSTEM_TOPICS = frozenset(
    {
        TEMPLATE_TOPIC,
        DELAY_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        AUDIT_TOPIC,
        OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
NOT_SENDABLE_TOPICS = frozenset(
    {
        DELAY_TOPIC,
        TIMER_TOPIC,
        AUDIT_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Only the broker itself writes these."""
