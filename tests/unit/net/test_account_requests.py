"""Requests 3001 to 3010 on one file of accounts."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.action import AccessRefused
from rocketlake.auth.user import User, UserType
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.model.quota import Quota
from rocketlake.net.account_requests import AccountRequests
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code

ROOT, CAROL = User("root", "root-secret", UserType.SUPER), User("carol", "carol-secret")


class World:
    def __init__(self, files: MemoryFiles | None = None) -> None:
        """`files`: those of another server of this machine."""
        self.plan, self.files = FaultPlan(), files or MemoryFiles()
        self.file = AccountFile(Path("/c/accounts.json"), FaultyFiles(self.files, self.plan))
        self.file.load((ROOT,))
        self.file.accounts.put_user(CAROL)
        self.handlers = {row.code: row.handler for row in AccountRequests(self.file).rows()}

    def ask(self, code: Code, body: object = None, user: User = ROOT, **fields: str) -> object:
        """The body of the answer, read."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(Command(code, fields=fields, body=data), None, 0.0)  # type: ignore[arg-type]
        request.user = user
        reply = self.handlers[code](request)
        assert isinstance(reply, Reply) and reply.code == 0
        return json.loads(reply.body) if isinstance(reply.body, bytes) else None


def acl(
    resource: str = "Topic:T", actions: object = ("Pub",), decision: str | None = "Allow", **more: object
) -> object:
    entry = {"resource": resource, "actions": actions, "decision": decision, **more}
    return {"policies": [{"policyType": "Custom", "entries": [entry]}]}


def test_a_quota_stays_with_its_user_number_by_number_and_apaches_tools_leave_it_alone() -> None:
    world = World()
    quota = {"bytesIn": 1000, "requestsOut": 7}
    world.ask(Code.AUTH_CREATE_USER, {"password": "dave-secret", "quota": quota}, username="dave")
    world.ask(Code.AUTH_UPDATE_USER, {"userStatus": "enable"}, username="dave")  # as mqadmin sends it
    assert world.ask(Code.AUTH_GET_USER, username="dave")["quota"] == quota  # type: ignore[index]
    world.ask(Code.AUTH_UPDATE_USER, {"quota": {"bytesIn": 0, "bytesOut": 5}}, username="dave")
    world.file.load()
    assert world.file.accounts.users["dave"].quota == Quota(bytes_out=5, requests_out=7)
    for count in (-1, 2**60):
        with pytest.raises(UsageError, match="cannot be a quota"):
            world.ask(Code.AUTH_UPDATE_USER, {"quota": {"bytesIn": count}}, username="dave")


def test_the_life_of_a_user() -> None:
    world = World()
    world.ask(Code.AUTH_CREATE_USER, {"password": "dave-secret"}, username="dave")
    assert world.ask(Code.AUTH_GET_USER, username="dave") == {
        "username": "dave",
        "userType": "Normal",
        "userStatus": "enable",
    }
    world.ask(Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, username="dave")
    assert [user["userStatus"] for user in world.ask(Code.AUTH_LIST_USER, filter="dave")] == ["disable"]  # type: ignore[attr-defined]
    world.ask(Code.AUTH_DELETE_USER, username="dave")
    world.ask(Code.AUTH_DELETE_USER, username="dave")
    assert world.ask(Code.AUTH_GET_USER, username="dave") is None
    assert world.ask(Code.AUTH_LIST_USER, filter="dave") is None


def test_the_life_of_policies() -> None:
    world = World()
    world.ask(Code.AUTH_CREATE_ACL, acl(sourceIps=["10.0.0.0/8"]), subject="User:carol")
    world.ask(Code.AUTH_UPDATE_ACL, acl("Group:g", ["sub", "GET"], "deny"), subject="User:carol")
    shown = world.ask(Code.AUTH_GET_ACL, subject="User:carol")
    assert shown["subject"] == "User:carol"  # type: ignore[index]
    assert [entry["resource"] for entry in shown["policies"][0]["entries"]] == ["Topic:T", "Group:g"]  # type: ignore[index]
    assert world.ask(Code.AUTH_LIST_ACL, subjectFilter="User:carol", resourceFilter="Group") == [shown]
    assert world.ask(Code.AUTH_LIST_ACL, resourceFilter="Cluster") is None
    world.ask(Code.AUTH_DELETE_ACL, subject="User:carol", policyType="Custom", resource="Topic:T")
    world.ask(Code.AUTH_DELETE_ACL, subject="User:carol")
    assert world.ask(Code.AUTH_GET_ACL, subject="User:carol") is None
    with pytest.raises(UsageError, match="has no policies"):
        world.ask(Code.AUTH_DELETE_ACL, subject="User:carol")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "has no policies"),
        ({"policies": [{}]}, "has no entries"),
        (acl(decision=None), "decides nothing"),
        (acl(decision="Perhaps"), "is no Decision"),
        (acl(actions=[]), "names no action"),
        (acl(actions=["Any"]), "Any is no action"),
        (acl(actions=[""]), "an action is empty"),
        (acl(sourceIps=["here"]), "is no source address"),
        (acl(resource="T"), "is no resource"),
        ({"policies": acl()["policies"] * 1001}, None),  # type: ignore[index]
    ],
)
def test_a_bad_policy_is_refused_with_its_cure(body: object, why: str | None) -> None:
    world = World()
    if why is None:  # entries for one resource are one
        world.ask(Code.AUTH_CREATE_ACL, body, subject="User:carol")
        return
    with pytest.raises(UsageError, match=why):
        world.ask(Code.AUTH_CREATE_ACL, body, subject="User:carol")
    assert world.file.accounts.acls == {}


def test_what_is_asked_for_wrongly_is_refused() -> None:
    world = World()
    for code, body, fields, why in (
        (Code.AUTH_CREATE_USER, {"password": "root-secret"}, {"username": "root"}, "already"),
        (Code.AUTH_CREATE_USER, {}, {"username": ""}, "missing or blank"),
        (Code.AUTH_UPDATE_USER, {}, {"username": "nobody"}, "no user nobody"),
        (Code.AUTH_CREATE_ACL, acl(), {"subject": "carol"}, "is no subject"),
        (Code.AUTH_CREATE_ACL, acl(), {"subject": "User:nobody"}, "no user nobody"),
    ):
        with pytest.raises(UsageError, match=why):
            world.ask(code, body, **fields)


def test_a_super_user_is_touched_by_super_users_only() -> None:
    world = World()
    for code, body, fields in (
        (Code.AUTH_CREATE_USER, {"password": "eve-secret", "userType": "Super"}, {"username": "eve"}),
        (Code.AUTH_UPDATE_USER, {"userType": "Super"}, {"username": "carol"}),
        (Code.AUTH_UPDATE_USER, {"password": "stolen-1"}, {"username": "root"}),
        (Code.AUTH_DELETE_USER, None, {"username": "root"}),
        (Code.AUTH_CREATE_ACL, acl(), {"subject": "User:root"}),
    ):
        with pytest.raises(AccessRefused, match="is no super user"):
            world.ask(code, body, user=CAROL, **fields)
    assert world.file.accounts.users == {"root": ROOT, "carol": CAROL}


def test_a_change_that_cannot_be_kept_is_none() -> None:
    world = World()
    world.plan.add(Fault("rename", "accounts", error=errno.ENOSPC))
    with pytest.raises(StoreError, match="accounts cannot be written"):
        world.ask(Code.AUTH_CREATE_USER, {"password": "dave-secret"}, username="dave")
    assert "dave" not in world.file.accounts.users


def test_a_change_keeps_what_another_server_wrote_into_the_same_file_a_moment_ago() -> None:
    here = World()
    here.ask(Code.AUTH_CREATE_USER, {"password": "dave-secret"}, username="dave")
    there = World(here.files)
    assert there.ask(Code.AUTH_LIST_ACL) is None
    here.ask(Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, username="dave")
    there.ask(Code.AUTH_CREATE_USER, {"password": "erin-secret"}, username="erin")
    here.ask(Code.AUTH_CREATE_USER, {"password": "erin-secret"}, username="erin")  # as a tool tells each server
    here.ask(Code.AUTH_CREATE_ACL, acl(), subject="User:erin")
    assert there.ask(Code.AUTH_LIST_ACL) is not None, "a tool asks what is there before it tells"
    here.file.load()
    assert not here.file.accounts.users["dave"].is_enabled
    assert "erin" in here.file.accounts.acls
