"""Where secrets are, and where they are not."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.lake.data_source import RocketMQLakeDataSource
from rocketlake.spark.places.location import location_of
from rocketlake.spark.schema import full_schema

GIVEN = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key-id": "env:TEST_KEY",
    "s3.secret-access-key": "env:TEST_SECRET",
    "s3.connect-timeout": "1",
}


def test_a_secret_is_in_no_pickle_and_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "the-key")
    monkeypatch.setenv("TEST_SECRET", "the-secret")
    source = RocketMQLakeDataSource({"path": "s3://b/t", **GIVEN})
    writer = source.streamWriter(schema=full_schema(), overwrite=False)
    location = writer._options.location  # type: ignore[attr-defined]
    assert location.open().library_options()["aws_secret_access_key"] == "the-secret"
    for each in (source, writer, location):
        assert b"the-secret" not in pickle.dumps(each)
        assert "the-secret" not in repr(each)


def test_a_store_that_is_not_there_is_named_without_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "the-key")
    monkeypatch.setenv("TEST_SECRET", "the-secret")
    place = location_of("s3://b/t", GIVEN, what="path").open()
    with pytest.raises(StoreError, match=r"did not answer.*s3://b/t/x.*s3.endpoint") as caught:
        place.get(place.path / "x")
    assert "the-secret" not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("the-secret", "env:NAME"),
        ("env:NOT_SET_HERE", r"NOT_SET_HERE, which is not set.*spark\.executorEnv"),
        ("file:/not/there", "/not/there, which cannot be read"),
    ],
)
def test_a_secret_that_is_not_where_it_should_be(value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "the-key")
    with pytest.raises(UsageError, match=said) as caught:
        location_of("s3://b/t", GIVEN | {"s3.secret-access-key": value}, what="path").open().library_options()
    assert "the-secret" not in str(caught.value)


def test_a_secret_may_be_a_line_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the-secret\n")
    given = {"s3.secret-access-key": f"file:{tmp_path}/secret"}
    options = location_of("s3a://b/t", given, what="path").open().library_options()
    assert options["aws_secret_access_key"] == "the-secret"


def test_no_store_is_touched_before_its_first_call() -> None:
    """obstore used before a fork hangs the child: neither import nor a writer, a location or a place may use it."""
    code = f"""
import sys
from rocketlake.spark.lake.data_source import RocketMQLakeDataSource
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.schema import full_schema
source = RocketMQLakeDataSource({{"path": "s3://b/t", **{GIVEN!r}}})
writer = source.streamWriter(schema=full_schema(), overwrite=False)
open_table(writer._options.location, "parquet")
print(sorted(name for name in sys.modules if name.partition(".")[0] == "obstore"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
