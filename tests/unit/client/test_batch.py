"""Batches: what may be in one, and the cut into parts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.errors import UsageError
from rocketlake.client.calls.send import Outgoing, prepare
from rocketlake.client.producer.batch import check_batch, split
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import decode_batch
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN
from rocketlake.model.message import Message


def make_key() -> str:
    return f"K{next(counter):015d}"


counter = itertools.count()


def alone(message: Message) -> Outgoing:
    return prepare(message, "not used")


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no message"):
        check_batch([])


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (Message("U", b"x"), "topic 'U'"),
        (Message.with_properties("T", b"x", {"WAIT": "false"}), "WAIT"),
        (Message("T", b"x", delay_level=3), "delayed"),
        (Message.with_properties("T", b"x", {"TIMER_DELAY_SEC": "3"}), "delayed"),
        (Message("T", b"x", delay=3), "delayed"),
        (Message("T", b"x", deliver_at=3), "delayed"),
    ],
)
def test_a_message_that_does_not_fit_is_named(odd: Message, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_batch([Message("T", b"x"), Message("T", b"x"), odd])
    assert "message 2" in str(caught.value)


def test_retry_topics_are_refused() -> None:
    with pytest.raises(UsageError, match="retry"):
        check_batch([Message("%RETRY%g", b"x")])


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=30), st.integers(60, 600))
def test_parts_hold_all_messages_in_order_and_keep_to_the_size(bodies: list[bytes], bytes_max: int) -> None:
    parts = list(split([Message("T", body) for body in bodies], make_key, alone, bytes_max=bytes_max))
    entries: list[tuple[bytes, bytes]] = []
    for part in parts:
        single = part.outgoing.count == 0
        assert single or len(part.outgoing.body) <= bytes_max
        assert len(part.message_ids) == (1 if single else part.outgoing.count)
        entries += (
            [(part.outgoing.body, part.outgoing.properties)]
            if single
            else ([(body, text) for _, body, text in decode_batch(part.outgoing.body)])
        )
    assert [body for body, _ in entries] == bodies
    assert [property_text.decode(text)["UNIQ_KEY"] for _, text in entries] == [
        message_id for part in parts for message_id in part.message_ids
    ]


def test_the_size_estimate_is_exact() -> None:
    message = Message.with_properties("T", b"body", {"TAGS": "A", "UNIQ_KEY": "k"})
    size = BATCH_ENTRY_BYTES_MIN + 4 + len(property_text.encode(message.properties))
    part = next(split([message], make_key, alone, bytes_max=size))
    assert (part.outgoing.count, len(part.outgoing.body)) == (1, size)
    assert next(split([message], make_key, alone, bytes_max=size - 1)).outgoing.count == 0


def test_a_batch_carries_the_wait_flag() -> None:
    message = Message.with_properties("T", b"x", {"WAIT": "false"})
    part = next(split([message], make_key, alone, bytes_max=1000))
    assert property_text.decode(part.outgoing.properties)["WAIT"] == "false"
