from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.namesrv import kv_config
from rocketlake.namesrv.kv_config import KVConfig

PATH = Path("/home/namesrv/kvConfig.json")


def test_values_are_saved_at_each_change() -> None:
    files = MemoryFiles()
    values = KVConfig(PATH, files)
    values.put("ns", "k", "v")
    values.put("ns", "gone", "v")
    values.delete("ns", "gone")
    files.power_cut()
    again = KVConfig(PATH, files)
    again.load()
    assert again.namespace("ns") == {"k": "v"}
    assert again.get("ns", "k") == "v"


def test_two_name_servers_with_one_file_lose_nothing_of_each_other() -> None:
    """attacks.md, S8: both use the same file by default, and the second to save wrote the first one's values away."""
    files = MemoryFiles()
    one, other = KVConfig(PATH, files), KVConfig(PATH, files)
    one.load()
    other.load()
    one.put("ns", "a", "1")
    other.put("ns", "b", "2")
    other.put("ns", "a", "3")
    one.delete("ns", "b")
    again = KVConfig(PATH, files)
    again.load()
    assert again.namespace("ns") == {"a": "3"}


def test_the_number_and_the_size_of_values_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "VALUES_MAX", 2)
    values = KVConfig(PATH, MemoryFiles())
    values.put("ns", "a", "1")
    values.put("other", "b", "1")
    values.put("ns", "a", "2")
    with pytest.raises(UsageError, match="2 KV settings already"):
        values.put("ns", "c", "1")
    with pytest.raises(UsageError, match="longer than"):
        values.put("ns", "a", "x" * 70_000)
    assert values.namespace("ns") == {"a": "2"}


def test_what_is_missing_is_none() -> None:
    values = KVConfig(PATH, MemoryFiles())
    values.load()
    values.delete("ns", "k")
    assert values.get("ns", "k") is None
    assert values.namespace("ns") is None


def test_a_file_of_apaches_name_server_is_read() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4;broker-b:4"}}}')
    values = KVConfig(PATH, files)
    values.load()
    assert values.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4;broker-b:4"


def test_a_file_that_is_json_but_no_kv_table_says_so() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b'{"configTable":{"ns":[1]}}')
    with pytest.raises(StoreError, match=r"KV settings cannot be read.*kvConfig\.json"):
        KVConfig(PATH, files).load()
