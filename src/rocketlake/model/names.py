"""Which names topics and groups may have, and the names made from them.

Owns        name rules, %RETRY%, %DLQ%, system names.
Must not know   which topics and groups exist.

Source: Java TopicValidator, Validators, MixAll.
"""

from __future__ import annotations

import re

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_kind
from rocketlake.model.topic import NOT_SENDABLE_TOPICS, REPLY_TOPIC_ENDING, REVIVE_LOG_PREFIX, SYSTEM_TOPICS

__all__ = [
    "DEAD_LETTER_GROUP",
    "DEAD_LETTER_PREFIX",
    "FIRST_OFFSETS_ENDING",
    "GROUP_CHARS_MAX",
    "RETRY_PREFIX",
    "TOPIC_CHARS_MAX",
    "check_group",
    "check_topic",
    "dead_letter_topic",
    "group_of_retry_topic",
    "is_dead_letter_topic",
    "is_own_group",
    "is_reply_topic",
    "is_retry_topic",
    "is_sendable_topic",
    "is_system_group",
    "is_system_topic",
    "reply_topic",
    "retry_topic",
]

TOPIC_CHARS_MAX = 127
DERIVED_TOPIC_CHARS_MAX = 255
"""For %RETRY% and %DLQ% topics, which carry a group name."""
GROUP_CHARS_MAX = 120
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

DEFAULT_PRODUCER_GROUP = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
DEAD_LETTER_GROUP = "ROCKETLAKE_DEAD_LETTERS"
REPLAY_GROUP = "ROCKETLAKE_REPLAY"
SPARK_GROUP = "ROCKETLAKE_SPARK"
SYSTEM_GROUPS = frozenset(
    {
        DEFAULT_CONSUMER_GROUP,
        DEFAULT_PRODUCER_GROUP,
        TOOLS_CONSUMER_GROUP,
        INNER_PRODUCER_GROUP,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_ONS-HTTP-PROXY",
    }
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def check_topic(topic: str) -> None:
    """UsageError unless `topic` is a name a topic may have."""
    check_kind("a topic", topic, str, hint='give its name as text: "orders"')
    _check("topic", topic, DERIVED_TOPIC_CHARS_MAX if _is_derived(topic) else TOPIC_CHARS_MAX)


def check_group(group: str) -> None:
    """UsageError unless `group` is a name a producer or consumer group may have."""
    check_kind("a group", group, str, hint='give its name as text: "billing"')
    _check("group", group, GROUP_CHARS_MAX)


def retry_topic(group: str) -> str:
    """The topic through which a group gets messages again."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic where a group's messages go that failed too often."""
    return DEAD_LETTER_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic for answers to request messages."""
    return f"{cluster}_{REPLY_TOPIC_ENDING}"


def group_of_retry_topic(topic: str) -> str:
    """The group in "%RETRY%group"; the topic itself if it is none."""
    return topic.removeprefix(RETRY_PREFIX)


def is_retry_topic(topic: str) -> bool:
    """True for the retry topic of a group: %RETRY%group."""
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """True for the dead-letter topic of a group: %DLQ%group."""
    return topic.startswith(DEAD_LETTER_PREFIX)


def is_reply_topic(topic: str) -> bool:
    """True for a topic of answers to request messages: its name ends with _REPLY_TOPIC."""
    return topic.endswith("_" + REPLY_TOPIC_ENDING)


FIRST_OFFSETS_ENDING = "_spark_start"
"""The end of the names of groups that consume nothing: in such a group a Spark query keeps its first offsets, each plus
one (0 stands for none)."""


def keeps_first_offsets(group: str) -> bool:
    """True for a group that only keeps the first offsets of a Spark query: its name ends with _spark_start."""
    return group.endswith(FIRST_OFFSETS_ENDING)


def is_system_topic(topic: str) -> bool:
    """True for a topic that RocketMQ makes for itself."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_sendable_topic(topic: str) -> bool:
    """True if clients may send to this topic. Unlike Apache's brokers we forbid them the revive topic: with a record
    there a producer could have other groups miss what they have popped."""
    return topic not in NOT_SENDABLE_TOPICS and not topic.startswith(REVIVE_LOG_PREFIX)


def is_system_group(group: str) -> bool:
    """True for a group that RocketMQ makes for itself."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_own_group(group: str) -> bool:
    """True for a group in whose name RocketLake reads beside all groups: in Spark, for a replay, dead letters."""
    return group in (REPLAY_GROUP, SPARK_GROUP, DEAD_LETTER_GROUP)


def _is_derived(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def _check(kind: str, name: str, chars_max: int) -> None:
    if not name or name.isspace():
        raise UsageError(f"the {kind} is blank", hint=f"give a {kind} name")
    if len(name) > chars_max:
        raise UsageError(
            f"the {kind} name {name[:40]!r}... has {len(name)} characters", hint=f"use at most {chars_max}"
        )
    if _LEGAL.fullmatch(name) is None:
        raise UsageError(
            f"the {kind} name {name!r} holds a character that is not allowed", hint="use letters, digits, _, -, % and |"
        )
