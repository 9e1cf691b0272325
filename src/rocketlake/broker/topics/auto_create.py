"""Topics that are made by being used.

Owns        when an unknown topic is made, with how many queues, and the requests that wait until it is on disk.
Must not know   the purpose of a request, how the table is saved.

Rule (RocketMQ's TopicConfigManager): a producer names a template topic, normally TBW102, and the queues it wants; the
template must exist and be inheritable; the new topic gets the smaller of both queue numbers. With default settings on
both sides that is the smaller of 4 and 8. Retry and dead-letter topics are made without a template.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.names import is_retry_topic
from rocketlake.model.topic import (
    TEMPLATE_TOPIC,
    TOPIC_SYS_FLAG_UNIT,
    TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION,
    Perm,
    TopicConfig,
)
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["AutoCreate", "Saver"]

_log = get_logger(__name__)


class Saver(Protocol):
    """Saves the topic table (table_saver.py)."""

    def when_saved(self, done: Callable[[bool], None]) -> None:
        """Save now, then call `done`."""
        ...


class NewTopicAsked(Protocol):
    """What a producer wants a new topic to be like; the header of a send has it."""

    @property
    def topic(self) -> str: ...
    @property
    def default_topic(self) -> str: ...
    @property
    def default_topic_queue_nums(self) -> int: ...
    @property
    def unit_mode(self) -> bool | None: ...


class AutoCreate:
    """Makes topics on first use."""

    def __init__(self, topics: TopicTable, saver: Saver, config: LiveConfig) -> None:
        """autoCreateTopicEnable rules TBW102 only; other templates and retry topics are always good."""
        self._topics = topics
        self._saver = saver
        self._config = config
        self._warnings = RareWarnings(_log, interval_seconds=60)
        self.held: HeldRequests[str] = HeldRequests()
        """By topic: requests that wait until the topic is on disk."""

    def for_send(self, asked: NewTopicAsked) -> TopicConfig:
        """Make the topic of a send that names an unknown one; RemoteError if that is not allowed."""
        name = asked.topic
        flag = 0
        if asked.unit_mode:
            flag = TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION if is_retry_topic(name) else TOPIC_SYS_FLAG_UNIT
        topic = self.from_template(name, asked.default_topic, asked.default_topic_queue_nums, flag)
        if topic is None and is_retry_topic(name):
            topic = self.for_group(name, 1, flag)
        if topic is None:
            raise RemoteError(
                f"topic[{name}] not exist, apply first please!",
                code=ResponseCode.TOPIC_NOT_EXIST,
                hint="create the topic, or let producers create it with autoCreateTopicEnable=true",
            )
        return topic

    def from_template(self, name: str, template_name: str, queues: int, sys_flag: int = 0) -> TopicConfig | None:
        """Make a topic as its producer wants it; None if the template does not allow that.

        Raises UsageError when there are too many.
        """
        template = self._topics.get(template_name)
        if template is None or not Perm.is_inherited(template.perm):
            return None
        if template_name == TEMPLATE_TOPIC and not self._config.now.auto_create_topic:
            return None
        count = max(0, min(queues, template.write_queues))
        topic = TopicConfig(
            name,
            read_queues=count,
            write_queues=count,
            perm=template.perm & ~Perm.INHERIT,
            filter_type=template.filter_type,
            sys_flag=sys_flag,
        )
        self._put(topic)
        self._warnings.warn(
            "made",
            "topic %s was made by its first send, with %d queues, on this broker only: in a cluster all"
            " its messages come here; create topics on the whole cluster instead (autoCreateTopicEnable=false)",
            name,
            count,
        )
        return topic

    def for_group(self, name: str, queues: int, sys_flag: int = 0, *, ordered: bool = False) -> TopicConfig:
        """The retry or dead-letter topic of a group, readable and writable; made if it is missing."""
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        return self._put(TopicConfig(name, read_queues=queues, write_queues=queues, sys_flag=sys_flag, order=ordered))

    def once_saved(self, name: str, request: Request, serve: Handler) -> Reply | Held:
        """Serve the request: now if the topic is on disk, else when it has been saved.

        A message may be acknowledged only when its topic survives a crash as well. If the save fails, the answer is
        SERVICE_NOT_AVAILABLE, and the next request starts another save.
        """
        if name not in self._topics.unsaved:
            return serve(request)
        if self.held.hold(name, request, serve):
            self._save(name)
        return HELD

    def _put(self, topic: TopicConfig) -> TopicConfig:
        self._topics.check_room(topic)
        self._topics.put(topic)
        self._topics.unsaved.add(topic.name)
        self._save(topic.name)
        return topic

    def _save(self, name: str) -> None:
        self._saver.when_saved(lambda saved: self._note_saved(name, saved))

    def _note_saved(self, name: str, saved: bool) -> None:
        if name not in self._topics.unsaved:
            return  # an earlier save has done it
        if saved:
            self._topics.unsaved.discard(name)
        not_saved = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=f"the new topic {name} cannot be saved now")
        self.held.settle(name, None if saved else lambda _request: not_saved)
