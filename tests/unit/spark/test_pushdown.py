"""Spark's filters taken apart, and whether there will be any."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import datasource as ds

from rocketlake.spark.pushdown import Comparison, comparison_of, epoch_micros, is_pushdown_on


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        (ds.EqualTo(("topic",), "T"), Comparison("topic", "=", ("T",))),
        (ds.In(("topic",), ["T", "U"]), Comparison("topic", "in", ("T", "U"))),  # type: ignore[arg-type]
        (ds.In(("topic",), ("T",)), Comparison("topic", "in", ("T",))),
        (ds.LessThan(("queueOffset",), 5), Comparison("queueOffset", "<", (5,))),
        (ds.GreaterThanOrEqual(("queueOffset",), 5), Comparison("queueOffset", ">=", (5,))),
        (ds.EqualTo(("topic",), None), None),
        (ds.In(("topic",), ("T", None)), None),
        (ds.EqualTo(("properties", "k"), "v"), None),
        (ds.Not(ds.EqualTo(("topic",), "T")), None),
        (ds.IsNotNull(("topic",)), None),
        (ds.StringStartsWith(("topic",), "T"), None),
        (ds.EqualNullSafe(("topic",), "T"), None),
    ],
)
def test_comparisons_of_one_column_are_understood_and_nothing_else(
    filter: ds.Filter, wanted: Comparison | None
) -> None:
    assert comparison_of(filter) == wanted


def test_times_are_exact_in_any_zone() -> None:
    moment = datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    assert epoch_micros(moment) == 1_795_305_599_999_999
    assert epoch_micros(moment.astimezone(timezone(timedelta(hours=-5)))) == epoch_micros(moment)
    assert epoch_micros(datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)) == -999_999


def test_only_the_planner_that_offers_filters_counts(tmp_path: Path) -> None:
    assert not is_pushdown_on()
    planner = tmp_path / "data_source_pushdown_filters.py"
    planner.write_text("def plan(ask):\n    return ask()\n")
    names: dict[str, object] = {}
    exec(compile(planner.read_text(), str(planner), "exec"), names)  # noqa: S102  the stack must show this file
    assert names["plan"](is_pushdown_on)  # type: ignore[operator]
