from __future__ import annotations

import random

import pytest

NAME = "rocketlake.store.consume_queue.tail"


def entries(first, count):
    return b"".join((first + 10 * at).to_bytes(8, "big") + bytes(12) for at in range(count))


@pytest.mark.parametrize("seed", range(100))
def test_runs_taken_and_dropped(twin, seed):
    """The same calls to both forms: what is taken, what is refused, what is held."""
    chance = random.Random(seed)
    forms = [twin(NAME).source, twin(NAME).compiled]
    bytes_max = chance.choice([100, 100_000])
    pools = [form.Tails(bytes_max) for form in forms]
    queues = [[form.QueueTail(pool) for _ in range(3)] for form, pool in zip(forms, pools, strict=True)]
    physical = 0
    for _ in range(80):
        which, count = chance.randrange(3), chance.choice([0, 1, 2, 30])
        known = queues[0][which]
        offset = known.max_offset + chance.choice([0, 0, 0, 1, -1])
        first = chance.choice([physical, physical, max(0, known.max_physical_offset - 5)])
        data = entries(first, count) + bytes(chance.choice([0, 0, 0, 7])) if count else b""
        room = chance.choice([None, None, 100, 2000])
        physical += 10 * count
        outcomes = []
        for pool, form in zip(pools, queues, strict=True):
            queue = form[which]
            if room is not None:
                queue.tail_room = room
            taken = bool(queue.take_run(offset, data, first + 10 * count))
            state = [(one.max_offset, one.next_offset, one.max_physical_offset, one.tail_room) for one in form]
            order = [form.index(one) for one in pool.queues]
            outcomes.append((taken, state, [bytes(one.tail) for one in form], pool.held, pool.is_over, order))
        assert outcomes[0] == outcomes[1]
        if chance.randrange(5) == 0:
            for form in queues:
                form[which].drop_tail()


@pytest.mark.parametrize("wrong", [None, "a text of twenty letters", 5])
def test_a_run_is_bytes(twin, wrong):
    for form in (twin(NAME).source, twin(NAME).compiled):
        queue = form.QueueTail(form.Tails(100))
        queue.tail_room = 100
        with pytest.raises(TypeError):
            queue.take_run(0, wrong, 5)
