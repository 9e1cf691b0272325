"""Pipeline files from texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from rocketlake.spark.pipeline.model import Pipeline
from rocketlake.spark.pipeline.read import read_pipeline


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Pipeline]:
    """The pipeline of a YAML text, in a file called orders.yaml."""

    def read(text: str) -> Pipeline:
        path = tmp_path / "orders.yaml"
        path.write_text(dedent(text))
        return read_pipeline(path)

    return read
