"""Routes as SQL conditions, and their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.model import Pipeline
from rocketlake.spark.pipeline.routes import match_condition, sql_text

Read = Callable[[str], Pipeline]
SOURCE = "source: {subscribe: t}\n"


def test_match_and_where_become_one_condition(read: Read) -> None:
    routes = """\
route:
- {match: {tags: 'A|B', topic: 'or.*'}, where: queueId > 1, sink: {format: parquet, path: /lake/ab}}
- {where: queueId is null, sink: {format: parquet, path: /lake/odd}}
- {otherwise: true, sink: {format: parquet, path: /lake/rest/}}
"""
    first, second, rest = read(SOURCE + routes).routes
    tags = "coalesce(cast(`tags` as string) RLIKE '^(?:A|B)$', false)"
    topic = "coalesce(cast(`topic` as string) RLIKE '^(?:or.*)$', false)"
    assert first.condition == f"{tags} AND {topic} AND (queueId > 1)"
    assert second.condition == "(queueId is null)"
    assert rest.condition == f"NOT (coalesce({first.condition}, false) OR coalesce({second.condition}, false))"
    assert [route.name for route in (first, second, rest)] == ["ab", "odd", "rest"]


def test_sinks_share_what_stands_in_sink(read: Read) -> None:
    text = """\
sink: {format: parquet, compression: zstd}
route:
- {match: {tags: A}, sink: {path: /lake/a}}
- {match: {tags: B}, sink: {path: /lake/b, format: orc}}
"""
    first, second = read(SOURCE + text).routes
    assert (first.sink.format, first.sink.options.values) == ("parquet", {"compression": "zstd", "path": "/lake/a"})
    assert (second.sink.format, second.sink.options.values) == ("orc", {"compression": "zstd", "path": "/lake/b"})


def test_names_are_those_of_the_targets_so_that_checkpoints_stay_with_them(read: Read) -> None:
    one = "- {match: {tags: A}, sink: {format: parquet, path: /lake/a}}\n"
    two = "- {match: {tags: B}, sink: {format: parquet, path: /lake/b}}\n"
    assert {r.name for r in read(f"{SOURCE}route:\n{one}{two}").routes} == {"a", "b"}
    assert {r.name for r in read(f"{SOURCE}route:\n{two}{one}").routes} == {"a", "b"}


def test_two_routes_of_one_name_are_refused(read: Read) -> None:
    one = "- {match: {tags: A}, sink: {format: parquet, path: /lake/a}}\n"
    with pytest.raises(UsageError, match="two routes are called 'a'") as refused:
        read(f"{SOURCE}route:\n{one}{one}")
    assert refused.value.where == "orders.yaml, line 4"
    named = read(f"{SOURCE}route:\n{one}{one.replace('{match', '{name: a2, match', 1)}")
    assert [route.name for route in named.routes] == ["a", "a2"]


def test_the_rest_is_the_rest_of_its_own_view(read: Read) -> None:
    text = """\
transform: {v: select * from source}
route:
- {where: x > 1, from: source, sink: {format: parquet, path: /a}}
- {otherwise: true, sink: {format: parquet, path: /b}}
"""
    assert read(SOURCE + text).routes[1].condition == ""


@pytest.mark.parametrize(
    ("text", "literal"), [("a", "'a'"), ("it's", "'it\\'s'"), ("\\d+", "'\\\\d+'"), ("\\'", "'\\\\\\''")]
)
def test_sql_literals_end_where_they_should(text: str, literal: str) -> None:
    assert sql_text(text) == literal


def test_column_names_are_quoted() -> None:
    assert match_condition("a`b.c", "x").startswith("coalesce(cast(`a``b`.`c` as string) RLIKE")
