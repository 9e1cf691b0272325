"""A pipeline as a declarative project: files that Python and SQL can read, without secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.export import export_project, field_names, project_files, streamed
from rocketlake.spark.pipeline.model import Pipeline
from rocketlake.spark.pipeline.read import read_pipeline

Read = Callable[[str], Pipeline]
ROOT = Path(__file__).parents[4]

TEXT = """\
source: {namesrvAddr: "${HOST:-h}:9876", subscribe: orders, body: json, schema: "id bigint, tags string",
  clientId: "${SECRET}"}
transform:
  big: select * from source where id > 10
sink: {format: parquet}
route:
- {match: {tags: 'A''B'}, sink: {path: /a}}
- {otherwise: true, from: source, sink: {path: /b}}
onError: {dlq: {topic: bad}}
spark: {spark.sql.shuffle.partitions: 2}
"""


@pytest.fixture
def files(read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("SECRET", "s3cr3t-value")
    return project_files(read(TEXT.replace('\n  clientId: "${SECRET}"}', ' tags: "${SECRET}"}')), tmp_path / "p")


def test_the_project_can_be_read(files: dict[str, str], tmp_path: Path) -> None:
    spec = yaml.safe_load(files["spark-pipeline.yaml"])
    assert spec["name"] == "orders"
    assert spec["storage"] == (tmp_path / "p" / "storage").as_uri()
    assert spec["configuration"] == {"spark.sql.shuffle.partitions": "2"}
    compile(files["transformations/flows.py"], "flows.py", "exec")
    assert files["transformations/views.sql"] == (
        "CREATE TEMPORARY VIEW big AS\nselect * from STREAM(source) where id > 10;\n"
    )


def test_every_query_is_a_flow_into_a_sink(files: dict[str, str]) -> None:
    code = files["transformations/flows.py"]
    for name in ("a", "b", "dlq"):
        assert f'dp.create_sink("{name}_sink"' in code
        assert f'@dp.append_flow(target="{name}_sink", name="{name}")' in code
    assert 'spark.readStream.table("big")' in code
    assert 'spark.readStream.table("source")' in code


def test_values_of_the_environment_stay_there(files: dict[str, str]) -> None:
    code = files["transformations/flows.py"]
    assert "os.environ['SECRET']" in code
    assert "os.environ.get('HOST', 'h') + ':9876'" in code
    assert not any("s3cr3t-value" in text for text in files.values())


def test_a_message_column_that_the_event_has_too_is_renamed(files: dict[str, str]) -> None:
    code = files["transformations/flows.py"]
    assert "F.col(\"_event\").getField('tags').alias('tags')" in code
    assert "F.col('tags').alias(\"message_tags\")" in code


@pytest.mark.parametrize("file", sorted((ROOT / "docs" / "pipelines").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_documented_pipelines_can_be_exported_or_are_refused_with_a_cure(file: Path, tmp_path: Path) -> None:
    pipeline = read_pipeline(file)
    try:
        found = project_files(pipeline, tmp_path)
    except UsageError as refused:
        assert file.stem == "store_to_lake"
        assert refused.hint
        return
    compile(found["transformations/flows.py"], "flows.py", "exec")


def test_nothing_is_overwritten(read: Read, tmp_path: Path) -> None:
    pipeline = read("source: {subscribe: t}\nsink: {format: parquet, path: /x}\n")
    target = tmp_path / "project"
    assert {path.name for path in export_project(pipeline, target)} == {"spark-pipeline.yaml", "flows.py"}
    with pytest.raises(UsageError, match="not empty"):
        export_project(pipeline, target)


@pytest.mark.parametrize(
    "sink", ["{format: console}", "{format: parquet, path: /x, mode: complete}", "{format: parquet, partitionBy: a}"]
)
def test_what_a_declarative_sink_cannot_do_is_refused(read: Read, tmp_path: Path, sink: str) -> None:
    with pytest.raises(UsageError, match="rocketlake pipeline run"):
        project_files(read(f"source: {{subscribe: t}}\nsink: {sink}\n"), tmp_path)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("select * from source", "select * from STREAM(source)"),
        ("SELECT 1 FROM source s JOIN big ON x", "SELECT 1 FROM STREAM(source) s JOIN STREAM(big) ON x"),
        ("select source.id from sources", "select source.id from sources"),
        ("select * from source.t", "select * from source.t"),
    ],
)
def test_views_are_read_as_streams(sql: str, wanted: str) -> None:
    assert streamed(sql, ("source", "big")) == wanted


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("id bigint, at timestamp", ["id", "at"]),
        ("a struct<x: int, y: array<map<string,int>>>, `b c` decimal(10, 2)", ["a", "b c"]),
        ("a: int, `x,y` string, c string not null comment 'x'", ["a", "x,y", "c"]),
    ],
)
def test_fields_of_a_schema(schema: str, names: list[str]) -> None:
    assert field_names(schema) == names
