"""The topics a broker makes for itself at its first start.

Owns        their names, queues and permissions (RocketMQ's TopicConfigManager.init).
Must not know   the topic table.
"""

from __future__ import annotations

from rocketlake.model.names import reply_topic
from rocketlake.model.topic import (
    AUDIT_TOPIC,
    BENCHMARK_TOPIC,
    DELAY_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_TOPIC,
    REVIVE_LOG_PREFIX,
    SELF_TEST_TOPIC,
    SYNC_MEMBER_PREFIX,
    TEMPLATE_TOPIC,
    TIMER_TOPIC,
    Perm,
    TopicConfig,
)

__all__ = ["builtin_topics"]

_READ_WRITE = Perm.READ | Perm.WRITE


def builtin_topics(
    cluster: str,
    broker: str,
    *,
    template_queues: int,
    auto_create: bool,
    cluster_topic: bool,
    broker_topic: bool,
    delay_levels: int,
    trace_topic: str | None,
    audit_topic: bool = False,
) -> list[TopicConfig]:
    """Built-in topics; `template_queues` of TBW102, `trace_topic=None`: tracing is off."""
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, 1024),
        _topic(cluster, 16, Perm.INHERIT | (_READ_WRITE if cluster_topic else 0)),
        _topic(broker, 1, Perm.INHERIT | (_READ_WRITE if broker_topic else 0)),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(DELAY_TOPIC, delay_levels),
        _topic(TIMER_TOPIC, 1),
        _topic(reply_topic(cluster), 1),
        _topic(REVIVE_LOG_PREFIX + cluster, 8),
        _topic(SYNC_MEMBER_PREFIX + broker, 1, Perm.INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(OP_TOPIC, 1),
    ]
    if auto_create:
        topics.append(_topic(TEMPLATE_TOPIC, template_queues, Perm.INHERIT | _READ_WRITE))
    if trace_topic is not None:
        topics.append(_topic(trace_topic, 1))
    if audit_topic:
        topics.append(_topic(AUDIT_TOPIC, 1, Perm.READ))
    return topics


def _topic(name: str, queues: int, perm: int = _READ_WRITE) -> TopicConfig:
    return TopicConfig(name, read_queues=queues, write_queues=queues, perm=perm)
