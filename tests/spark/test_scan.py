"""format("rocketmq_store") in a real Spark: with push-down on, off and unset, in SQL, on Apache's store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketlake.codec.record import decode_record
from rocketlake.store.reader import StoreReader

GOLDEN = Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["on", "off", "unset"])
def pushdown(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    if request.param == "unset":
        spark.conf.unset(PUSHDOWN)
    else:
        spark.conf.set(PUSHDOWN, str(request.param == "on").lower())
    yield request.param
    spark.conf.unset(PUSHDOWN)


def expected() -> dict[int, tuple[str, int, int, str | None, bytes]]:
    reader = StoreReader(GOLDEN)
    rows = {}
    for entry in reader.scan_log():
        record = reader.record(entry.physical_offset)
        assert record is not None
        message = decode_record(record)
        keys = message.properties.get("KEYS")
        rows[message.physical_offset] = message.topic, message.queue_id, message.queue_offset, keys, message.body
    return rows


def test_rows_are_right_with_push_down_on_off_and_unset(spark: SparkSession, pushdown: str) -> None:
    frame = spark.read.format("rocketmq_store").option("maxHashSlotNum", 97).load(str(GOLDEN))
    rows = expected()
    if pushdown == "unset":
        found = {
            row.commitLogOffset: (row.topic, row.queueId, row.queueOffset, row.keys, bytes(row.body))
            for row in frame.collect()
        }
        assert found == rows
    for condition, wanted in (
        ("topic = 'Golden' and queueId = 1 and queueOffset between 10 and 19",
         [place for place, row in rows.items() if row[:2] == ("Golden", 1) and 10 <= row[2] < 20]),
        ("keys = 'k77'", [place for place, row in rows.items() if row[3] == "k77"]),
        ("storeTimestamp < '2000-01-01'", []),
        ("keys = 'k77' or queueOffset = 5",
         [place for place, row in rows.items() if row[3] == "k77" or row[2] == 5]),
    ):  # fmt: skip
        assert frame.filter(condition).count() == len(wanted), f"{condition} on a DataFrame that is used again"
        once = spark.read.format("rocketmq_store").option("maxHashSlotNum", 97).option("pushDown", "true")
        chosen = once.load(str(GOLDEN)).filter(condition).select("commitLogOffset")
        assert sorted(row[0] for row in chosen.collect()) == sorted(wanted), condition
        if pushdown == "on" and condition.startswith("topic"):
            plan = chosen._jdf.queryExecution().executedPlan().toString()
            assert "Filter (" not in plan, plan


@pytest.mark.smoke
def test_every_table_can_be_read_with_sql(spark: SparkSession) -> None:
    counts = {}
    for table in ("messages", "consumequeue", "index", "offsets", "half", "topics", "checkpoint", "schedule"):
        name = f"golden_{table}"
        spark.sql(
            f"create temporary view {name} using rocketmq_store "
            f"options (path '{GOLDEN}', table '{table}', maxHashSlotNum '97')"
        )
        counts[table] = spark.table(name).count()
        spark.catalog.dropTempView(name)
    assert counts["messages"] == counts["consumequeue"] == len(expected())
    assert (counts["half"], counts["checkpoint"], counts["schedule"]) == (0, 1, 6)
    assert counts["offsets"] == 5 and counts["topics"] > 10 and counts["index"] > 1000


def test_an_own_schema_prunes_and_wrong_options_are_named_at_load(spark: SparkSession) -> None:
    frame = spark.read.format("rocketmq_store").schema("body binary, crcOk boolean").load(str(GOLDEN))
    assert frame.columns == ["body", "crcOk"] and frame.filter("crcOk").count() == len(expected())
    with pytest.raises(Exception, match="did you mean 'table'"):
        spark.read.format("rocketmq_store").option("tabel", "index").load(str(GOLDEN))
    with pytest.raises(Exception, match="no commit log here"):
        spark.read.format("rocketmq_store").load(str(GOLDEN / "config")).count()
