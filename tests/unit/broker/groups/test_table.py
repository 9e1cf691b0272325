from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.broker.groups.table import BUILTIN_GROUPS, READ_FORBIDDEN, GroupTable
from rocketlake.model.group import GroupConfig

GOLDEN = Path(__file__).parents[3] / "golden/stores/apache-5.3.3-clean/config/subscriptionGroup.json"
PATH = Path("/store/config/subscriptionGroup.json")


def make_table(files: MemoryFiles | None = None, *, auto_create: bool = True) -> GroupTable:
    return GroupTable(PATH, files or MemoryFiles(), ManualClock(), auto_create=auto_create)


def with_golden() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, GOLDEN.read_bytes())
    return files


def test_a_file_written_by_apache_is_written_back_byte_for_byte() -> None:
    table = make_table(with_golden())
    table.load()
    written = json.loads(table.to_text())
    wanted = json.loads(GOLDEN.read_text())
    assert written == wanted
    assert sorted(table.to_text().splitlines()) == sorted(GOLDEN.read_text().splitlines())


def test_the_builtin_groups_exist_from_the_start() -> None:
    assert set(BUILTIN_GROUPS) <= set(make_table().all())


def test_a_group_is_made_on_first_use() -> None:
    table = make_table()
    version = table.data_version
    group = table.find_or_create("orders")
    assert group == GroupConfig("orders")
    assert table.find("orders") is group
    assert table.data_version > version
    assert table.changed


def test_no_group_is_made_when_the_setting_forbids_it_except_rocketmqs_own() -> None:
    table = make_table(auto_create=False)
    assert table.find_or_create("orders") is None
    assert table.find_or_create("CID_RMQ_SYS_x") is not None


@pytest.mark.parametrize("name", ["", "a b", "../etc", "g/h", "x" * 121])
def test_no_group_is_made_with_a_bad_name(name: str) -> None:
    table = make_table()
    assert table.find_or_create(name) is None
    assert name not in table.all()


def test_reading_a_topic_can_be_forbidden_and_allowed_again() -> None:
    table = make_table()
    table.set_read_forbidden("g", "T", forbidden=True)
    assert table.forbidden("g", "T") == READ_FORBIDDEN
    assert table.forbidden("g", "U") == 0
    table.set_read_forbidden("g", "T", forbidden=False)
    assert table.forbidden("g", "T") == 0
    assert table.forbidden_table() == {}


def test_a_group_is_forbidden_a_bounded_number_of_topics() -> None:
    table = make_table()
    for number in range(1000):
        table.set_read_forbidden("g", f"T{number}", forbidden=True)
    with pytest.raises(UsageError, match="is forbidden 1000 topics, and no more are kept"):
        table.set_read_forbidden("g", "U", forbidden=True)
    table.set_read_forbidden("g", "T7", forbidden=True)
    table.set_read_forbidden("g", "T8", forbidden=False)
    table.set_read_forbidden("g", "U", forbidden=True)
    assert table.forbidden("g", "U") == READ_FORBIDDEN


def test_a_saved_table_comes_back() -> None:
    files = MemoryFiles()
    table = make_table(files)
    table.put(GroupConfig("orders", retry_max_times=3, consume_broadcast_enable=False, attributes={"a": "b"}))
    table.set_read_forbidden("orders", "T", forbidden=True)
    table.save()
    again = make_table(files)
    again.load()
    assert again.all() == table.all()
    assert again.forbidden("orders", "T") == READ_FORBIDDEN
    assert again.data_version == table.data_version
    assert not again.changed


def test_a_deleted_group_is_gone_with_what_it_was_forbidden() -> None:
    table = make_table()
    table.put(GroupConfig("orders"))
    table.set_read_forbidden("orders", "T", forbidden=True)
    assert table.delete("orders")
    assert not table.delete("orders")
    assert table.find("orders") is None
    assert table.forbidden("orders", "T") == 0


def test_what_a_group_was_forbidden_is_gone_from_the_file_though_the_group_was_not_there() -> None:
    files = MemoryFiles()
    table = make_table(files)
    table.set_read_forbidden("orders", "T", forbidden=True)
    table.save()
    assert not table.delete("orders")
    table.save()
    again = make_table(files)
    again.load()
    assert again.forbidden("orders", "T") == 0


def test_a_file_that_is_json_but_no_group_table_says_so() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b'{"subscriptionGroupTable":{"g":{"retryQueueNums":"many"}}}')
    with pytest.raises(StoreError, match=r"consumer groups cannot be read.*subscriptionGroup\.json"):
        make_table(files).load()
