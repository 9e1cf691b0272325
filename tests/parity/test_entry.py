from __future__ import annotations

import random

import pytest

NAME = "rocketlake.store.consume_queue.entry"


@pytest.mark.parametrize("seed", range(200))
def test_entries_and_how_many_were_written(twin, seed):
    chance = random.Random(seed)
    data = b""
    for _ in range(chance.randrange(12)):
        numbers = chance.choice([chance.randrange(2**40), chance.randrange(2**40), -1]), chance.choice([1, 9, 9, 0, -3])
        packed = twin(NAME).same("pack_entry", *numbers, chance.randrange(-(2**63), 2**63))
        twin(NAME).same("is_filler", *numbers)
        data += packed
    twin(NAME).same("valid_count", data)
    twin(NAME).same("valid_count", memoryview(data))
    twin(NAME).same("unpack_entries", data)


def test_an_empty_queue_and_one_without_end(twin):
    good = twin(NAME).source.pack_entry(0, 1, 0)
    assert twin(NAME).same("valid_count", b"") == 0
    assert twin(NAME).same("valid_count", good * 3) == 3
    assert twin(NAME).same("valid_count", twin(NAME).source.FILLER + good) == 2
    assert (twin(NAME).source.ENTRY_SIZE, twin(NAME).compiled.ENTRY_SIZE) == (20, 20)
