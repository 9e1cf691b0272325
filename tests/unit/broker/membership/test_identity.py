"""The id files: Apache's texts, and no id lost in a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.broker.membership.identity import Application, IdentityFiles

FOLDER = Path("/s")


def identity(files: MemoryFiles, broker: str = "b") -> IdentityFiles:
    return IdentityFiles(FOLDER, files, "C", broker)


def test_the_texts_are_apaches() -> None:
    files = MemoryFiles()
    own = identity(files)
    assert (own.broker_id(), own.application()) == (None, None)
    own.apply(Application(3, "10.0.0.1:10911;1700"))
    assert files.read_bytes(FOLDER / "brokerIdentity-temp") == b"C#b#3#10.0.0.1:10911;1700"
    own.applied(3)
    assert files.read_bytes(FOLDER / "brokerIdentity") == b"C#b#3"
    assert (own.broker_id(), own.application()) == (3, None)


def test_an_application_outlives_a_power_cut_and_so_does_the_id() -> None:
    files = MemoryFiles()
    identity(files).apply(Application(2, "a;1"))
    files = files.power_cut()
    assert identity(files).application() == Application(2, "a;1")
    identity(files).applied(2)
    files = files.power_cut()
    assert (identity(files).broker_id(), identity(files).application()) == (2, None)


def test_an_application_is_given_up() -> None:
    files = MemoryFiles()
    identity(files).apply(Application(2, "a;1"))
    identity(files).give_up()
    identity(files).give_up()
    assert identity(files).application() is None


@pytest.mark.parametrize("text", ["", "C#b", "C#b#x", "C#b#1#2", "C#b#-1"])
def test_a_text_that_is_no_id_stops_the_start(text: str) -> None:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.write_bytes(FOLDER / "brokerIdentity", text.encode())
    with pytest.raises(StoreError, match="this is no id of a broker"):
        identity(files).broker_id()


def test_the_store_of_another_broker_stops_the_start() -> None:
    files = MemoryFiles()
    identity(files).applied(1)
    with pytest.raises(UsageError, match="belongs to broker b of cluster C, the settings say other of C"):
        identity(files, "other").broker_id()
