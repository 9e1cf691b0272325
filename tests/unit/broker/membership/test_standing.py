"""The states of a broker in its group: which news count, and what they ask for."""

from __future__ import annotations

from rocketlake.broker.membership.group_view import GroupView
from rocketlake.broker.membership.standing import Goal, Standing, State


def view(epoch: int, master: int | None = None, *, members: tuple[int, ...] = (), set_epoch: int = 1) -> GroupView:
    return GroupView(
        master_id=master,
        master_address="" if master is None else f"h{master}:1",
        master_epoch=epoch,
        members=frozenset(members),
        set_epoch=set_epoch,
    )


def registered(broker_id: int = 1) -> Standing:
    standing = Standing()
    standing.registered(broker_id)
    return standing


def reach(standing: Standing) -> None:
    if standing.leads:
        standing.promoting()
    standing.arrived(standing.goal)


def test_nothing_counts_before_the_registration() -> None:
    standing = Standing()
    assert not standing.learn(view(3, 1))
    assert (standing.state, standing.goal) == (State.NEW, Goal())


def test_the_way_of_a_slave_that_is_chosen() -> None:
    standing = registered()
    assert standing.state is State.FENCED
    assert standing.learn(view(3, 2))
    assert (standing.leads, standing.goal) == (False, Goal(3, 2, "h2:1"))
    reach(standing)
    assert standing.state is State.SLAVE
    assert standing.learn(view(4, 1))
    assert standing.leads
    standing.promoting()
    assert standing.state is State.PROMOTING
    standing.arrived(standing.goal)
    assert standing.state is State.MASTER


def test_a_master_is_deposed_in_the_moment_it_hears_of_a_newer_epoch() -> None:
    standing = registered()
    standing.learn(view(3, 1))
    reach(standing)
    assert standing.learn(view(4, 2))
    assert standing.state is State.DEPOSED
    reach(standing)
    assert standing.state is State.SLAVE


def test_an_epoch_without_a_known_master_deposes_too_and_its_master_is_learned_later() -> None:
    standing = registered()
    standing.learn(view(3, 1))
    reach(standing)
    assert standing.learn(view(5))
    assert (standing.state, standing.goal.master_id) == (State.DEPOSED, None)
    reach(standing)
    assert standing.state is State.FENCED
    assert not standing.learn(view(4, 1))
    assert standing.learn(view(5, 2))
    reach(standing)
    assert standing.state is State.SLAVE


def test_news_of_an_older_or_the_same_epoch_change_no_goal() -> None:
    standing = registered()
    standing.learn(view(3, 2))
    assert not standing.learn(view(2, 1))
    assert not standing.learn(view(3, None))
    assert not standing.learn(view(3, 2))
    assert standing.goal == Goal(3, 2, "h2:1")


def test_a_newer_set_of_the_same_epoch_is_kept() -> None:
    standing = registered()
    standing.learn(view(3, 1, members=(1,), set_epoch=4))
    standing.learn(view(3, 1, members=(1, 2), set_epoch=5))
    standing.learn(view(3, 1, members=(1, 3), set_epoch=5))
    assert standing.view.members == {1, 2}


def test_a_master_chosen_again_begins_a_new_epoch() -> None:
    standing = registered()
    standing.learn(view(3, 1))
    reach(standing)
    assert standing.learn(view(4, 1))
    assert (standing.state, standing.leads) == (State.DEPOSED, True)
    reach(standing)
    assert (standing.state, standing.reached.epoch) == (State.MASTER, 4)


def test_a_master_that_cannot_lead_waits_for_newer_news() -> None:
    standing = registered()
    standing.learn(view(3, 1))
    standing.promoting()
    standing.stuck(standing.goal)
    assert (standing.state, standing.reached == standing.goal) == (State.FENCED, True)
    assert standing.learn(view(4, 2))
    reach(standing)
    assert standing.state is State.SLAVE


def test_news_during_a_change_leave_the_next_change_due() -> None:
    standing = registered()
    standing.learn(view(3, 1))
    standing.promoting()
    asked = standing.goal
    standing.learn(view(4, 2))
    standing.arrived(asked)
    assert (standing.state, standing.reached == standing.goal) == (State.DEPOSED, False)
