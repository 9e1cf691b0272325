"""Families as text of Prometheus' format."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.base.figures.histogram import Histogram
from rocketlake.net.http.exposition import Exposition, Family, Pace, SampleLimit, labels_of, labels_text, number
from rocketlake.net.http.settings import parse_headers, parse_labels


async def text_of(*families: Family, common: str = "", samples_max: int = 100) -> tuple[str, SampleLimit]:
    async def all_of_them() -> AsyncIterator[Family]:
        for family in families:
            yield family

    limit = SampleLimit(samples_max)
    parts = [part async for part in Exposition(common, limit).parts(all_of_them(), Pace(ManualClock()))]
    return b"".join(parts).decode(), limit


async def test_unit_and_labels_stand_where_apache_has_them() -> None:
    labels = labels_text({"consumer_group": "g", "topic": "t"})
    family = Family("rocketmq_consumer_lag_latency", "gauge", "Age", [(labels, 1500)], "milliseconds")
    text, _ = await text_of(family, common=labels_text({"cluster": "c"}))
    assert text == (
        "# HELP rocketmq_consumer_lag_latency_milliseconds Age\n"
        "# TYPE rocketmq_consumer_lag_latency_milliseconds gauge\n"
        'rocketmq_consumer_lag_latency_milliseconds{cluster="c",consumer_group="g",topic="t"} 1500\n'
    )


async def test_a_name_that_ends_with_its_unit_is_kept() -> None:
    assert number("rocketmq_storage_flush_behind_bytes", "x", 1, "bytes").wire_name.count("bytes") == 1


async def test_labels_are_escaped() -> None:
    text, _ = await text_of(Family("n", "gauge", "x\ny", [(labels_text({"topic": 'a"b\\c\nd'}), 1)]))
    assert text.splitlines()[0] == "# HELP n x\\ny"
    assert text.splitlines()[2] == 'n{topic="a\\"b\\\\c\\nd"} 1'


async def test_a_histogram_counts_upwards() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.5, 7.0):
        histogram.note(value)
    text, _ = await text_of(Family("h", "histogram", "x", [('a="b"', histogram)], "seconds"))
    assert text.splitlines()[2:] == [
        'h_seconds_bucket{a="b",le="0.1"} 1',
        'h_seconds_bucket{a="b",le="1.0"} 2',
        'h_seconds_bucket{a="b",le="+Inf"} 3',
        'h_seconds_count{a="b"} 3',
        'h_seconds_sum{a="b"} 7.6',
    ]


async def test_samples_above_the_limit_are_left_out_and_counted() -> None:
    many = [(f'topic="t{number}"', number) for number in range(250)]
    text, limit = await text_of(Family("n", "gauge", "x", many), number("m", "x", 1), samples_max=200)
    assert text.count("\nn{") == 200
    assert "\nm{} 1\n" in text
    assert limit.dropped == {"n": 50}
    assert limit.samples == 201


@pytest.mark.parametrize(
    ("value", "shown"), [(float("inf"), "+Inf"), (float("-inf"), "-Inf"), (True, "1"), (0.5, "0.5")]
)
async def test_numbers_are_those_of_the_format(value: float, shown: str) -> None:
    text, _ = await text_of(number("n", "x", value))
    assert text.endswith(f"n{{}} {shown}\n")


def test_labels_of_a_setting() -> None:
    assert parse_labels("team:shop, zone:z1") == {"team": "shop", "zone": "z1"}
    for wrong in ("team", "a b:c", 'x":y', "1:2", ":v"):
        with pytest.raises(UsageError, match="metricsLabel"):
            parse_labels(wrong)


def test_headers_of_a_setting_and_a_refusal_that_does_not_show_them() -> None:
    assert parse_headers("Authorization:Basic x:y, x-team:shop") == {"authorization": "Basic x:y", "x-team": "shop"}
    for wrong in ("secret", "a b:secret", "a:s\u00e9cret", ":secret"):
        with pytest.raises(UsageError, match="metricsGrpcExporterHeader") as caught:
            parse_headers(wrong)
        assert "secret" not in str(caught.value)


def test_labels_are_read_back() -> None:
    labels = {"topic": 'a"b\\c\nd', "group": "", "other": 'x="y",z'}
    assert dict(labels_of(labels_text(labels))) == labels
