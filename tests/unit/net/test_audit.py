from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from rocketlake.auth.action import Action
from rocketlake.auth.user import User
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.health import Health
from rocketlake.net.gate import audit as module
from rocketlake.net.gate import needs as on
from rocketlake.net.gate.audit import Audit
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode

PATH = Path("/c/audit.jsonl")
OK, REFUSED = Reply(), Reply(ResponseCode.NO_PERMISSION, remark="alice lacks Delete")


class Asker:
    remote = ("10.0.0.7", 1234)
    address = "10.0.0.7:1234"


def request(code: int = Code.DELETE_TOPIC_IN_BROKER, user: str | None = "alice", **fields: str) -> Request:
    command = Command(code, fields={"topic": "T", "AccessKey": "alice", "Signature": "s3cret", **fields})
    asked = Request(command, Asker(), 0.0)  # type: ignore[arg-type]
    asked.user = None if user is None else User(user, "alice-secret")
    return asked


class World:
    def __init__(self) -> None:
        self.inner = MemoryFiles()
        self.plan = FaultPlan()
        self.files = FaultyFiles(self.inner, self.plan)
        self.clock = ManualClock()
        self.health = Health(self.clock)
        self.audit = Audit(PATH, self.files, self.clock, self.health)

    def lines(self, path: Path = PATH) -> list[dict[str, object]]:
        if not self.inner.exists(path):
            return []
        return [json.loads(line) for line in self.inner.read_bytes(path).splitlines()]


def test_a_line_says_who_changed_what_from_where_and_holds_no_secret() -> None:
    world = World()
    world.audit.note(request(), on.taking(on.topic(Action.DELETE)), OK)
    world.audit.note(request(user=None), on.taking(on.topic(Action.DELETE)), REFUSED)
    done, refused = world.lines()
    assert done == {
        "time": done["time"], "user": "alice", "from": "10.0.0.7:1234", "request": "DELETE_TOPIC_IN_BROKER",
        "fields": {"topic": "T"}, "outcome": "SUCCESS",
    }  # fmt: skip
    assert (refused["user"], refused["claims"], refused["why"]) == (None, "alice", "alice lacks Delete")
    assert b"s3cret" not in world.inner.read_bytes(PATH)


@pytest.mark.parametrize(
    ("needs", "reply", "is_noted"),
    [
        (on.topic(Action.PUB), OK, False),
        (on.topic(Action.PUB), REFUSED, True),
        (on.topic(Action.CREATE), OK, True),
        (on.cluster(Action.UPDATE), OK, True),
        (on.members(), OK, False),
        (on.members(), REFUSED, True),
        (on.cluster(Action.GET), OK, False),
        (on.taking(on.ANY_USER), OK, True),
    ],
)
def test_changes_and_refusals_are_noted(needs: on.Needs, reply: Reply, is_noted: bool) -> None:
    world = World()
    world.audit.note(request(), needs, reply)
    assert len(world.lines()) == is_noted


async def test_the_same_refusal_is_told_once_a_second() -> None:
    world, needs = World(), on.topic(Action.PUB)
    for _ in range(5):
        world.audit.note(request(), needs, REFUSED)
    world.audit.note(request(user="bob"), needs, REFUSED)
    assert len(world.lines()) == 2
    await world.clock.run_for(1000)
    world.audit.note(request(), needs, REFUSED)
    assert len(world.lines()) == 3


async def test_a_stranger_cannot_fill_the_files() -> None:
    """Neither by names that he claims, nor by codes or fields: what was noted before would be rotated away."""
    world, needs = World(), on.topic(Action.PUB)
    for number in range(5):
        fields = {f"{each}" + "n" * 1000: "t" * 1000 for each in range(100)}
        code = (Code.SEND_MESSAGE, Code.PULL_MESSAGE)[number % 2]
        world.audit.note(request(code, user=None, AccessKey=f"name {number}", **fields), needs, REFUSED)
    assert [line["claims"] for line in world.lines()] == ["name 0"]
    assert world.inner.size(PATH) < 16 * 1024
    await world.clock.run_for(1000)
    world.audit.note(request(user=None), needs, REFUSED)
    assert [line["claims"] for line in world.lines()] == ["name 0", "alice"]


def test_files_give_way_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILE_BYTES", 500)
    world, needs = World(), on.topic(Action.CREATE)
    for number in range(40):
        world.audit.note(request(number=str(number)), needs, OK)
    kept = sorted(name for name in world.inner.list_dir(PATH.parent) if name.startswith("audit"))
    assert kept == ["audit.jsonl", *(f"audit.jsonl.{number}" for number in range(1, 5))]
    numbers = [line["fields"]["number"] for name in reversed(kept) for line in world.lines(PATH.with_name(name))]  # type: ignore[index]
    assert numbers == [str(number) for number in range(40 - len(numbers), 40)]


def test_a_disk_that_refuses_makes_the_health_red_and_stops_nobody() -> None:
    world, needs = World(), on.topic(Action.CREATE)
    world.plan.add(Fault("pwrite", "audit", error=errno.ENOSPC))
    world.audit.note(request(), needs, OK)
    assert "cannot be written" in world.health.troubles["audit"].reason
    world.plan.clear()
    world.audit.note(request(), needs, OK)
    assert world.health.is_green and len(world.lines()) == 1


def test_a_restart_goes_on_behind_what_is_there() -> None:
    world, needs = World(), on.topic(Action.CREATE)
    world.audit.note(request(), needs, OK)
    Audit(PATH, world.files, world.clock, world.health).note(request(), needs, OK)
    assert len(world.lines()) == 2
