from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.broker.producer_sequences.mark import SequenceMark, parse_mark


def test_a_mark_is_read_and_written() -> None:
    mark = parse_mark("0b6f-a_1.x/17/3/400/9f2e")
    assert mark == SequenceMark("0b6f-a_1.x/3", 17, 400, "9f2e")
    assert mark.to_text() == "0b6f-a_1.x/17/3/400/9f2e"
    assert mark.later(5).to_text() == "0b6f-a_1.x/17/3/405/9f2e"


@pytest.mark.parametrize(
    "text",
    ["", "q", "q/1/2/3", "q/1/2/3/", "/1/2/3/l", "q/-1/2/3/l", "q/1/2/x/l", "q/1/2/3/l/m", "q/1/2/3/l\n", "é/1/2/3/l",
     f"{'q' * 101}/1/2/3/l", f"q/{'9' * 19}/2/3/l", "q/١/2/3/l", "q r/1/2/3/l"],
)  # fmt: skip
def test_what_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="__RL_SEQ"):
        parse_mark(text)
