"""docs/how-to/spark_source.md lists exactly the options and columns there are."""

from __future__ import annotations

import re
from pathlib import Path

from rocketlake.spark.schema import COLUMNS
from rocketlake.spark.source.option_table import DESCRIPTIONS

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "spark_source.md").read_text()


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_option_is_documented_in_its_own_words() -> None:
    assert {name.strip("`"): meaning for name, meaning in rows("Options")} == DESCRIPTIONS


def test_every_column_is_documented_with_its_type() -> None:
    documented = {name.strip("`"): (kind, meaning) for name, kind, meaning in rows("Columns")}
    assert documented == {name: (kind.simpleString(), text) for name, (kind, text) in COLUMNS.items()}
