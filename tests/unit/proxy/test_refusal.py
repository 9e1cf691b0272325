from __future__ import annotations

import pytest

from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.client.errors import NoRoute
from rocketlake.net.asked import InvokeTimeout
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import group_of, resource_of, topic_of
from rocketlake.proxy.convert.refusal import Refused, common_status, ok, status, status_of, status_of_answer
from rocketlake.proxy.convert.times import duration, ms_of, timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Refused(Code.ILLEGAL_TOPIC, "bad", hint="a better"), Code.ILLEGAL_TOPIC, "bad. Cure: a better"),
        (NoRoute("T", ["n:9876"]), Code.TOPIC_NOT_FOUND, "no route for topic 'T'"),
        (NoRoute("T", ["n:9876"], is_read_only=True), Code.FORBIDDEN, "takes no messages"),
        (RemoteError("refused", code=ResponseCode.SYSTEM_BUSY, remark="busy"), Code.TOO_MANY_REQUESTS, "busy"),
        (RemoteError("refused", code=17), Code.TOPIC_NOT_FOUND, "refused"),
        (RemoteError("refused", code=26), Code.CONSUMER_GROUP_NOT_FOUND, "refused"),
        (RemoteError("refused", code=3), Code.NOT_IMPLEMENTED, "refused"),
        (RemoteError("refused", code=4711), Code.INTERNAL_SERVER_ERROR, "refused"),
        (InvokeTimeout("late"), Code.PROXY_TIMEOUT, "late"),
        (LinkError("gone"), Code.INTERNAL_SERVER_ERROR, "gone"),
        (UsageError("wrong"), Code.BAD_REQUEST, "wrong"),
        (KeyError("a secret of ours"), Code.INTERNAL_SERVER_ERROR, "INTERNAL_SERVER_ERROR"),
    ],
)
def test_the_status_of_an_error(error: Exception, code: Code, text: str) -> None:
    told = status_of(error)
    assert told.code == code
    assert text in told.message
    assert "secret" not in told.message


def test_the_status_of_an_answer() -> None:
    assert status_of_answer(0, None) == ok() == v2.Status(code=Code.OK, message="OK")
    assert status_of_answer(11, "no slave") == v2.Status(code=Code.HA_NOT_AVAILABLE, message="no slave")
    assert status_of_answer(1, None).message == "the broker answered with code 1"


def test_the_status_of_many() -> None:
    busy = status(Code.TOO_MANY_REQUESTS)
    assert common_status([busy, busy]).code == Code.TOO_MANY_REQUESTS
    assert common_status([busy, ok()]).code == Code.MULTIPLE_RESULTS
    assert common_status([]).code == Code.INTERNAL_SERVER_ERROR


@pytest.mark.parametrize("name", ["", " ", "a b", "t" * 128, "TBW102", "rmq_sys_x", "größe", "a\n"])
def test_topics_that_are_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        topic_of(v2.Resource(name=name))
    assert refused.value.code is Code.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "g" * 121, "CID_RMQ_SYS_x", "a.b", "TOOLS_CONSUMER"])
def test_groups_that_are_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        group_of(v2.Resource(name=name))
    assert refused.value.code is Code.ILLEGAL_CONSUMER_GROUP


def test_names_that_are_taken() -> None:
    assert topic_of(v2.Resource(name="%DLQ%" + "g" * 120, resource_namespace="ns")) == "%DLQ%" + "g" * 120
    assert group_of(v2.Resource(name="g-1_%|")) == "g-1_%|"


@pytest.mark.parametrize(
    ("topic", "namespace", "name"),
    [
        ("orders", "", "orders"),
        ("ns%orders", "ns", "orders"),
        ("%RETRY%ns%g", "ns", "%RETRY%g"),
        ("%DLQ%g", "", "%DLQ%g"),
        ("%orders", "", "%orders"),
        ("rmq_sys_a%b", "", "rmq_sys_a%b"),
    ],
)
def test_namespaces(topic: str, namespace: str, name: str) -> None:
    assert resource_of(topic) == v2.Resource(resource_namespace=namespace, name=name)


def test_times() -> None:
    assert timestamp(1_234_567) == v2.Timestamp(seconds=1234, nanos=567_000_000)
    assert ms_of(timestamp(-1)) == -1
    assert ms_of(duration(90_061)) == 90_061
    assert ms_of(v2.Duration(seconds=-1, nanos=-500_000_000)) == -1500
    assert ms_of(v2.Timestamp(seconds=1, nanos=999_999)) == 1000


def test_invisible_times() -> None:
    limits = Limits()
    limits.check_invisible(10_000, is_new=True)
    limits.check_invisible(0, is_new=False)
    Limits(invisible_ms_max=0).check_invisible(1 << 50, is_new=False)
    for ms, is_new in ((9_999, True), (-1, False), (12 * 3600 * 1000 + 1, False)):
        with pytest.raises(Refused) as refused:
            limits.check_invisible(ms, is_new=is_new)
        assert refused.value.code is Code.ILLEGAL_INVISIBLE_TIME
