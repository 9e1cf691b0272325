"""The kernel that writes the body of a batch against its Python form."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from rocketlake.codec import record_batch
from rocketlake.codec.property_text import decode
from rocketlake.model.message import Message
from tests.parity.forms import compiled_form, outcome

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

NAME = "rocketlake.client.producer.batch_body"
KEY = "0A0000010B0C18B4AAC2000001230001"


def both(messages: Any, texts: Any, keys: Any) -> tuple[Any, Any]:
    arguments = messages, texts, keys
    return (
        outcome(compiled_form(NAME).batch_body, arguments, {}),
        outcome(record_batch.batch_body, arguments, {}),
    )


def test_any_messages() -> None:
    numbers = random.Random(7)
    for _ in range(300):
        count = numbers.randrange(12)
        messages = [
            Message(
                "T",
                numbers.randbytes(numbers.choice((0, 1, 5, 300, 5000))),
                flag=numbers.randrange(-(1 << 31), 1 << 31),
            )
            for _ in range(count)
        ]
        texts = [b"a\x01%b\x02" % (b"x" * numbers.randrange(300)) if numbers.random() < 0.5 else b"" for _ in messages]
        keys = [numbers.choice((None, KEY, "", "标签")) for _ in messages]
        compiled, expected = both(messages, texts, keys)
        assert compiled == expected
        assert [entry[0:2] for entry in record_batch.decode_batch(compiled[1])] == [
            (message.flag, message.body) for message in messages
        ]


def test_a_key_stands_behind_the_other_properties() -> None:
    compiled, expected = both([Message("T", b"body")], [b"TAGS\x01A\x02"], [KEY])
    assert compiled == expected
    (entry,) = record_batch.decode_batch(compiled[1])
    assert list(decode(entry[2]).items()) == [("TAGS", "A"), ("UNIQ_KEY", KEY)]


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("key", [None, KEY])
def test_the_longest_properties(key: str | None, more: int) -> None:
    text = b"x" * (32_767 - (0 if key is None else len(f"UNIQ_KEY={key};")) + more)
    compiled, expected = both([Message("T", b"a"), Message("T", b"b")], [b"", text], [None, key])
    assert compiled == expected
    assert compiled[0] == ("error" if more else "value")


@pytest.mark.parametrize(("texts", "keys"), [([], [None]), ([b""], []), ([b"", b""], [None])])
def test_lists_of_other_lengths(texts: list[bytes], keys: list[str | None]) -> None:
    compiled, expected = both([Message("T", b"a")], texts, keys)
    assert compiled[:2] == expected[:2] == ("error", ValueError)


@pytest.mark.parametrize(
    ("flag", "text", "key"), [(0, None, None), ("1", b"", None), (1 << 31, b"", None), (0, b"", 5)]
)
def test_what_has_no_bytes(flag: Any, text: Any, key: Any) -> None:
    for kind, problem, _ in both([Message("T", b"a", flag=flag)], [text], [key]):
        assert kind == "error"
        assert issubclass(problem, Exception)
