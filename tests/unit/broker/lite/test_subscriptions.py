"""Who subscribes to which lite topics: the tables against a model."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.lite.subscriptions import Subscriptions
from tests.seeds import drawn

PARENT = "Parent"
CLIENTS = [(client, group) for client in ("c", "d", "e") for group in ("g", "h")]
LITES = ["a", "b", "c"]


@pytest.mark.parametrize("seed", drawn("lite subscriptions", 5))
def test_who_subscribes_to_what_is_known_whatever_clients_do(seed: int) -> None:
    dice = random.Random(seed)
    subscriptions = Subscriptions(ManualClock())
    model: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for _ in range(400):
        key, lites = dice.choice(CLIENTS), dice.sample(LITES, dice.randrange(len(LITES) + 1))
        subscriber = subscriptions.find_or_add(*key, PARENT)
        if dice.randrange(2):
            subscriptions.add(subscriber, lites)
            model[key] |= set(lites)
        subscriptions.take(subscriber, takes := dice.sample(LITES, dice.randrange(len(LITES) + 1)))
        model[key] -= set(takes)
        assert {each.key: each.lites for each in subscriptions} == {key: lites for key, lites in model.items() if lites}
        assert subscriptions.count == sum(map(len, model.values()))
        for lite in LITES:
            wanted = sorted(key for key, lites in model.items() if lite in lites)
            assert sorted(each.key for each in subscriptions.of_lite(PARENT, lite)) == wanted
            for subscriber in subscriptions:
                others = [key for key in wanted if key[1] == subscriber.group and key != subscriber.key]
                assert sorted(each.key for each in subscriptions.others(subscriber, lite)) == others
