from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.broker.processors.assignment import share_for_pops, share_in_circle, share_in_runs
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


@pytest.mark.parametrize("shared_by", [-1, 0, 2, 9])
def test_pops_go_to_any_queue_of_each_broker_if_all_share_all(shared_by: int) -> None:
    of_two = [*queues(4), MessageQueue("T", "c", 0)]
    shares = [share_for_pops(share_in_runs, of_two, index, 3, shared_by) for index in range(3)]
    assert shares == [[MessageQueue("T", "b", -1), MessageQueue("T", "c", -1)]] * 3


def test_pops_go_to_own_queues_and_those_of_the_next_clients() -> None:
    shares = [ids(share_for_pops(share_in_runs, queues(8), index, 4, 1)) for index in range(4)]
    assert shares == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 0, 1]]


def test_with_more_clients_than_queues_each_pops_one() -> None:
    assert [ids(share_for_pops(share_in_runs, queues(2), index, 5, 1)) for index in range(5)] == [
        [0],
        [1],
        [0],
        [1],
        [0],
    ]
