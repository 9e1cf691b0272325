"""Which copies of stored messages a replay can send."""

from __future__ import annotations

import pytest

from rocketlake.codec import property_text
from rocketlake.model.message import Message
from rocketlake.spark.replay.damage import why_unsendable


@pytest.mark.parametrize(
    ("body", "properties", "why"),
    [
        (b"x" * 100, b"KEYS\x01k\x02", ""),
        (b"x" * 101, b"KEYS\x01k\x02", "unpacked its body has 101 bytes, limit 100"),
        (b"x", b"user\x01a\x01c\x02", r"a property holds \x01 or \x02 ('user')"),
        (b"", b"", "its body is empty, which RocketMQ refuses"),
    ],
)
def test_a_replay_sends_what_a_producer_may_send_and_says_why_not(body: bytes, properties: bytes, why: str) -> None:
    copy = Message.with_properties("T", body, property_text.decode(properties))
    assert why_unsendable(copy, 100) == why
