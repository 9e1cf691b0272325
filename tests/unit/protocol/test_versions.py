"""Version ordinals and the names of codes."""

from __future__ import annotations

import pytest

from rocketlake.protocol.request_code import RequestCode, request_name
from rocketlake.protocol.response_code import ResponseCode, response_name
from rocketlake.protocol.versions import version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (213, "V4_0_0"), (232, "V4_1_0_SNAPSHOT"), (233, "V4_1_0"), (317, "V4_5_2"), (399, "V4_9_3"), (401, "V4_9_4"),
        (409, "V4_9_8"), (413, "V5_0_0"), (441, "V5_1_4"), (479, "V5_3_3"), (493, "V5_4_0"), (79, "V79"),
        (611, "V5_9_9"), (612, "HIGHER_VERSION"), (100_000, "HIGHER_VERSION"),
    ],
)  # fmt: skip
def test_ordinals_have_the_names_of_the_reference(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name


def test_codes_have_names_also_those_nobody_knows() -> None:
    assert request_name(310) == "SEND_MESSAGE_V2"
    assert request_name(9999) == "REQUEST_9999"
    assert response_name(-1006) == "RPC_TIME_OUT"
    assert response_name(9999) == "RESPONSE_9999"


def test_the_codes_of_the_reference_are_all_there() -> None:
    assert len([code for code in RequestCode if code < 290_000]) == 167  # ours are above
    assert len(ResponseCode) == 68
    assert RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP == 200
    assert ResponseCode.GO_AWAY == 1500
