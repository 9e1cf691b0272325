"""Lite topics: how many a parent has, one of them, how far groups are behind in them.

Owns        the questions to each broker, how their answers are put together.
Must not know   how a broker keeps lite topics, how answers are shown.
"""

from __future__ import annotations

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.base.errors import UsageError
from rocketlake.model.lite import LITE_BIND
from rocketlake.protocol.bodies.lite_info import LiteGroupInfo, LiteLag, LiteTopicInfo, ParentTopicInfo
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.lite import LiteGroupInfoHeader, LiteTopicInfoHeader, ParentTopicInfoHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ClusterLites"]


class ClusterLites:
    """Questions about lite topics. Raises LinkError, RemoteError: RocketMQ before 5.5 knows none of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def parent(self, topic: str) -> dict[str, ParentTopicInfo]:
        """What each broker says of a parent."""
        answers = await self._ask(topic, RequestCode.GET_PARENT_TOPIC_INFO, ParentTopicInfoHeader(topic=topic))
        return {broker: ParentTopicInfo.decode(answer.body_bytes) for broker, answer in answers.items()}

    async def topic(self, parent: str, lite: str) -> dict[str, LiteTopicInfo]:
        """What each broker says of a lite topic."""
        header = LiteTopicInfoHeader(parent_topic=parent, lite_topic=lite)
        answers = await self._ask(parent, RequestCode.GET_LITE_TOPIC_INFO, header)
        return {broker: LiteTopicInfo.decode(answer.body_bytes) for broker, answer in answers.items()}

    async def _ask(self, parent: str, code: RequestCode, header: Header) -> dict[str, Command]:
        brokers = await self._cluster.topic_masters(parent)
        answers = await self._cluster.at_each(brokers, code, header, accept=(ResponseCode.INVALID_PARAMETER,))
        if any(answer.code != ResponseCode.SUCCESS for answer in answers.values()):
            raise UsageError(
                f"topic {parent} is no parent of lite topics",
                where=self._cluster.where,
                hint=f"`rocketlake topic alter {parent} --attribute +message.type=LITE` makes it one",
            )
        return answers

    async def behind(self, group: str, top: int) -> tuple[int, list[tuple[str, LiteLag]]]:
        """Messages that a group is behind in all its lite topics, and the brokers and lite topics where it is most."""
        groups = ClusterGroups(self._cluster)
        settings = (await groups.settings(group)).values()
        if not settings:
            raise groups.unknown(group)
        parent = next((each.attributes[LITE_BIND] for each in settings if LITE_BIND in each.attributes), "")
        if not parent:
            raise UsageError(
                f"group {group} is bound to no parent of lite topics",
                hint=f"`rocketlake group alter {group} --attribute +{LITE_BIND}=<parent topic>`",
            )
        brokers = await self._cluster.topic_masters(parent)
        header = LiteGroupInfoHeader(group=group, top_k=top)
        answers = await self._cluster.at_each(brokers, RequestCode.GET_LITE_GROUP_INFO, header)
        found = {broker: LiteGroupInfo.decode(answer.body_bytes) for broker, answer in answers.items()}
        lags = [(broker, lag) for broker, info in found.items() for lag in info.lag_count_top_k or ()]
        lags.sort(key=lambda each: -each[1].lag_count)
        return sum(max(0, info.total_lag_count) for info in found.values()), lags[:top]
