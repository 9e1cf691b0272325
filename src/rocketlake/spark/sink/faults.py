"""The reasons why a row makes no message.

Owns        the reasons and their words.
Must not know   the fate of such a row (task.py).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Fault"]


class Fault(IntEnum):
    """The first four are found by codec/column_batch.pyx, too, which knows their numbers."""

    NONE = 0
    NO_BODY = 1
    BODY_TOO_LONG = 2
    SEPARATOR = 3
    PROPERTIES_TOO_LONG = 4
    NO_TOPIC = 5
    NO_QUEUE = 6
    DELIVER_TIMESTAMP = 7
    PRIORITY = 8
    DELAY_LEVEL = 9
    DELAYED_IN_SEQUENCE = 10
    PRIORITY_COMBINED = 11
    PRIORITY_IN_SEQUENCE = 12

    @property
    def text(self) -> str:
        """The fault, and its cure."""
        return _TEXTS[self]


_TEXTS = {
    Fault.NONE: "",
    Fault.NO_BODY: "the body is null or empty; RocketMQ has no messages without one",
    Fault.BODY_TOO_LONG: "the body, with its properties, is longer than option 'maxMessageBytes'",
    Fault.SEPARATOR: "tags, keys, shardingKey or a property hold \\x01 or \\x02; put such bytes into the body",
    Fault.PROPERTIES_TOO_LONG: "all properties together have more than 32,000 bytes; put them into the body",
    Fault.NO_TOPIC: "column 'topic' is null or no name of a topic that may be written to",
    Fault.NO_QUEUE: "the topic has no queue of this brokerName and queueId; leave both null to have one chosen",
    Fault.DELIVER_TIMESTAMP: "delivery at a time (column 'deliverTimestamp') is not built; use 'delayLevel'",
    Fault.PRIORITY: "column 'priority' is not from 0 to 2,147,483,647; null: none",
    Fault.DELAY_LEVEL: "column 'delayLevel' is not from 0 (none) to 18",
    Fault.DELAYED_IN_SEQUENCE: "'effectively_once' and 'exactly_once' take no delayed message: use 'at_least_once'",
    Fault.PRIORITY_COMBINED: "a message with a priority is neither delayed nor ordered: leave 'priority' null, or"
    " 'delayLevel' and 'shardingKey'",
    Fault.PRIORITY_IN_SEQUENCE: "'effectively_once' and 'exactly_once' take no priority: use 'at_least_once'",
}
