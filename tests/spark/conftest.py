"""One local Spark for all tests of this folder."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Spark's own Python code warns and leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))


@pytest.fixture(scope="session", autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests that start Spark as a process of its own find the Java that sessions of this process would take."""
    from rocketlake.spark.java import provide_java

    provide_java(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session", autouse=True)
def log_formats() -> Iterator[None]:
    """PySpark's loggers leave the format of a handler alone.

    They give every handler that joins them their JSON format, for good. pytest's own handler joins each logger that
    does not propagate (since pytest 9.2), so one failed query would turn `caplog.text` of all later tests into JSON.
    """
    from pyspark.logger import PySparkLogger

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PySparkLogger, "addHandler", logging.Logger.addHandler)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2]; its Python workers find our packages and the probe."""
    from rocketlake.spark.pipeline.session import local_session

    paths = [str(HERE.parents[1] / "src"), str(HERE / "probes"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = local_session("tests", tmp_path_factory.mktemp("spark"), master="local[2]")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
