"""Places that many share."""

from __future__ import annotations

from rocketlake.net.shares import Shares


def test_one_has_its_share_at_most_and_all_have_the_places_that_there_are() -> None:
    shares = Shares(5, 3)
    taken = []
    for owner in "aaaabbbb":
        if shares.has_room(owner):
            shares.take(owner)
            taken.append(owner)
    assert ("".join(taken), shares.total, shares.of("a"), shares.is_full) == ("aaabb", 5, 3, True)
    shares.give("a")
    assert (shares.has_room("a"), shares.has_room("c"), shares.of("a")) == (True, True, 2)


def test_without_a_limit_for_one_it_may_have_all_and_who_gave_all_back_is_forgotten() -> None:
    shares = Shares(2)
    for _ in range(1000):
        shares.take("a")
        shares.take("a")
        assert not shares.has_room("b")
        shares.give("a")
        shares.give("a")
    assert (shares.total, shares.of("a"), shares.is_full) == (0, 0, False)
