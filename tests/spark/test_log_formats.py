"""A failed query of Spark changes nothing in what later tests read in `caplog`."""

from __future__ import annotations

import logging

import pytest
from pyspark.logger import PySparkLogger


@pytest.fixture
def failed_query() -> None:
    """What PySpark does when a query fails (pyspark.errors); pytest joins the logger when the test itself begins."""
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.propagate = False
    logger.error("a failed query")
    assert logger.handlers, "PySpark has its own way of writing; the next test reads what pytest keeps"


def test_the_text_of_later_records_is_plain(failed_query, caplog):
    try:
        raise ValueError("a mistake")
    except ValueError:
        logging.getLogger(__name__).exception("a duty failed")
    assert "ValueError: a mistake" in caplog.text
    assert "Traceback" in caplog.text
