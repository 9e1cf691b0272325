"""Labels as Apache's broker names and fills them.

Owns        the text of labels of topics and groups, made once for each.
Must not know   figures.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rocketlake.model.names import is_retry_topic, is_system_group, is_system_topic
from rocketlake.model.topic import DELAY_TOPIC, HALF_TOPIC, TIMER_TOPIC, TopicConfig
from rocketlake.net.http.exposition import label_text

__all__ = ["STORAGE", "group_labels", "is_system", "lag_labels", "message_type", "topic_labels"]

STORAGE: Final = 'storage_type="local",storage_medium="disk"'
_TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}
_OWN: Final = {DELAY_TOPIC: "delay", TIMER_TOPIC: "delay", HALF_TOPIC: "transaction"}
_SYSTEM_GROUP: Final = "cid_rmq_sys_"
_KEPT: Final = 16_384


def message_type(name: str, topic: TopicConfig | None) -> str:
    """The kind of a topic's messages, by its name or its attribute message.type: they are not looked at one by one."""
    if name in _OWN or is_retry_topic(name):
        return _OWN.get(name, "delay")
    return "normal" if topic is None else _TYPES.get(topic.attributes.get("message.type", ""), "normal")


@lru_cache(_KEPT)
def topic_labels(topic: str, kind: str) -> str:
    """Of what came into a topic; `kind`: see `message_type`."""
    return f'topic="{label_text(topic)}",message_type="{kind}",is_system="{_word(is_system_topic(topic))}"'


@lru_cache(_KEPT)
def group_labels(group: str, topic: str) -> str:
    """Of what a group gets of a topic."""
    system = _word(is_system(group, topic))
    return f'consumer_group="{label_text(group)}",topic="{label_text(topic)}",is_system="{system}"'


@lru_cache(_KEPT)
def lag_labels(group: str, topic: str) -> str:
    """Of what a group has left of a topic."""
    return f'{group_labels(group, topic)},is_retry="{_word(is_retry_topic(topic))}"'


def is_system(group: str, topic: str) -> bool:
    """True for a topic or a group of the broker itself."""
    return is_system_topic(topic) or is_system_group(group) or group.lower().startswith(_SYSTEM_GROUP)


def _word(value: bool) -> str:
    return "true" if value else "false"
