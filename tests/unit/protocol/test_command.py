"""Commands: flags, headers, bodies."""

from __future__ import annotations

import pytest

from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import HeaderError
from rocketlake.protocol.headers.client import GroupMembersHeader, HeartbeatReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.versions import OUR_VERSION


def test_a_request_carries_our_version_and_language() -> None:
    command = Command.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupMembersHeader(consumer_group="g"))
    assert (command.code, command.version, command.language) == (38, OUR_VERSION, "PYTHON")
    assert command.fields == {"consumerGroup": "g"}
    assert not command.is_response
    assert not command.is_oneway


def test_a_reply_repeats_the_opaque_and_is_marked() -> None:
    request = Command(34, opaque=77)
    reply = Command.reply(request, 0, HeartbeatReplyHeader(sub_changed=False), fields={"extra": "x"})
    assert reply.opaque == 77
    assert reply.is_response
    assert reply.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false", "extra": "x"}


def test_a_header_that_does_not_fit_names_the_field() -> None:
    with pytest.raises(HeaderError, match="consumerGroup"):
        Command(38).header(GroupMembersHeader)


@pytest.mark.parametrize(
    ("body", "whole"),
    [(None, b""), (b"ab", b"ab"), (memoryview(b"ab"), b"ab"), ([memoryview(b"a"), memoryview(b"b")], b"ab")],
)
def test_body_bytes_is_the_body_in_one_piece(body: object, whole: bytes) -> None:
    assert Command(1, body=body).body_bytes == whole  # type: ignore[arg-type]
