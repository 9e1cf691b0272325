from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.errors import StoreError

PATH = Path("/store/config/topics.json")
COPY = Path("/store/config/topics.json.bak")


def test_nothing_saved_is_none():
    assert load_text(MemoryFiles(), PATH) is None


def test_the_last_text_is_loaded_and_the_one_before_kept_as_copy(tmp_path):
    for files, path in ((MemoryFiles(), PATH), (PosixFiles(), tmp_path / "config" / "t.json")):
        save_text(files, path, '{"a":1}')
        save_text(files, path, '{"a":"é"}')
        assert load_text(files, path) == '{"a":"é"}'
        assert files.read_bytes(path.with_name(path.name + ".bak")) == b'{"a":1}'
        assert sorted(files.list_dir(path.parent)) == [path.name, path.name + ".bak"]


@pytest.mark.parametrize("broken", [b"", b"\0" * 50, b"  \n"])
def test_an_empty_or_zero_filled_file_means_read_the_copy(broken):
    files = MemoryFiles()
    save_text(files, PATH, '{"a":1}')
    save_text(files, PATH, '{"a":2}')
    files.write_bytes(PATH, broken)
    assert load_text(files, PATH) == '{"a":1}'


@pytest.mark.parametrize("broken", [b'{"a":', b"\xff\xfe", b"nonsense"])
def test_a_broken_file_is_put_aside_so_that_the_good_copy_survives_the_next_save(broken, caplog):
    files = MemoryFiles()
    save_text(files, PATH, '{"a":1}')
    save_text(files, PATH, '{"a":2}')
    files.write_bytes(PATH, broken)
    assert load_text(files, PATH) == '{"a":1}'
    assert files.read_bytes(PATH.with_name("topics.json.broken")) == broken
    assert files.read_bytes(COPY) == b'{"a":1}'
    assert "topics.json is broken" in caplog.text


def test_two_broken_files_are_an_error_that_names_them():
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b"{")
    files.write_bytes(COPY, b"{")
    with pytest.raises(StoreError, match=r"topics\.json"):
        load_text(files, PATH)
    assert files.read_bytes(PATH) == b"{"


def test_a_broken_file_without_copy_is_an_error():
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b"{")
    with pytest.raises(StoreError):
        load_text(files, PATH)


def test_javas_dialect_is_no_damage():
    files = MemoryFiles()
    save_text(files, PATH, '{\n\t"offsetTable":{\n\t\t"T@g":{0:5,1:6\n\t\t}\n\t}\n}')
    assert "0:5" in (load_text(files, PATH) or "")


STEPS = ("write_bytes", "rename", "rename", "sync_dir", "none")


@pytest.mark.parametrize("cut_at", range(len(STEPS)))
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new_text(cut_at, seed):
    memory = MemoryFiles()
    save_text(memory, PATH, '{"v":0}')
    save_text(memory, PATH, '{"v":1}')
    files = FaultyFiles(memory)
    for call in {"write_bytes", "rename", "sync_dir"}:
        files.plan.add(Fault(call, after=STEPS[:cut_at].count(call)))
    try:
        save_text(files, PATH, '{"v":2}')
        allowed = {'{"v":2}'}
        assert STEPS[cut_at] == "none"
    except OSError:
        allowed = {'{"v":1}', '{"v":2}'} if cut_at == 3 else {'{"v":1}'}
    after = memory.power_cut(random.Random(seed))
    assert load_text(after, PATH) in allowed
    save_text(after, PATH, '{"v":3}')
    assert load_text(after, PATH) == '{"v":3}'


def test_a_disk_that_refuses_the_new_text_keeps_the_old():
    memory = MemoryFiles()
    save_text(memory, PATH, '{"v":1}')
    files = FaultyFiles(memory)
    files.plan.add(Fault("write_bytes"))
    with pytest.raises(OSError):
        save_text(files, PATH, '{"v":2}')
    assert load_text(memory, PATH) == '{"v":1}'


@pytest.mark.parametrize("content", [b"", bytes(100)])
def test_a_file_of_zeros_gives_way_to_its_copy_aloud(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    save_text(files, PATH, "{}")
    save_text(files, PATH, '{"a":1}')
    files.write_bytes(PATH, content)
    assert load_text(files, PATH) == "{}"
    assert "nothing in it but zeros" in caplog.text
