"""AccessGate: the one place where a server asks whether a request is allowed.

Owns        the order: who signed it, then whether that user may do it; without users, the rule for administrators.
Must not know   the needs of single codes (needs.py), the rules (rocketlake.auth).

| Server | Who | What |
|---|---|---|
| without users | nobody is asked | what takes something away: the hosts of adminAccess (decision 0004) |
| authenticationEnabled | each request: signed by an enabled user, or (certificateUsers) by its certificate | the same |
| authorizationEnabled, too | the same | the user's policies decide; super users may do all |

Requests from inside the process are trusted: nobody else can make them.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.action import AccessRefused, Action, Kind, Need, on_cluster
from rocketlake.auth.admin_access import AdminAccess, check_admin_access
from rocketlake.auth.proof import Proof, is_proven
from rocketlake.auth.signature import ACCESS_KEY
from rocketlake.auth.user import User, new_password
from rocketlake.net.gate.needs import Needs
from rocketlake.net.request import Request
from rocketlake.protocol.request_code import request_name

__all__ = ["AccessGate"]


class AccessGate:
    """Of one server; it stands before the handlers of all its listeners."""

    def __init__(
        self,
        access: Callable[[], AdminAccess],
        file: AccountFile | None = None,
        *,
        authorizes: bool = False,
        believes_certificates: bool = False,
        cluster: Callable[[], str] = lambda: "",
    ) -> None:
        """`file`: None: without users. `authorizes`: policies decide. `cluster`: the name that policies use.

        `believes_certificates`: a peer whose certificate was checked is the user of its name, and need not sign.
        """
        assert file is not None or not authorizes, "policies without users would believe any name"
        self._access = access
        self._file = file
        self.authorizes = authorizes
        self._believes_certificates = believes_certificates
        self._cluster = cluster

    @property
    def asks_who(self) -> bool:
        """True if only known users may ask."""
        return self._file is not None

    @property
    def edition(self) -> int:
        """What `allows` and `secret_of` say holds as long as it is the same."""
        assert self._file is not None
        return self._file.accounts.edition

    def secret_of(self, name: str) -> str:
        """What this user signs with; of a user that may not ask a secret that nobody has."""
        assert self._file is not None
        user = self._file.accounts.users.get(name)
        return user.password if user is not None and user.is_enabled else new_password()

    def allows(self, name: str, host: str, *wanted: Need) -> bool:
        """May this user do all of it from this host?"""
        assert self._file is not None
        accounts = self._file.accounts
        user = accounts.users.get(name)
        if user is None or not user.is_enabled:
            return False
        return not self.authorizes or all(accounts.verdict(user, need, host).allowed for need in wanted)

    def check(self, request: Request, needs: Needs) -> None:
        """Return if the request may be served, else raise AccessRefused."""
        if not needs.signed:
            return
        if self._file is not None:
            request.user = request.asker.user = self._signer(self._file, request)
        if not self.authorizes:
            if needs.takes:
                self.check_host(request.asker.remote[0], request_name(request.code))
        elif (user := request.user) is not None and not user.is_super:
            for need in needs.of(request):
                self._check(user, need, request.asker.remote[0], request_name(request.code))

    def check_more(self, request: Request, *wanted: Need) -> None:
        """As it turns out, the request needs this, too. Nothing is asked without policies."""
        user = request.user
        if self.authorizes and user is not None and not user.is_super:
            for need in wanted:
                self._check(user, need, request.asker.remote[0], request_name(request.code))

    def check_admin(self, request: Request, what: str, need: Need | None = None) -> None:
        """As it turns out, the request takes something away. `need`: with policies; None: to change the cluster."""
        if not self.authorizes:
            self.check_host(request.asker.remote[0], what)
        elif request.user is None:
            raise AccessRefused(f"{what}: nobody signed the request", hint="sign it as a user who may do it")
        else:
            self.check_more(request, need or on_cluster(Action.UPDATE))

    def check_host(self, host: str, what: str) -> None:
        """Return if this host is an administrator's. For servers without policies."""
        check_admin_access(self._access(), host, what)

    def check_replica(self, host: str, question: bytes, proof: Proof) -> None:
        """Return if this user, from this host, may have the whole log, else raise AccessRefused: as a member of the
        cluster, whose requests are those that `needs.members` marks."""
        assert self._file is not None
        if not is_proven(question, proof, self.secret_of(proof.user)):
            self._file.refresh()
            if not is_proven(question, proof, self.secret_of(proof.user)):
                raise AccessRefused(
                    f"user {proof.user[:128]} is not known, or the proof is not its own",
                    hint="give master and slaves the same innerClientAuthenticationCredentials",
                )
        user = self._file.accounts.users[proof.user]
        if self.authorizes and not user.is_super:
            self._check(user, on_cluster(Action.UPDATE), host, "the log of haListenPort")

    def _signer(self, file: AccountFile, request: Request) -> User:
        command = request.command
        fields = command.fields or {}
        if self._believes_certificates and ACCESS_KEY not in fields and (name := request.asker.certificate_name):
            return file.accounts.certified(name)
        try:
            return file.accounts.signer(fields, request.body, version=command.version)
        except AccessRefused:
            # Another server of this machine may have changed the file since it was looked at.
            if not file.refresh():
                raise
        return file.accounts.signer(fields, request.body, version=command.version)

    def _check(self, user: User, need: Need, host: str, what: str) -> None:
        assert self._file is not None
        if need.kind is Kind.CLUSTER and not need.name:
            need = Need(Kind.CLUSTER, self._cluster(), need.actions)
        if not self._file.accounts.verdict(user, need, host).allowed:
            self._file.refresh()
            self._file.accounts.check(user, need, host, what)
