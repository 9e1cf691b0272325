"""Users and policies of a cluster: the same on each of its brokers and name servers.

Owns        which servers are asked, in which order; what their answers mean together.
Must not know   the terminal, what a policy decides (rocketlake.auth).

Servers may share one file of accounts: then the second one has a change already. So a user is made at the first server,
and made or changed at the others.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.results import PolicyMade
from rocketlake.auth.account_text import (
    SUBJECT,
    AclInfo,
    EntryInfo,
    PolicyInfo,
    UserInfo,
    acl_entries,
    action_of,
    parse,
)
from rocketlake.auth.action import Kind, Need, on_topic
from rocketlake.auth.policy import Acl, Decision, PolicyType, Resource, Verdict
from rocketlake.base.errors import ConflictError, NotThereError, RocketLakeError, UsageError
from rocketlake.client.calls.answer import ask
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ClusterAccounts"]

_NOT_HERE = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class ClusterAccounts:
    """Asks and changes them. Raises RocketLakeError, of the first server that refuses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def users(self) -> list[UserInfo]:
        """All users, without passwords."""
        body = await self._read(RequestCode.AUTH_LIST_USER, {})
        return parse(list[UserInfo], body) if body else []

    async def acls(self, name: str = "") -> dict[str, Acl]:
        """Policies by user, of all users or of one."""
        body = await self._read(RequestCode.AUTH_LIST_ACL, {"subjectFilter": SUBJECT + name})
        infos = parse(list[AclInfo], body) if body else []
        found = {(info.subject or "").removeprefix(SUBJECT): Acl(tuple(acl_entries(info))) for info in infos}
        return {user: acl for user, acl in found.items() if name in ("", user)}

    async def user(self, name: str) -> UserInfo:
        """One user. RocketLakeError if there is none."""
        for info in await self.users():
            if info.username == name:
                return info
        raise NotThereError(f"there is no user {name}", hint="`rocketlake acl users` lists all; `acl add` makes one")

    async def put_user(self, info: UserInfo, *, is_new: bool) -> list[str]:
        """Make or change a user; returns the servers that have it now."""
        if is_new and any(known.username == info.username for known in await self.users()):
            raise ConflictError(f"there is a user {info.username} already", hint="change it: `rocketlake acl change`")
        fields, body = {"username": info.username}, msgspec.json.encode(info)
        servers = await self._servers()
        codes = []
        for address in servers:
            known = parse(list[UserInfo], await self._ask(address, RequestCode.AUTH_LIST_USER, {}) or b"[]")
            is_there = any(user.username == info.username for user in known)
            codes.append(RequestCode.AUTH_UPDATE_USER if is_there else RequestCode.AUTH_CREATE_USER)
        # Nothing is asked between the changes: a server that shares its file with one before looks at it when it is
        # asked, and from then on refuses who changes its own secret and still signs with the old one.
        for address, code in zip(servers, codes, strict=True):
            await self._ask(address, code, fields, body)
        return servers

    async def drop_user(self, name: str) -> list[str]:
        """Delete a user with its policies."""
        await self.user(name)
        return await self._change(RequestCode.AUTH_DELETE_USER, {"username": name})

    async def put_policies(self, info: AclInfo) -> list[str]:
        """Put these entries in place of those for the same resources."""
        fields = {"subject": info.subject or ""}
        return await self._change(RequestCode.AUTH_UPDATE_ACL, fields, msgspec.json.encode(info))

    async def drop_policies(self, name: str, resource: str | None) -> list[str]:
        """Delete the entry of a user for a resource, or all of its entries."""
        if name not in (known := await self.acls(name)):
            raise NotThereError(f"user {name} has no policies", hint="`rocketlake acl show` lists all")
        # Without a resource a server deletes all of them, of both types.
        kinds = [kind for kind, entry in known[name].entries if str(entry.resource) == resource]
        if resource is not None and not kinds:
            raise NotThereError(f"user {name} has no policy for {resource}", hint=f"`rocketlake acl show {name}`")
        fields = {"subject": SUBJECT + name} | ({"resource": resource} if resource else {})
        done = []
        for address in await self._servers():
            listed = await self._ask(address, RequestCode.AUTH_LIST_ACL, {"subjectFilter": SUBJECT + name})
            if listed:  # a server that shares its file with one before has it done
                for kind in kinds or [PolicyType.CUSTOM]:
                    await self._ask(address, RequestCode.AUTH_DELETE_ACL, fields | {"policyType": kind.value})
            done.append(address)
        return done

    async def decide(
        self, decision: Decision, user: str, actions: Collection[str], resource: str, sources: Collection[str]
    ) -> PolicyMade:
        """Allow or deny a user something, in place of what was decided for the same resource."""
        entry = EntryInfo(resource, list(actions), list(sources) or None, decision.value)
        info = AclInfo(SUBJECT + user, [PolicyInfo("Custom", [entry])])
        ((kind, made),) = acl_entries(info)  # a bad one is refused here, before any server has it
        await self.user(user)
        known = (await self.acls(user)).get(user, Acl()).of_type(kind)
        replaced = next((entry for entry in known if entry.resource == made.resource and entry != made), None)
        return PolicyMade(made, await self.put_policies(info), replaced)

    async def verdict(self, user: str, action: str, resource: str, host: str) -> Verdict:
        """Whether a user may do something, and what decides."""
        need = _need(action, resource)
        info = await self.user(user)
        if (info.user_status or "").lower() == "disable":
            return Verdict(False, f"user {user} is disabled")
        if (info.user_type or "").lower() == "super":
            return Verdict(True, f"{user} is a super user")
        return (await self.acls(user)).get(user, Acl()).verdict(need, host)

    async def add(self, users: Collection[UserInfo], acls: Collection[AclInfo]) -> set[str]:
        """Make users with their policies; those that are known already stay as they are. Returns the known ones."""
        known = {user.username for user in await self.users()}
        for user in users:
            if user.username not in known:
                await self.put_user(user, is_new=True)
        for info in acls:
            if (info.subject or "").removeprefix(SUBJECT) not in known:
                await self.put_policies(info)
        return known

    async def _read(self, code: RequestCode, fields: dict[str, str]) -> bytes:
        servers = await self._servers()
        return await self._ask(servers[0], code, fields)

    async def _change(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> list[str]:
        servers = await self._servers()
        for address in servers:
            await self._ask(address, code, fields, body)
        return servers

    async def _servers(self) -> list[str]:
        """The servers that know users: brokers first, for each of them does if the cluster has any."""
        found: list[str] = []
        for name in await self._cluster.masters():
            found += (await self._cluster.members(name)).values()
        found += self._cluster.name_servers
        asked = [address for address in dict.fromkeys(found) if await self._knows_users(address)]
        if not asked:
            raise RocketLakeError(
                "no server of this cluster asks who its clients are",
                where=self._cluster.where,
                hint="start brokers and name servers with authenticationEnabled=true",
            )
        return asked

    async def _knows_users(self, address: str) -> bool:
        command = Command.request(RequestCode.AUTH_LIST_USER, fields={"filter": ""})
        return (await ask(self._cluster.net, address, command, accept=(0, _NOT_HERE))).code != _NOT_HERE

    async def _ask(self, address: str, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> bytes:
        command = Command.request(code, fields=dict(fields), body=body or None)
        return (await ask(self._cluster.net, address, command)).body_bytes


def _need(action: str, text: str) -> Need:
    resource = Resource.parse(text)
    if resource.is_prefix:
        raise UsageError(f"{text} is no single resource", hint="name one, such as Topic:orders")
    asked = action_of(action)
    if resource.kind is Kind.TOPIC:
        return on_topic(resource.name, asked)
    return Need(resource.kind, resource.name, (asked,))
