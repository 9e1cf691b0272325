"""docs/how-to/spark_sink.md lists exactly the options, columns and faults there are."""

from __future__ import annotations

import re
from pathlib import Path

from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.input_columns import COLUMNS
from rocketlake.spark.sink.options import DESCRIPTIONS

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "spark_sink.md").read_text()


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in re.split(r" \| ", line.strip("| "))] for line in lines]


def test_every_option_is_documented_in_its_own_words() -> None:
    assert {name: meaning for name, meaning in rows("Options")} == {n: t.strip("`") for n, t in DESCRIPTIONS.items()}


def test_every_column_is_documented_with_its_type() -> None:
    assert {name: (kind, text) for name, kind, text in rows("Columns")} == COLUMNS


def test_every_fault_is_documented() -> None:
    documented = {name: text for name, text in rows("Rows that make no message")}
    assert documented == {fault.name: fault.text for fault in Fault if fault}
