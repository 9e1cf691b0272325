from __future__ import annotations

import pytest

from rocketlake.protocol.headers.send import SendReplyHeader

NAME = "rocketlake.protocol.command"
MEMBERS = (
    "block", "body", "body_bytes", "code", "codec", "fields", "flag", "is_oneway", "is_response", "language", "opaque",
    "remark", "version",
)  # fmt: skip


def alike(pair, make):
    """What both forms make is alike, or they fail in the same way."""
    results = []
    for form in (pair.source, pair.compiled):
        try:
            command = make(form)
            results.append(([getattr(command, name) for name in MEMBERS], repr(command)))
        except Exception as error:
            results.append((type(error), None if isinstance(error, TypeError) else str(error)))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {}),
        ((2**70,), {"opaque": -1, "flag": 3, "language": "JAVA", "version": 5, "remark": "r", "fields": {"a": "b"}}),
        ((1,), {"block": b"xy", "body": [b"a", memoryview(b"b")], "codec": 1}),
        ((1,), {"body": bytearray(b"xy")}),
        ((1,), {"body": 5}),
        ((), {}),
        ((1, 2), {}),
        ((1,), {"unknown": 1}),
        ((None,), {"flag": None}),
    ],
)
def test_commands_are_made_alike(twin, args, kwargs):
    alike(twin(NAME), lambda form: form.Command(*args, **kwargs))


@pytest.mark.parametrize("header", [None, SendReplyHeader(msg_id="m", queue_id=1, queue_offset=2)])
@pytest.mark.parametrize("fields", [None, {"msgId": "other", "x": "y"}])
def test_requests_and_replies_are_made_alike(twin, header, fields):
    pair = twin(NAME)
    alike(pair, lambda form: form.Command.request(310, header, b"body", fields=fields, remark="r"))
    alike(
        pair, lambda form: form.Command.reply(form.Command(1, opaque=7, codec=1), 5, header, "r", b"b", fields=fields)
    )
    alike(pair, lambda form: form.Command.reply(None))
    alike(pair, lambda form: form.Command.request(310, header, b"body", fields))


def test_members_can_be_set(twin):
    def change(form):
        command = form.Command(1)
        command.flag |= 2
        command.opaque = "anything"
        return command

    alike(twin(NAME), change)
    for form in (twin(NAME).source, twin(NAME).compiled):
        with pytest.raises(AttributeError):
            form.Command(1).unknown = 1


def test_headers_are_read_alike(twin):
    for form in (twin(NAME).source, twin(NAME).compiled):
        command = form.Command(0, fields={"msgId": "m", "queueId": "1", "queueOffset": "2"})
        assert command.header(SendReplyHeader) == SendReplyHeader(msg_id="m", queue_id=1, queue_offset=2)
