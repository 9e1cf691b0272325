"""Bodies of topics: one configuration, tables of them.

Owns        their shape.
Must not know   the topic table of a broker.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Final

from msgspec import field

from rocketlake.model.topic import DataVersion, TopicConfig, TopicFilterType
from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body, decoding_list
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.java_enum import TopicFilterType as TopicFilterTypeName

_FILTER_TYPES: Final = {kind.value: kind for kind in TopicFilterType}


class TopicEntry(Body, kw_only=True):
    """One topic configuration; alone it is the answer of GET_TOPIC_CONFIG."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: TopicFilterTypeName = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    def to_model(self) -> TopicConfig:
        """The model value."""
        return TopicConfig(
            name=self.topic_name,
            read_queues=self.read_queue_nums,
            write_queues=self.write_queue_nums,
            perm=self.perm,
            filter_type=_FILTER_TYPES.get(self.topic_filter_type, TopicFilterType.SINGLE_TAG),
            sys_flag=self.topic_sys_flag,
            order=self.order,
            attributes=dict(self.attributes),
        )

    @classmethod
    def from_model(cls, config: TopicConfig) -> TopicEntry:
        """From the model value."""
        return cls(
            topic_name=config.name,
            read_queue_nums=config.read_queues,
            write_queue_nums=config.write_queues,
            perm=config.perm,
            topic_filter_type=config.filter_type.value,
            topic_sys_flag=config.sys_flag,
            order=config.order,
            attributes=dict(config.attributes),
        )


class TopicTable(Body, kw_only=True):
    """Topics with the version of the table: registration, answer of GET_ALL_TOPIC_CONFIG.

    The mapping members belong to static topics and are kept unread.
    """

    data_version: DataVersionBody | None = None
    topics: dict[str, TopicEntry] = field(default_factory=dict, name="topicConfigTable")
    mapping_data_version: DataVersionBody | None = None
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, Any] | None = None

    def version(self) -> DataVersion:
        """The version as a model value; all zero when the peer sent none."""
        return (self.data_version or DataVersionBody()).to_model()

    def configs(self) -> dict[str, TopicConfig]:
        """The topics as model values, by name."""
        return {name: entry.to_model() for name, entry in self.topics.items()}

    @classmethod
    def from_model(cls, version: DataVersion, configs: list[TopicConfig]) -> TopicTable:
        """From model values, without static topics."""
        return cls(
            data_version=DataVersionBody.from_model(version),
            topics={config.name: TopicEntry.from_model(config) for config in configs},
            mapping_data_version=DataVersionBody.from_model(version),
            topic_queue_mapping_detail_map={},
            topic_queue_mapping_info_map={},
        )


class TopicConfigList(Body, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC_LIST."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    topics: list[TopicEntry] = field(default_factory=list, name="topicConfigList")

    @classmethod
    def decoding(cls, data: bytes | memoryview) -> Generator[None, None, list[TopicEntry]]:
        """The elements of a body, one a step. Raises BodyError."""
        return decoding_list(cls, "topicConfigList", TopicEntry, data)
