"""The tables beside `messages`: what stands in queues, index and configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.java.java_compat import string_hash
from rocketlake.store.key_index.layout import key_hash
from rocketlake.store.reader import StoreReader

GOLDEN = Path(__file__).parents[3] / "golden/stores/apache-5.3.3-clean"
Scan = Callable[..., Any]


def test_consume_queues_are_those_of_the_reader(scan: Scan) -> None:
    reader = StoreReader(GOLDEN)
    wanted = {
        (topic, queue_id, *entry)
        for topic in reader.topics() for queue_id in reader.queue_ids(topic)
        for entry in reader.entries(topic, queue_id, 0, 10_000)
    }  # fmt: skip
    rows = scan(GOLDEN, table="consumequeue").rows
    assert {tuple(row.values()) for row in rows} == wanted
    assert len(rows) == len(wanted) == 716
    tags = {row["commitLogOffset"]: row["tags"] for row in scan(GOLDEN).rows}
    for row in rows:
        assert row["topic"] == "SCHEDULE_TOPIC_XXXX" or row["tagsCode"] == string_hash(
            tags[row["commitLogOffset"]] or ""
        )
    assert {row["topic"] for row in scan(GOLDEN, table="consumequeue", topics="Golden").rows} == {"Golden"}


def test_the_index_names_every_key_of_every_message(scan: Scan) -> None:
    entries = {(row["keyHash"], row["commitLogOffset"]) for row in scan(GOLDEN, table="index", maxHashSlotNum=97).rows}
    for row in scan(GOLDEN).rows:
        keys = [dict(row["properties"]).get("UNIQ_KEY"), *(row["keys"] or "").split(" ")]
        for key in keys:
            assert not key or (key_hash(f"{row['topic']}#{key}"), row["commitLogOffset"]) in entries


def test_an_index_of_another_size_names_the_setting(scan: Scan) -> None:
    with pytest.raises(UsageError, match="maxHashSlotNum"):
        scan(GOLDEN, table="index", maxHashSlotNum=5_000_000)


def test_offsets_have_their_lag(scan: Scan) -> None:
    names = ("consumerGroup", "topic", "queueId", "committedOffset", "lag")
    assert {tuple(row[name] for name in names) for row in scan(GOLDEN, table="offsets").rows} == {
        ("golden_group", "Golden", 0, 201, 0), ("golden_group", "Golden", 1, 151, 0),
        ("golden_group", "Golden", 2, 151, 0), ("golden_group", "Golden", 3, 201, 0),
        ("golden_group", "%RETRY%golden_group", 0, 6, 0),
    }  # fmt: skip


def test_topics_are_those_of_the_broker_and_of_its_queues(store: Any, scan: Scan) -> None:
    store.put("unknown to the table", 0, b"x")
    store.stop()
    (row,) = scan(store.root, table="topics").rows
    assert (row["topic"], row["queues"], row["isConfigured"], row["perm"]) == ("unknown to the table", 1, False, None)
    golden = {row["topic"]: row for row in scan(GOLDEN, table="topics").rows}
    assert (golden["Golden"]["readQueueNums"], golden["Golden"]["queues"]) == (4, 4)
    assert golden["BenchmarkTest"]["queues"] == 0


def test_a_broken_table_is_read_from_its_backup_or_named(store: Any, scan: Scan) -> None:
    store.stop()
    config = store.root / "config"
    config.mkdir()
    (config / "topics.json").write_text("{broken")
    with pytest.raises(StoreError, match=r"topics\.json"):
        scan(store.root, table="topics")
    (config / "topics.json.bak").write_text('{"topicConfigTable":{"T":{"perm":4}}}')
    assert [(row["topic"], row["perm"]) for row in scan(store.root, table="topics").rows] == [("T", 4)]


def test_the_checkpoint_says_whether_the_store_was_stopped(store: Any, scan: Scan) -> None:
    store.put("T", 0, b"x")
    assert scan(store.root, table="checkpoint").rows[0]["isOpen"] is True
    store.stop()
    (row,) = scan(store.root, table="checkpoint").rows
    assert row["isOpen"] is False
    assert row["physicTimestamp"] == row["logicsTimestamp"] == scan(store.root).rows[0]["storeTimestamp"]
    (store.root / "checkpoint").unlink()
    assert scan(store.root, table="checkpoint").rows == []


def test_half_messages_are_open_until_an_op_message_or_progress_ends_them(store: Any, scan: Scan) -> None:
    for number in range(6):
        store.put(
            "RMQ_SYS_TRANS_HALF_TOPIC", 0, b"half %d" % number, REAL_TOPIC="orders", REAL_QID="2", PGROUP="g",
            TRANSACTION_CHECK_TIMES="3",
        )  # fmt: skip
    store.put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"2,4,", TAGS="d")
    store.put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"5", TAGS="other")
    store.stop()
    (store.root / "config").mkdir()
    (store.root / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1}}}'
    )
    rows = scan(store.root, table="half").rows
    assert [row["state"] for row in rows] == ["ended", "open", "ended", "open", "ended", "open"]
    assert rows[1]["body"] == b"half 1"
    names = ("realTopic", "realQueueId", "producerGroup", "checkTimes")
    assert tuple(rows[1][name] for name in names) == ("orders", 2, "g", 3)
    assert scan(store.root, table="half", columns="state").rows[0] == {"state": "ended"}


def test_delayed_messages_wait_until_their_level_has_passed_them(scan: Scan) -> None:
    rows = scan(GOLDEN, table="schedule").rows
    assert [row["state"] for row in rows] == ["delivered"] * 6
    assert {row["realTopic"] for row in rows} == {"%RETRY%golden_group"}
    for row in rows:
        assert (row["dueTimestamp"] - row["storeTimestamp"]).total_seconds() == 1
