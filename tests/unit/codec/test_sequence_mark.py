from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.codec.sequence_mark import SequenceMark, parse_mark


def test_a_mark_is_read_and_written() -> None:
    mark = parse_mark("0b6f-a_1.x/17/3/400/9f2e")
    assert mark == SequenceMark("0b6f-a_1.x/3", 17, 400, "9f2e")
    assert mark.to_text() == "0b6f-a_1.x/17/3/400/9f2e"
    assert mark.later(5, None).to_text() == "0b6f-a_1.x/17/3/405/9f2e"


def test_a_mark_says_how_many_messages_it_is_for_and_their_digests() -> None:
    text = "q/17/3/400/9f2e/25/0000002a/fffffff0"
    mark = parse_mark(text)
    assert mark == SequenceMark("q/3", 17, 400, "9f2e", 25, 42, 0xFFFFFFF0)
    assert mark.to_text() == text
    assert mark.later(5, 7).to_text() == "q/17/3/405/9f2e/20/00000007/fffffff0"


@pytest.mark.parametrize(
    "text",
    ["", "q", "q/1/2/3", "q/1/2/3/", "/1/2/3/l", "q/-1/2/3/l", "q/1/2/x/l", "q/1/2/3/l/m", "q/1/2/3/l\n", "é/1/2/3/l",
     "q/1/2/3/l/4/00000000", "q/1/2/3/l/4/00000000/0000000G", "q/1/2/3/l/x/00000000/00000000",
     f"{'q' * 101}/1/2/3/l", f"q/{'9' * 19}/2/3/l", "q/١/2/3/l", "q r/1/2/3/l"],
)  # fmt: skip
def test_what_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="__RL_SEQ"):
        parse_mark(text)
