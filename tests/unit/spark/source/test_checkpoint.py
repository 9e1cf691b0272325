from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.checkpoint import Checkpoint

QUEUE = MessageQueue("T", "broker-a", 0)
OTHER = MessageQueue("T", "broker-a", 1)


def write(folder: Path, number: int, ends: dict[str, int], *, is_done: bool) -> None:
    text = "\n".join(["v1", "{}", '{"logOffset": 4}', json.dumps({"T": {"broker-a": ends}})])
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(number)).write_text(text)
    (folder / "offsets" / f".{number}.crc").write_bytes(b"crc")
    (folder / "commits").mkdir(exist_ok=True)
    if is_done:
        (folder / "commits" / str(number)).write_text("v1\n{}")


def offsets(folder: Path, number: int) -> dict[str, int]:
    ends: dict[str, int] = json.loads((folder / "offsets" / str(number)).read_text().split("\n")[3])["T"]["broker-a"]
    return ends


def test_the_next_batch_begins_where_it_was_told(tmp_path: Path) -> None:
    write(tmp_path, 0, {"0": 10, "1": 20}, is_done=True)
    checkpoint = Checkpoint(tmp_path, PosixFiles())
    assert checkpoint.next_offsets() == {QUEUE: 10, OTHER: 20}
    assert checkpoint.set(QUEUE, 3) == 10
    assert offsets(tmp_path, 0) == {"0": 3, "1": 20}
    assert not (tmp_path / "offsets" / ".0.crc").exists()
    assert (tmp_path / "offsets" / "0").read_text().startswith('v1\n{}\n{"logOffset": 4}\n')
    (kept,) = (tmp_path / "rocketlake-backup").iterdir()
    assert '"0": 10' in kept.read_text()


@pytest.mark.parametrize(("offset", "end"), [(12, 15), (17, 17), (0, 0)])
def test_a_planned_batch_never_ends_before_it_begins(tmp_path: Path, offset: int, end: int) -> None:
    """Expired messages: it begins later. A topic made anew: it reads nothing, and the batch after it begins there."""
    write(tmp_path, 6, {"0": 10, "1": 20}, is_done=True)
    write(tmp_path, 7, {"0": 15, "1": 25}, is_done=False)
    Checkpoint(tmp_path, PosixFiles()).set(QUEUE, offset)
    assert offsets(tmp_path, 6) == {"0": offset, "1": 20}
    assert offsets(tmp_path, 7) == {"0": end, "1": 25}


def test_what_is_no_checkpoint_or_another_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the checkpoint"):
        Checkpoint(tmp_path, PosixFiles())
    write(tmp_path, 0, {"0": 10}, is_done=True)
    with pytest.raises(UsageError, match="does not read topic T, broker broker-a, queue 1"):
        Checkpoint(tmp_path, PosixFiles()).set(OTHER, 1)
    with pytest.raises(UsageError, match="no source of this query reads topic S"):
        Checkpoint(tmp_path, PosixFiles()).set(MessageQueue("S", "b", 0), 1)
    (tmp_path / "offsets" / "0").write_text("v9\n{}")
    with pytest.raises(UsageError, match="v9"):
        Checkpoint(tmp_path, PosixFiles()).next_offsets()
