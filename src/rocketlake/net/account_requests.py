"""The requests that read and change users and policies (ACL 2.0, 3001 to 3010), for every server that has accounts.

Owns        what each request does, which user may do it to which.
Must not know   signatures and decisions (rocketlake.auth), the other requests of a server.

A password is in no answer: Apache's copyUser therefore cannot copy users from here. Super users are made, changed and
deleted by super users only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.account_text import SUBJECT, AclInfo, UserInfo, acl_entries, acl_info, parse, user_info, user_of
from rocketlake.auth.action import AccessRefused, Action
from rocketlake.auth.policy import Acl, PolicyType, Resource
from rocketlake.auth.user import User
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.net.dispatcher import Row
from rocketlake.net.gate.needs import cluster
from rocketlake.net.request import Handler, Held, Reply, Request
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["AccountRequests"]

_log: Final = get_logger(__name__)
_BODY_BYTES_MAX: Final = 1 << 20


class AccountRequests:
    """Serves them from one file of accounts."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    def rows(self) -> list[Row]:
        """The rows of a dispatch table."""
        change, read = cluster(Action.UPDATE), cluster(Action.GET)
        rows = [
            Row(Code.AUTH_CREATE_USER, self.create_user, change, body_bytes_max=_BODY_BYTES_MAX),
            Row(Code.AUTH_UPDATE_USER, self.update_user, change, body_bytes_max=_BODY_BYTES_MAX),
            Row(Code.AUTH_DELETE_USER, self.delete_user, change),
            Row(Code.AUTH_GET_USER, self.get_user, read),
            Row(Code.AUTH_LIST_USER, self.list_users, read),
            Row(Code.AUTH_CREATE_ACL, self.put_acl, change, body_bytes_max=_BODY_BYTES_MAX),
            Row(Code.AUTH_UPDATE_ACL, self.put_acl, change, body_bytes_max=_BODY_BYTES_MAX),
            Row(Code.AUTH_DELETE_ACL, self.delete_acl, change),
            Row(Code.AUTH_GET_ACL, self.get_acl, read),
            Row(Code.AUTH_LIST_ACL, self.list_acls, read),
        ]
        return [replace(row, handler=self._on_newest(row.handler)) for row in rows]

    def _on_newest(self, serve: Handler) -> Handler:
        """Look at the file first. It is written as a whole, and what another server of this machine has put there must
        not be lost; nor must a tool that asks one after the other be told what was."""

        def handle(request: Request) -> Reply | Held:
            self._file.refresh()
            return serve(request)

        return handle

    def create_user(self, request: Request) -> Reply:
        """AUTH_CREATE_USER. One that is there as it is wanted was made by a server that shares the file."""
        name = _named(request, "username")
        user = user_of(parse(UserInfo, request.body), name)
        if self._file.accounts.users.get(name, user) != user:
            raise UsageError(f"there is a user {name} already", hint="change it with an update")
        return self._put_user(request, user)

    def update_user(self, request: Request) -> Reply:
        """AUTH_UPDATE_USER: what the body leaves out stays."""
        known = self._user(_named(request, "username"))
        return self._put_user(request, user_of(parse(UserInfo, request.body), known.name, known))

    def delete_user(self, request: Request) -> Reply:
        """AUTH_DELETE_USER, with its policies; a user that is not there is deleted already."""
        name = _named(request, "username")
        if (known := self._file.accounts.users.get(name)) is None:
            return Reply()
        _check_super(request, known)
        return self._change(lambda: self._file.accounts.drop_user(name), request, f"deletes user {name}")

    def get_user(self, request: Request) -> Reply:
        """AUTH_GET_USER; no body if there is none."""
        user = self._file.accounts.users.get(_named(request, "username"))
        return Reply(body=None if user is None else msgspec.json.encode(user_info(user)))

    def list_users(self, request: Request) -> Reply:
        """AUTH_LIST_USER: those whose name holds the filter."""
        wanted = _field(request, "filter")
        return _listed(user_info(user) for name, user in sorted(self._file.accounts.users.items()) if wanted in name)

    def put_acl(self, request: Request) -> Reply:
        """AUTH_CREATE_ACL, AUTH_UPDATE_ACL: entries in place of those for the same resources, beside the others."""
        name = _subject(request)
        self._check_policies_of(request, name)
        entries = list(acl_entries(parse(AclInfo, request.body)))
        acl = self._file.accounts.acls.get(name, Acl()).merged(entries)
        return self._change(lambda: self._file.accounts.put_acl(name, acl), request, f"changes policies of {name}")

    def delete_acl(self, request: Request) -> Reply:
        """AUTH_DELETE_ACL: the entry for one resource, or all without one."""
        name, resource = _subject(request), _field(request, "resource")
        self._check_policies_of(request, name)
        if name not in self._file.accounts.acls:
            raise UsageError(f"user {name} has no policies", hint="look with `rocketlake acl show`")
        acl = Acl()
        if resource:
            kind = PolicyType.DEFAULT if _field(request, "policyType").lower() == "default" else PolicyType.CUSTOM
            acl = self._file.accounts.acls[name].without(kind, Resource.parse(resource))
        return self._change(lambda: self._file.accounts.put_acl(name, acl), request, f"deletes policies of {name}")

    def get_acl(self, request: Request) -> Reply:
        """AUTH_GET_ACL; no body if the user has no policies."""
        name = self._user(_subject(request)).name
        acl = self._file.accounts.acls.get(name)
        return Reply(body=None if acl is None else msgspec.json.encode(acl_info(name, acl)))

    def list_acls(self, request: Request) -> Reply:
        """AUTH_LIST_ACL: those whose subject, and one of whose resources, hold the filters."""
        subject, resource = _field(request, "subjectFilter"), _field(request, "resourceFilter")
        return _listed(
            acl_info(name, acl)
            for name, acl in sorted(self._file.accounts.acls.items())
            if subject in SUBJECT + name and any(resource in str(entry.resource) for _, entry in acl.entries)
        )

    def _put_user(self, request: Request, user: User) -> Reply:
        known = self._file.accounts.users.get(user.name)
        _check_super(request, user, *([known] if known is not None else []))
        return self._change(lambda: self._file.accounts.put_user(user), request, f"makes or changes user {user.name}")

    def _check_policies_of(self, request: Request, name: str) -> None:
        _check_super(request, self._user(name))

    def _user(self, name: str) -> User:
        user = self._file.accounts.users.get(name)
        if user is None:
            raise UsageError(f"there is no user {name}", hint="create it first")
        return user

    def _change(self, change: Callable[[], None], request: Request, what: str) -> Reply:
        """Change the tables and the file, or neither."""
        accounts = self._file.accounts
        users, acls = accounts.users, accounts.acls
        change()
        try:
            self._file.save()
        except OSError as problem:
            accounts.replace(users, acls)
            raise StoreError(f"accounts cannot be written: {problem}", path=str(self._file.path)) from problem
        _log.info("%s %s", request.user.name if request.user is not None else request.address, what)
        return Reply()


def _check_super(request: Request, *users: User) -> None:
    """A super user is changed by super users only."""
    asks = request.user
    if any(user.is_super for user in users) and asks is not None and not asks.is_super:
        raise AccessRefused(f"{asks.name} is no super user", hint="have a super user do it")


def _field(request: Request, name: str) -> str:
    return (request.command.fields or {}).get(name) or ""


def _named(request: Request, field: str) -> str:
    name = _field(request, field).strip()
    if not name:
        raise UsageError(f"the field {field} is missing or blank", hint="name the user")
    return name


def _subject(request: Request) -> str:
    subject = _named(request, "subject")
    if not subject.startswith(SUBJECT):
        raise UsageError(f"{subject[:80]!r} is no subject", hint="write User:NAME")
    return subject.removeprefix(SUBJECT)


def _listed(entries: Iterable[msgspec.Struct]) -> Reply:
    listed = list(entries)
    return Reply(body=msgspec.json.encode(listed) if listed else None)
