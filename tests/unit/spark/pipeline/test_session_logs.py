"""What PySpark would print of an error before it raises it."""

from __future__ import annotations

import pytest
from pyspark.logger import PySparkLogger

from rocketlake.spark.pipeline.session import silence_error_logs


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_pysparks_own_lines_about_errors_are_not_printed(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    silence_error_logs()
    logger = PySparkLogger.getLogger(name)
    try:
        raise ValueError("the cause")
    except ValueError:
        logger.exception("a text", errorClass="UNRESOLVED")
    assert capfd.readouterr().err == ""
