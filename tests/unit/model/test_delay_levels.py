from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.delay_levels import DelayLevels


def test_defaults_are_rocketmqs_eighteen_levels() -> None:
    levels = DelayLevels()
    assert levels.highest == 18
    assert [levels.delay_ms(level) for level in (1, 2, 5, 16, 17, 18)] == [
        1000,
        5000,
        60_000,
        1_800_000,
        3_600_000,
        7_200_000,
    ]


def test_a_level_above_the_highest_becomes_the_highest() -> None:
    assert DelayLevels("1s 1d").clamp(99) == 2
    assert DelayLevels("1s 1d").clamp(1) == 1


def test_level_k_lies_in_queue_k_minus_one() -> None:
    assert DelayLevels.queue_id(3) == 2


@pytest.mark.parametrize("text", ["", "1", "1s x", "-1s", "1w", "1.5s", "1s " * 257])
def test_a_bad_list_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="messageDelayLevel"):
        DelayLevels(text)
