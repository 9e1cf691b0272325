"""GET_BROKER_EPOCH_CACHE, as mqadmin getBrokerEpoch reads it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from rocketlake.broker.membership.epoch_answer import EpochAnswer
from rocketlake.replication.epochs.history import Epoch, EpochHistory

ROLE: Any = SimpleNamespace(broker_id=2, broker_name="b", cluster_name="C")


def answer(*epochs: tuple[int, int]) -> Any:
    history = EpochHistory(Epoch(*epoch) for epoch in epochs)  # type: ignore[arg-type]
    reply = EpochAnswer(ROLE, lambda: history, lambda: 500, None).epochs(None)  # type: ignore[arg-type, return-value]
    return json.loads(bytes(reply.body))


def test_each_epoch_ends_where_the_next_one_starts_and_the_last_one_is_open() -> None:
    assert answer((1, 0), (4, 300)) == {
        "brokerId": 2,
        "brokerName": "b",
        "clusterName": "C",
        "epochList": [
            {"endOffset": 300, "epoch": 1, "startOffset": 0},
            {"endOffset": 2**63 - 1, "epoch": 4, "startOffset": 300},
        ],
        "maxOffset": 500,
    }
    assert answer()["epochList"] == []
