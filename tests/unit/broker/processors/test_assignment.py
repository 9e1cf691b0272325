from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.broker.processors.assignment import share_in_circle, share_in_runs
from rocketlake.model.message_queue import MessageQueue

Share = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", queue_id) for queue_id in range(count)]


def ids(share: Sequence[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in share]


def test_runs_give_neighbouring_queues_and_the_first_clients_one_more() -> None:
    assert [ids(share_in_runs(queues(8), index, 3)) for index in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_the_circle_gives_every_nth_queue() -> None:
    assert [ids(share_in_circle(queues(8), index, 3)) for index in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize("share", [share_in_runs, share_in_circle])
@given(count=st.integers(0, 60), clients=st.integers(1, 20))
def test_every_queue_goes_to_exactly_one_client_and_shares_differ_by_one_at_most(
    share: Share, count: int, clients: int
) -> None:
    shares = [share(queues(count), index, clients) for index in range(clients)]
    assert sorted(queue_id for one in shares for queue_id in ids(one)) == list(range(count))
    sizes = [len(one) for one in shares]
    assert max(sizes) - min(sizes) <= 1
