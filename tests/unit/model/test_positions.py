"""Types of positions and times: mypy refuses one kind where another is expected, at the doors of the whole store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.base.clock import Millis
from rocketlake.model.positions import EntryPosition, PhysicalOffset, QueueOffset

_HEAD = """
from rocketlake.base.clock import Millis
from rocketlake.model.positions import EntryPosition, PhysicalOffset, QueueOffset
from rocketlake.store.dispatch_scan import appended_entry
from rocketlake.store.message_store import MessageStore


def use(store: MessageStore, place: PhysicalOffset, number: QueueOffset, entry: EntryPosition, ms: Millis) -> None:
"""
_RIGHT = (
    "store.read_record(place + 100)",
    "store.read_record(100 + place)",
    "store.read_record(place - 100)",
    "store.log.append_raw(b'', place, ms)",
    "store.queues.append('t', 0, number + 1, place, place - place, 0)",
    "store.get('t', 0, number, 1, 1)",
    "store.checkpoint.cut(place, ms - 1)",
)
_WRONG = (
    "store.read_record(number)",
    "store.read_record(7)",
    "store.read_record(entry)",
    "store.read_record(place - place)",
    "store.get('t', 0, place, 1, 1)",
    "store.offset_at('t', 0, number)",
    "store.log.record(number)",
    "store.log.list.find(number)",
    "store.log.cut(number)",
    "store.queues.append('t', 0, place, place, 91, 0)",
    "store.queues.append('t', 0, number, number, 91, 0)",
    "store.queues.truncate_after(number)",
    "store.queues.reach('t', 0, place)",
    "store.index.truncate_after(number)",
    "store.deletions.is_dead('t', number)",
    "store.dispatch.cut(number)",
    "store.durability.set_back(number)",
    "store.log.append_raw(b'', place, 7)",
    "store.log.append_raw(b'', place, ms - ms)",
    "store.checkpoint.cut(place, place)",
    "store.index.find('k', 1, ms, place)",
    "appended_entry('t', 0, number, place, 91, place, 0, place, b'', ())",
    "appended_entry('t', 0, place, place, 91, ms, 0, place, b'', ())",
    "appended_entry('t', 0, number, number, 91, ms, 0, place, b'', ())",
    "appended_entry('t', 0, number, place, 91, ms, 0, number, b'', ())",
)


@pytest.mark.long
def test_mypy_refuses_each_mix_up(tmp_path: Path) -> None:
    lines = [*_HEAD.splitlines(), *(f"    {line}" for line in (*_RIGHT, *_WRONG))]
    (tmp_path / "use.py").write_text("\n".join(lines) + "\n")
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    command = [sys.executable, "-m", "mypy", *options, "use.py"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    refused = [int(line.split(":")[1]) for line in answer.stdout.splitlines() if "[arg-type]" in line]
    first = len(lines) - len(_WRONG) + 1
    assert refused == list(range(first, len(lines) + 1)), answer.stdout + answer.stderr


def test_they_are_plain_numbers_at_run_time() -> None:
    assert QueueOffset is PhysicalOffset is EntryPosition is Millis is int
