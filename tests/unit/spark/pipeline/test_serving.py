"""Which tables `lake serve` is asked for, and the pipelines that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.errors import ConflictError, UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import TopicConfig
from rocketlake.spark.pipeline.serving.alone import only_service
from rocketlake.spark.pipeline.serving.lags import TableLags
from rocketlake.spark.pipeline.serving.plan import ServePlan, pipeline_of
from rocketlake.spark.pipeline.serving.reached import Reached
from rocketlake.spark.pipeline.serving.table_turns import TableTurns
from rocketlake.spark.pipeline.serving.wanted import (
    WantedTable,
    checked_options,
    listed_in,
    listed_words,
    wanted_by_attributes,
)

PLAN = ServePlan("127.0.0.1:9876", "/lake", "/checkpoints")


def on(broker: str, **attributes: str) -> dict[str, TopicConfig]:
    dotted = {name.replace("_", "."): value for name, value in attributes.items()}
    return {broker: TopicConfig("orders", attributes=dotted)}


def test_attributes_of_any_broker_make_a_table() -> None:
    settings = {"orders": on("a", lake_format="delta", lake_keep_days="9") | on("b"), "plain": on("a")}
    wanted, unclear = wanted_by_attributes(settings, {"targetFileBytes": "65536"})
    options = (("bodyFormat", "raw"), ("tableFormat", "delta"), ("targetFileBytes", "65536"))
    assert wanted == {"orders": WantedTable("orders", options, 9)}
    assert unclear == {}


def test_brokers_that_disagree_and_values_that_are_unknown_make_none() -> None:
    settings = {
        "torn": on("a", lake_format="delta") | on("b", lake_format="iceberg"),
        "strange": on("a", lake_format="orc"),
    }
    wanted, unclear = wanted_by_attributes(settings, {})
    assert wanted == {}
    assert "delta on a, iceberg on b" in unclear["torn"]
    assert "'orc' is not known" in unclear["strange"]


def test_a_file_lists_tables_with_options_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(
        "options: {catalog.type: sql, catalog.uri: 'sqlite:////c.db', compression: lz4}\n"
        "topics:\n  orders: delta\n"
        "  clicks: {tableFormat: iceberg, bodyFormat: json, bodySchema: 'id bigint', keepDays: 30, compression: zstd}\n"
    )
    listed = listed_in(file, {"targetFileBytes": "65536"})
    orders, clicks = listed.tables
    assert dict(orders.options) == {"compression": "lz4", "tableFormat": "delta", "targetFileBytes": "65536"}
    assert (clicks.keep_days, dict(clicks.options)["compression"]) == (30, "zstd")
    assert dict(clicks.options)["catalog.uri"] == "sqlite:////c.db"
    sink = pipeline_of(PLAN, clicks).routes[0].sink.options.values
    assert sink["path"] == "/lake/clicks"
    assert sink["bodySchema"] == "id bigint"


@pytest.mark.parametrize(
    ("text", "why", "where"),
    [
        ("tables: {}", "no key 'tables'", "line 1"),
        ("topics:\n  a: {subscribe: b}", "'subscribe' is set by `lake serve`", "line 2"),
        ("topics:\n  a:\n    speed: 3", "'speed' of a table is not known", "line 3"),
        ("topics:\n  a: deltta", "topic a has no format 'deltta'", "line 2"),
        ("topics:\n  a: {keepDays: soon}", "'keepDays' is 'soon'", "line 2"),
        ("topics: [a]", "`topics` is not a mapping", "line 1"),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, text: str, why: str, where: str) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=why) as refused:
        listed_in(file, {})
    assert where in refused.value.where


def test_a_format_that_does_not_exist_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match=r"topic orders has no format 'deltta'.*write one of parquet, delta, iceberg"):
        listed_words(["orders=deltta"], {})


def test_options_find_the_side_that_they_are_for() -> None:
    options = checked_options({"S3.Endpoint": "http://h", "maxoffsetspertrigger": "7", "onBadRecord": "skip"})
    (table,) = listed_words(["orders"], options).tables
    plan = ServePlan("127.0.0.1:9876", "s3://bucket/lake", "/checkpoints")
    pipeline = pipeline_of(plan, table)
    source, sink = pipeline.source.options.values, pipeline.routes[0].sink.options.values
    assert (source["s3.endpoint"], sink["s3.endpoint"]) == ("http://h", "http://h")
    assert (source["maxOffsetsPerTrigger"], sink["onBadRecord"]) == ("7", "skip")
    assert "onBadRecord" not in source
    assert "maxOffsetsPerTrigger" not in sink
    assert (source["lossTable"], pipeline.checkpoint) == ("s3://bucket/lake/_losses/orders", "/checkpoints/orders")
    with pytest.raises(UsageError, match="name of a folder beside the tables"):
        pipeline_of(plan, WantedTable("_checkpoints"))


def test_a_table_has_a_turn_when_there_is_something_to_read(tmp_path: Path) -> None:
    queue, lags = MessageQueue("orders", "a", 0), TableLags()
    table = TableTurns(WantedTable("orders"))
    assert not table.is_due(0.0)
    table.ask({queue: 5}, lags)
    assert table.is_due(0.0)
    pauses = [table.fail(UsageError("no"), 100.0) for _ in range(8)]
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    assert (table.is_due(399.0), table.is_due(400.0)) == (False, True)


A0, B0 = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0)


def turn(reached: Reached, read: dict[MessageQueue, int]) -> bool:
    """A turn that reads so far; True if another one is due behind it."""
    reached.begin()
    reached.finish(read)
    return reached.is_behind()


def test_a_table_is_behind_until_a_turn_has_read_what_a_look_saw() -> None:
    reached = Reached()
    assert turn(reached, {})  # nobody knows what there is
    reached.look({A0: 5, B0: 0})
    assert not turn(reached, {A0: 5})
    reached.look({A0: 5, B0: 1})
    assert reached.is_behind()
    turn(reached, {A0: 5, B0: 2})
    reached.look({A0: 5, B0: 2})
    assert not reached.is_behind()
    reached.look({A0: 3, B0: 2})
    assert reached.is_behind()


@pytest.mark.parametrize("is_seen", ["during the turn", "behind it"])
def test_what_a_broker_holds_that_left_during_a_turn_is_read_when_it_is_back(is_seen: str) -> None:
    reached = Reached()
    reached.look({A0: 5, B0: 7})
    reached.begin()
    if is_seen == "during the turn":
        reached.look({A0: 5})
    reached.finish({A0: 5})
    if is_seen == "behind it":
        reached.look({A0: 5})
    assert not reached.is_behind()
    reached.look({A0: 5, B0: 7})
    assert reached.is_behind()
    assert not turn(reached, {B0: 7})
    reached.look({A0: 5, B0: 7})
    assert not reached.is_behind()


def test_a_second_service_with_the_same_checkpoints_is_refused(tmp_path: Path) -> None:
    with only_service(str(tmp_path / "c")):
        with (
            pytest.raises(ConflictError, match="another `lake serve` has these checkpoints"),
            only_service(str(tmp_path / "c")),
        ):
            pass
        with only_service(str(tmp_path / "d")), only_service("s3a://bucket/c"), only_service("s3a://bucket/c"):
            pass
    with only_service(str(tmp_path / "c")):
        assert (tmp_path / "c" / ".lock").exists()
