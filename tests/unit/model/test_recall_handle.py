"""The handle of a message that waits: Apache's text, and what is none."""

from __future__ import annotations

import base64

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.message_id import RecallHandle

HANDLE = RecallHandle("orders", "broker-a", "1700000005001", "AC11000100B1")
TEXT = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDUwMDEgQUMxMTAwMDEwMEIx"


def text_of(raw: str) -> str:
    return base64.urlsafe_b64encode(raw.encode()).decode()


def test_it_is_apaches_text() -> None:
    assert HANDLE.to_text() == TEXT
    assert RecallHandle.of_text(TEXT) == HANDLE
    assert RecallHandle("o", "b", "1", ">>>???").to_text() == "djEgbyBiIDEgPj4-Pz8_", "the alphabet of URLs"
    assert RecallHandle("o", "b", "1", "Kx").to_text() == "djEgbyBiIDEgS3g=", "with padding"


def test_padding_may_be_missing_and_words_may_follow() -> None:
    assert RecallHandle.of_text("djEgbyBiIDEgS3g").message_id == "Kx"
    assert RecallHandle.of_text(text_of("v1 o b 1 K more")).message_id == "K"


@pytest.mark.parametrize(
    "text", ["", "AAAA", "nonsense!", "\u00e9", "djEgbyBiIDEg\n", text_of("v2 o b 1 K"), text_of("v1 o b 1")]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="recall handle is invalid"):
        RecallHandle.of_text(text)


@pytest.mark.parametrize(("text", "due_ms"), [("17", 17), ("x", -1), ("-5", -1), ("", -1), ("9" * 19, -1)])
def test_a_time_that_is_none_is_before_all_times(text: str, due_ms: int) -> None:
    assert HANDLE._replace(due_text=text).due_ms == due_ms
