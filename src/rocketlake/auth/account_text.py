"""Users and policies as JSON: the bodies of ACL 2.0 requests, and the file of a server's accounts.

Owns        the shapes (Java: UserInfo, AclInfo), the errors of a bad one.
Must not know   requests, where the text is kept.

Java's tools leave out what they do not set: a missing password, type or status keeps the known one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from rocketlake.auth.action import Action
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.auth.user import User, UserStatus, UserType
from rocketlake.base.errors import UsageError
from rocketlake.model.quota import Quota

__all__ = [
    "SUBJECT",
    "AclInfo",
    "EntryInfo",
    "PolicyInfo",
    "QuotaInfo",
    "UserInfo",
    "accounts_text",
    "acl_entries",
    "acl_info",
    "action_of",
    "parse",
    "parse_accounts",
    "user_info",
    "user_of",
]

SUBJECT: Final = "User:"
T = TypeVar("T")


class QuotaInfo(msgspec.Struct, rename="camel", omit_defaults=True):
    """A quota, of RocketLake's servers only. What is left out keeps the known number; 0: no quota."""

    bytes_in: int | None = None
    requests_in: int | None = None
    bytes_out: int | None = None
    requests_out: int | None = None


class UserInfo(msgspec.Struct, rename="camel", omit_defaults=True):
    """A user on the wire. Apache's tools leave the quota out, and pass over it in answers."""

    username: str = ""
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None
    quota: QuotaInfo | None = None


class EntryInfo(msgspec.Struct, rename="camel", omit_defaults=True):
    """An entry of a policy on the wire."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(msgspec.Struct, rename="camel", omit_defaults=True):
    """A policy on the wire."""

    policy_type: str | None = None
    entries: list[EntryInfo] | None = None


class AclInfo(msgspec.Struct, rename="camel", omit_defaults=True):
    """The policies of a user on the wire; subject is `User:NAME`."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


class _File(msgspec.Struct):
    users: list[UserInfo]
    acls: list[AclInfo]


def parse(cls: type[T], data: bytes | str) -> T:
    """A body. Raises UsageError; its text has nothing of the data, which may hold a secret."""
    try:
        return msgspec.json.decode(data, type=cls)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is no {cls.__name__}: {error}", hint="send the JSON that mqadmin sends") from None


def user_of(info: UserInfo, name: str, known: User | None = None) -> User:
    """The user `name`, with what `info` leaves out taken from `known`. Raises UsageError."""
    return User(
        name,
        info.password or (known.password if known is not None else ""),
        _one_of(UserType, info.user_type) or (known.type if known is not None else UserType.NORMAL),
        _one_of(UserStatus, info.user_status) or (known.status if known is not None else UserStatus.ENABLE),
        _quota_of(info.quota, known.quota if known is not None else Quota()),
    )


def user_info(user: User, *, with_password: bool = False) -> UserInfo:
    """A user for the wire (without its password), or for the file."""
    quota = user.quota
    told = QuotaInfo(
        quota.bytes_in or None, quota.requests_in or None, quota.bytes_out or None, quota.requests_out or None
    )
    return UserInfo(
        user.name,
        user.password if with_password else None,
        user.type.value,
        user.status.value,
        told if quota else None,
    )


def _quota_of(info: QuotaInfo | None, known: Quota) -> Quota:
    given = (
        {}
        if info is None
        else {name: count for name, count in msgspec.structs.asdict(info).items() if count is not None}
    )
    return replace(known, **given)


def acl_entries(info: AclInfo) -> Iterable[tuple[PolicyType, Entry]]:
    """The entries of a body. Raises UsageError."""
    if not info.policies:
        raise UsageError("the body has no policies", hint="send at least one policy with one entry")
    for policy in info.policies:
        kind = _one_of(PolicyType, policy.policy_type) or PolicyType.CUSTOM
        if not policy.entries:
            raise UsageError("a policy has no entries", hint="send at least one entry with resource and actions")
        for entry in policy.entries:
            decision = _one_of(Decision, entry.decision)
            if decision is None:
                raise UsageError(
                    f"the entry for {entry.resource} decides nothing", hint="set decision to Allow or Deny"
                )
            yield (
                kind,
                Entry(
                    Resource.parse(entry.resource or ""),
                    frozenset(_actions(entry.actions or ())),
                    decision,
                    tuple(entry.source_ips or ()),
                ),
            )


def acl_info(name: str, acl: Acl) -> AclInfo:
    """The policies of user `name` for the wire."""
    return AclInfo(
        SUBJECT + name,
        [
            PolicyInfo(
                kind.value,
                [
                    EntryInfo(
                        str(entry.resource),
                        sorted(action.value for action in entry.actions),
                        list(entry.sources) or None,
                        entry.decision.value,
                    )
                    for entry in entries
                ],
            )
            for kind in PolicyType
            if (entries := list(acl.of_type(kind)))
        ],
    )


def accounts_text(users: Iterable[User], acls: dict[str, Acl]) -> str:
    """The text of the file."""
    file = _File(
        [user_info(user, with_password=True) for user in users], [acl_info(name, acl) for name, acl in acls.items()]
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1).decode()


def parse_accounts(text: str) -> tuple[dict[str, User], dict[str, Acl]]:
    """Users and policies of a file's text, by user name. Raises UsageError."""
    file = parse(_File, text)
    users = {info.username: user_of(info, info.username) for info in file.users}
    acls = {(info.subject or "").removeprefix(SUBJECT): Acl(tuple(acl_entries(info))) for info in file.acls}
    return users, acls


def action_of(text: str) -> Action:
    """The action of this name. Raises UsageError."""
    action = _one_of(Action, text)
    if action is None:
        raise UsageError("an action is empty", hint="name one, such as Pub")
    return action


def _actions(texts: Iterable[str]) -> Iterable[Action]:
    for text in texts:
        if text.lower() == "any":
            raise UsageError("Any is no action of a policy", hint="use All")
        yield action_of(text)


E_ = TypeVar("E_", UserType, UserStatus, PolicyType, Decision, Action)


def _one_of(kind: type[E_], text: str | None) -> E_ | None:
    """The member with this value, in any case of letters; None for no text. Raises UsageError."""
    if not text:
        return None
    for member in kind:
        if member.value.lower() == text.lower():
            return member
    known = ", ".join(member.value for member in kind)
    raise UsageError(f"{text[:40]!r} is no {kind.__name__}", hint=f"use one of {known}")
