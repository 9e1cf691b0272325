"""A large batch has the records of an ordinary one, whichever form writes its places."""

from __future__ import annotations

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import decode_batch, encode_batch
from rocketlake.model.message import Message
from rocketlake.store import large_batch
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.put_checks import batch_items
from rocketlake.store.results import PutMessage, PutResult
from tests.unit.store.store_world import ROOT

V6 = bytes(16) + b"\0\0\0\7"


@pytest.mark.parametrize("has_kernel", [False, True])
@pytest.mark.parametrize("host", [b"\x7f\0\0\1\0\0\0\7", V6])
def test_its_records_are_those_of_an_ordinary_batch(
    host: bytes, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_kernel and not large_batch.has_kernel("rocketlake.codec.record_run"):
        pytest.skip("the kernels are not compiled")
    if not has_kernel:
        monkeypatch.setattr(large_batch, "has_kernel", lambda _name: False)
    log = CommitLog(ROOT / "commitlog", StoreConfig(commit_log_file_bytes=1 << 20), MemoryFiles(), InlineWorker())
    body = encode_batch([Message("T", b"b" * number, properties={"own": str(number)}) for number in range(50)])
    message = PutMessage("T", 3, body, b"shared\x01x\x02", sys_flag=0, born_ms=5, born_host=host, store_host=host)
    items = batch_items(message)
    assert not isinstance(items, PutResult)
    offsets, size = log.append_batch(message, items, 1000, 77)
    batch = LargeBatch(message)
    for entry in decode_batch(body):
        assert batch.add(entry) is None
    assert log.append_large(batch, 1050, 77) == offsets[0] + size
    both = bytes(log.view(offsets[0], 2 * size) or b"")
    records = decode_records(both)
    assert [record.queue_offset for record in records] == list(range(1000, 1100))
    assert [record.physical_offset - size for record in records[50:]] == offsets
    for first, second in zip(records[:50], records[50:], strict=True):
        assert (first.body, first.properties, first.born_host, first.store_ms) == (
            second.body, second.properties, second.born_host, second.store_ms
        )  # fmt: skip
    steps = batch.offsets(offsets[0])
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    assert list(end.value.value) == offsets
