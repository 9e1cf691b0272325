from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.saved_json import save_text
from rocketlake.base.errors import StoreError
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.topic import TopicConfig, TopicFilterType

PATH = Path("/store/config/topics.json")
GOLDEN = Path(__file__).parents[4] / "tests/golden/stores/apache-5.3.3-clean/config/topics.json"


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def make(files: MemoryFiles, *builtin: TopicConfig) -> TopicTable:
    return TopicTable(PATH, files, ManualClock(), builtin)


def test_a_topic_is_found_after_put_and_gone_after_delete(files: MemoryFiles) -> None:
    table = make(files)
    table.put(TopicConfig("T", read_queues=4, write_queues=4))
    assert table.get("T") == TopicConfig("T", read_queues=4, write_queues=4)
    assert "T" in table
    assert table.delete("T")
    assert table.get("T") is None
    assert not table.delete("T")


def test_every_change_makes_a_new_version_and_is_told(files: MemoryFiles) -> None:
    table = make(files)
    told: list[str] = []
    table.on_change.append(told.append)
    versions = [table.data_version]
    table.put(TopicConfig("T"))
    versions.append(table.data_version)
    table.put(TopicConfig("T", order=True))
    versions.append(table.data_version)
    table.delete("T")
    versions.append(table.data_version)
    assert [version.counter for version in versions] == [0, 1, 2, 3]
    assert told == ["T", "T", "T"]


def test_a_saved_table_is_read_back(files: MemoryFiles) -> None:
    table = make(files)
    topic = TopicConfig(
        "T",
        read_queues=3,
        write_queues=2,
        perm=4,
        filter_type=TopicFilterType.MULTI_TAG,
        sys_flag=1,
        order=True,
        attributes={"cleanup.policy": "COMPACTION"},
    )
    table.put(topic)
    table.save()
    again = make(files)
    again.load()
    assert again.get("T") == topic
    assert again.data_version == table.data_version
    assert not again.changed


def test_an_unchanged_table_is_not_written(files: MemoryFiles) -> None:
    make(files, TopicConfig("B")).save()
    assert not files.exists(PATH)


def test_the_file_wins_over_builtin_topics(files: MemoryFiles) -> None:
    first = make(files, TopicConfig("TBW102", perm=7))
    first.put(TopicConfig("TBW102", perm=6))
    first.save()
    second = make(files, TopicConfig("TBW102", perm=7), TopicConfig("NEW"))
    second.load()
    tbw102 = second.get("TBW102")
    assert tbw102 is not None and tbw102.perm == 6
    assert "NEW" in second


def test_builtin_topics_are_system_topics(files: MemoryFiles) -> None:
    table = make(files, TopicConfig("my-cluster"))
    assert table.is_system("my-cluster")
    assert table.is_system("SCHEDULE_TOPIC_XXXX")
    assert table.is_system("rmq_sys_anything")
    assert not table.is_system("orders")


def test_the_file_of_an_apache_broker_is_read_and_written_the_same(files: MemoryFiles) -> None:
    save_text(files, PATH, GOLDEN.read_text())
    table = make(files)
    table.load()
    topic = table.get("Golden")
    assert topic is not None and (topic.read_queues, topic.perm) == (4, 6)
    assert table.to_text() == GOLDEN.read_text()


@pytest.mark.parametrize(
    "text",
    ["[]", '{"topicConfigTable":{"T":{"perm":"x"}}}', json.dumps({"topicConfigTable": 5})],
)
def test_a_file_that_makes_no_sense_stops_the_start_and_names_itself(files: MemoryFiles, text: str) -> None:
    save_text(files, PATH, text)
    with pytest.raises(StoreError, match=r"topics\.json"):
        make(files).load()


def test_the_copy_is_read_when_the_file_is_torn(files: MemoryFiles) -> None:
    table = make(files)
    table.put(TopicConfig("old"))
    table.save()
    table.put(TopicConfig("new"))
    table.save()
    files.write_bytes(PATH, b'{"topicConf')
    again = make(files)
    again.load()
    assert "old" in again
