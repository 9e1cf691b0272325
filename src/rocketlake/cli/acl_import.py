"""Accounts of ACL 1.0 (`plain_acl.yml`) -> users and policies.

Owns        what each line of such a file becomes, and what is left behind.
Must not know   servers (admin/accounts.py), the terminal.

Source: RocketMQ's AuthMigrator. Addresses that needed no signature are left behind: they were the way around ACL 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketlake.auth.account_text import SUBJECT, AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketlake.base.errors import UsageError

__all__ = ["Imported", "read_plain_acl"]

_ACTIONS: Final = {"PUB": ["Pub"], "SUB": ["Sub"], "PUB|SUB": ["Pub", "Sub"], "SUB|PUB": ["Pub", "Sub"]}
_ANY: Final = {"Topic": ["Pub", "Sub"], "Group": ["Sub"]}
_HINT: Final = "give a plain_acl.yml of RocketMQ up to 5.3.2"


@dataclass
class Imported:
    """What a file becomes; `left` tells what is not carried over, a line each."""

    users: list[UserInfo] = field(default_factory=list)
    acls: list[AclInfo] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def read_plain_acl(path: Path) -> Imported:
    """Read the file. Raises UsageError; its text has no secret."""
    import yaml

    try:
        given = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"the file cannot be read: {type(error).__name__}", where=str(path), hint=_HINT) from None
    if not isinstance(given, dict) or not isinstance(given.get("accounts"), list):
        raise UsageError("the file has no list of accounts", where=str(path), hint=_HINT)
    found = Imported()
    for address in given.get("globalWhiteRemoteAddresses") or []:
        found.left.append(f"{address} needed no signature: give its clients a user")
    for number, account in enumerate(given["accounts"]):
        if not isinstance(account, dict) or not account.get("accessKey") or not account.get("secretKey"):
            hint = "each account has accessKey and secretKey"
            raise UsageError(f"account {number + 1} cannot be read", where=str(path), hint=hint)
        _add(found, account, str(path))
    return found


def _add(found: Imported, account: dict[str, Any], where: str) -> None:
    name = str(account["accessKey"])
    is_admin = account.get("admin") is True
    found.users.append(UserInfo(name, str(account["secretKey"]), "Super" if is_admin else "Normal"))
    if account.get("whiteRemoteAddress"):
        found.left.append(f"{name} needed no signature from {account['whiteRemoteAddress']}: let its clients sign")
    if is_admin:
        return
    custom = [
        *_entries("Topic", account.get("topicPerms") or [], name, where),
        *_entries("Group", account.get("groupPerms") or [], name, where),
    ]
    default = [
        _entry(kind, "*", str(account[setting]), name, where)
        for kind, setting in (("Topic", "defaultTopicPerm"), ("Group", "defaultGroupPerm"))
        if account.get(setting)
    ]
    policies = [PolicyInfo(kind, entries) for kind, entries in (("Custom", custom), ("Default", default)) if entries]
    if policies:
        found.acls.append(AclInfo(SUBJECT + name, policies))


def _entries(kind: str, lines: Iterable[object], name: str, where: str) -> Iterator[EntryInfo]:
    for line in lines:
        resource, equals, permission = str(line).partition("=")
        if not equals or not resource.strip():
            raise UsageError(f"{str(line)[:80]!r} of {name} is no permission", where=where, hint="write topicA=PUB|SUB")
        yield _entry(kind, resource.strip(), permission, name, where)


def _entry(kind: str, resource: str, permission: str, name: str, where: str) -> EntryInfo:
    wanted = permission.strip().upper().replace(" ", "")
    if wanted == "DENY":
        return EntryInfo(f"{kind}:{resource}", ["All"], None, "Deny")
    actions = _ANY[kind] if wanted == "ANY" else _ACTIONS.get(wanted)
    if actions is None:
        hint = "use DENY, PUB, SUB, PUB|SUB or ANY"
        raise UsageError(f"{permission[:40]!r} of {name} is no permission", where=where, hint=hint)
    return EntryInfo(f"{kind}:{resource}", actions, None, "Allow")
