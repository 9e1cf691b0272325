"""docs/how-to/pipelines.md lists exactly the keys there are, and its example is a pipeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketlake.spark.lake.offset_ranges import QUEUE_COLUMNS
from rocketlake.spark.pipeline.keys import KEYS
from rocketlake.spark.pipeline.read import read_pipeline

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "pipelines.md").read_text()


@pytest.mark.parametrize("kind", KEYS)
def test_every_key_is_documented_in_its_own_words(kind: str) -> None:
    section = PAGE.split(f"### {kind}\n", 1)[1].split("\n#", 1)[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip().strip("`"): meaning.strip() for name, meaning in rows} == KEYS[kind]


def test_the_example_of_the_page_is_a_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(PAGE.split("```yaml\n", 1)[1].split("```", 1)[0])
    pipeline = read_pipeline(file)
    assert (pipeline.name, pipeline.on_error) == ("orders", "dlq")
    assert [route.sink.format for route in pipeline.routes] == ["rocketmq_lake"]
    # So that `rocketlake lake expire` and `lake info --offsets` work on its table.
    (view,) = pipeline.views
    assert set(re.findall(r"\w+", view.sql)) >= {"storeTimestamp", *QUEUE_COLUMNS}
