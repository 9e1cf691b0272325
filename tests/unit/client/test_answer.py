"""The one table of what an answer means for the next try."""

from __future__ import annotations

from rocketlake.client.calls import answer
from rocketlake.client.calls.send import SendStatus
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


def test_a_producer_repeats_what_rocketmqs_producer_repeats() -> None:
    """DefaultMQProducer.retryResponseCodes, by number."""
    assert {1, 2, 14, 16, 17, 204, 205, 1500} == answer.SENT_TO_ANOTHER_BROKER


def test_every_result_that_is_not_ok_is_unsure_and_no_refusal() -> None:
    """A code in both sets would be sent again by a producer although the broker has the message."""
    unsure = {status.value for status in SendStatus} - {SendStatus.OK.value}
    assert unsure == answer.STORED_UNSURELY
    assert not answer.STORED_UNSURELY & (answer.SENT_TO_ANOTHER_BROKER | answer.SENT_TO_THE_SAME_QUEUE)


def test_what_another_broker_may_take_is_final_for_a_fixed_queue() -> None:
    assert {16, 204, 205} == answer.SENT_TO_ANOTHER_BROKER - answer.SENT_TO_THE_SAME_QUEUE
    assert answer.SENT_TO_THE_SAME_QUEUE < answer.SENT_TO_ANOTHER_BROKER


def test_a_damaged_record_does_not_wait_for_what_may_never_pass() -> None:
    assert {1, 17}.isdisjoint(answer.DEAD_LETTER_WAITS)


def test_the_cure_of_the_server_comes_before_the_usual_one() -> None:
    def told(remark: str) -> tuple[str, str]:
        command = Command(ResponseCode.NO_PERMISSION, remark=remark)
        error = answer.refusal(command, RequestCode.SEND_MESSAGE_V2, "h:1")
        return error.what, error.hint

    said = "SEND_MESSAGE_V2 was refused with NO_PERMISSION: not from here"
    assert told("not from here. Cure: set adminAccess=ANY") == (said, "set adminAccess=ANY")
    assert told("not from here") == (said, "look at the permission of topic and group")


def test_each_refusal_has_a_cure() -> None:
    """Apache's brokers send none, and ours not for each of their refusals."""
    for code in (*ResponseCode, 9999):
        assert answer.refusal(Command(code), RequestCode.SEND_MESSAGE_V2, "h:1").hint, code

    def cure(code: ResponseCode) -> str:
        return answer.refusal(Command(code), RequestCode.SEND_MESSAGE_V2, "h:1").hint

    assert "fewer properties" in cure(ResponseCode.MESSAGE_ILLEGAL)  # the properties are too long
    assert "lists the queues of a topic" in cure(ResponseCode.INVALID_PARAMETER)  # queue 99
