"""Every argument of the admin library: one of another kind is refused by its name, before a server is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake import UsageError
from rocketlake.admin import Admin, LetterChoice, Target, TopicChange
from rocketlake.admin.sync import Admin as BlockingAdmin
from rocketlake.auth.account_text import QuotaInfo, UserInfo
from rocketlake.base.clock import ManualClock
from rocketlake.protocol.bodies.group import CustomizedRetry, RetryPolicyEntry

NAMESRV = "127.0.0.1:1"
NO_PAUSES = RetryPolicyEntry(customized_retry_policy=CustomizedRetry(next=5))  # type: ignore[arg-type]
FITTING: dict[str, Any] = {
    "actions": ["Pub"], "broker_id": 0, "change": TopicChange(perm=6), "from_ms": 0, "offset": 0, "policies": [],
    "queue_id": 0, "settings": {"fileReservedTime": "72"}, "tell": print, "to_ms": 1, "users": [],
}  # fmt: skip
METHODS = {
    name: list(inspect.signature(method).parameters.values())[1:]
    for name, method in vars(Admin).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
ARGUMENTS = [(name, each.name) for name, parameters in METHODS.items() for each in parameters]


async def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as caught:
        await call()
    assert caught.value.hint
    return caught.value.what


def fitting(method: str) -> dict[str, Any]:
    """What a call needs at least."""
    needed = [each.name for each in METHODS[method] if each.default is each.empty]
    given = {name: FITTING.get(name, "a") for name in needed}
    if "to" in given:
        given["to"] = "earliest" if method == "plan_reset" else 1
    return given


@pytest.mark.parametrize(("method", "argument"), ARGUMENTS)
@pytest.mark.parametrize("wrong", [object(), 1.5j, [b"x", None], -1])
async def test_an_argument_of_another_kind_is_refused_by_its_name(method: str, argument: str, wrong: Any) -> None:
    given = fitting(method) | {argument: wrong}
    said = await refused(lambda: getattr(Admin(namesrv=NAMESRV), method)(**given))
    assert f"{argument} " in said or f"{argument}=-1" in said


ASKING = [name for name in METHODS if name not in ("start", "stop", "reset_group") and "dead_letters" not in name]


@pytest.mark.parametrize("method", ASKING)
async def test_fitting_arguments_come_to_the_next_question(method: str) -> None:
    assert await refused(lambda: getattr(Admin(namesrv=NAMESRV), method)(**fitting(method))) == "Admin is not running"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda admin: admin.create_topic("t", queues="4"), "queues is a whole number, not '4'"),
        (lambda admin: admin.create_topic("t", queues=True), "queues is a whole number, not True"),
        (lambda admin: admin.create_topic("t", queues=1 << 31), "queues=2147483648 is out of range"),
        (lambda admin: admin.alter_group("g", tries=1 << 40), "tries=1099511627776 is out of range"),
        (lambda admin: admin.group(None), "group is text, not NoneType"),
        (lambda admin: admin.alter_topic("t", TopicChange(read_queues="4")), "change.read_queues is a whole"),  # type: ignore[arg-type]
        (lambda admin: admin.dead_letters("g", print, LetterChoice(since_ms="1")), "choice.since_ms is a whole"),  # type: ignore[arg-type]
        (lambda admin: admin.allow("u", "Pub", "*"), "actions are a list of texts, not str"),
        (lambda admin: admin.alter_topic("t", TopicChange(), brokers=(b for b in "a")), "brokers is a list, not gen"),
        (lambda admin: admin.change_broker("b", {"fileReservedTime": 72}), "settings['fileReservedTime'] is text"),
        (lambda admin: admin.change_broker("b", {1: "72"}), "a name of settings is text"),
        (lambda admin: admin.create_user("u", quota=QuotaInfo(bytes_in="7")), "quota.bytes_in is a whole"),  # type: ignore[arg-type]
        (lambda admin: admin.add_accounts([UserInfo(5)], []), "users.username is text"),  # type: ignore[arg-type]
        (lambda admin: admin.alter_group("g", policy=NO_PAUSES), "policy.customized_retry_policy.next is a list"),
        (lambda admin: admin.plan_reset("g", "t", 5), "to is text, not int"),
        (lambda admin: admin.plan_reset("g", "t", Target("offset", "5")), "to.number is a whole number"),  # type: ignore[arg-type]
        (lambda admin: admin.replica_group("g", over_seconds=float("nan")), "over_seconds=nan is out of range"),
        (lambda admin: admin.topic(), "topic: missing a required argument"),
        (lambda admin: admin.topics(True), "topics: too many positional arguments"),
    ],
)  # fmt: skip
async def test_wrong_kinds_inside_values(call: Callable[[Admin], Any], words: str) -> None:
    assert (await refused(lambda: call(Admin(namesrv=NAMESRV)))).startswith(words)


@pytest.mark.parametrize("kind", ["nonsense", "", None, 5])
def test_a_target_has_a_kind(kind: Any) -> None:
    with pytest.raises(UsageError, match="write one of earliest, latest, time, offset, shift"):
        Target(kind, 4)


@pytest.mark.parametrize("kind", [Admin, BlockingAdmin])
def test_an_admin_is_made_with_names_and_their_kinds(kind: Any) -> None:
    with pytest.raises(UsageError, match="too many positional") as caught:
        kind(NAMESRV)
    assert caught.value.hint == "write Admin(*, namesrv=None, client_config=None, clock=None)"
    with pytest.raises(UsageError, match="namesrv is text, not int"):
        kind(namesrv=9876)
    with pytest.raises(UsageError, match="clock is a Clock, not int"):
        kind(clock=5)
    kind(clock=ManualClock())
