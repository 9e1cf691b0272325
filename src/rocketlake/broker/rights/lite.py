"""May a group use this parent of lite topics?

Owns        the checks, their order and codes (RocketMQ's PopLiteMessageProcessor).
Must not know   requests, who subscribes.
"""

from __future__ import annotations

from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.rights.pop import check_pop, topic_to_pop
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.lite import LITE_BIND, LITE_WILDCARD, is_lite_topic
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LiteRights"]


class LiteRights:
    """Lets groups in."""

    def __init__(self, config: LiveConfig, topics: TopicTable, groups: GroupTable) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups

    def admit(self, parent: str, group: str, messages: int) -> None:
        """Let a pop in, or raise Refused."""
        check_pop(self._config.now, messages)
        topic = topic_to_pop(self._topics, parent)
        if not is_lite_topic(topic):
            raise Refused(
                f"topic {parent} is no parent of lite topics",
                code=ResponseCode.INVALID_PARAMETER,
                hint=f"`rocketlake topic alter {parent} --attribute +message.type=LITE`",
            )
        self._group(group, parent)
        self.bound(parent, group)

    def subscribing(self, parent: str, group: str) -> GroupConfig:
        """The group of a subscription; or Refused."""
        found = self._group(group, parent)
        self.bound(parent, group)
        return found

    def bound(self, parent: str, group: str) -> None:
        """Refused, if the group is not bound to this parent."""
        bound = self.attribute(group, LITE_BIND)
        if bound != parent:
            raise Refused(
                f"subscription bind topic not match, {group}: it is bound to {bound or 'no topic'}, not to {parent}",
                code=ResponseCode.INVALID_PARAMETER,
                hint=f"`rocketlake group alter {group} --attribute +{LITE_BIND}={parent}`",
            )

    def takes_all(self, group: str, parent: str) -> bool:
        """True if the group gets all lite topics of this parent."""
        found = self._groups.find(group)
        return found is not None and LITE_WILDCARD in found.attributes and found.attributes.get(LITE_BIND) == parent

    def attribute(self, group: str, name: str) -> str:
        """An attribute of a group; "" without it, and without the group."""
        found = self._groups.find(group)
        return found.attributes.get(name, "") if found is not None else ""

    def _group(self, group: str, parent: str) -> GroupConfig:
        found = self._groups.find(group)
        if found is None:
            raise Refused(
                f"subscription group [{group}] does not exist",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                hint=f"`rocketlake group create {group} --attribute +{LITE_BIND}={parent}`, or `group alter` if the"
                " heartbeat of a member has made it by now",
            )
        if not found.consume_enable:
            raise Refused(f"subscription group no permission, {group}", code=ResponseCode.NO_PERMISSION)
        return found
