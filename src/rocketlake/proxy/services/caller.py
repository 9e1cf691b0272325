"""Caller: who made a call, and whether that user may do what it asks.

Owns        the metadata of a call (x-mq-*, authorization), the signature of ACL 2.0 over gRPC.
Must not know   which call needs what, users and policies (net/gate, rocketlake.auth).

The signature is HMAC-SHA1 of the header x-mq-date-time by the user's secret, in upper-case hex.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketlake.auth.action import Need
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Caller", "Callers"]

_AUTHORIZATION: Final = re.compile(r"MQv2-HMAC-SHA1 Credential=([^,\s]+),\s*SignedHeaders=([^,]*),\s*Signature=(\w+)")
_SIGNED: Final = "x-mq-date-time"
_ID_MAX: Final = 255


@dataclass(slots=True)
class Caller:
    """Of one call."""

    call: Call
    client_id: str
    user: str | None
    """Who signed the call; None on a server that asks nobody."""
    allows: Callable[[str, str, Need], bool]
    remaining_ms: float
    """Until nobody waits for the answer any more."""

    def need(self, *wanted: Need) -> None:
        """Return if the user may do all of it. Refused UNAUTHORIZED."""
        if self.user is None:
            return
        for each in wanted:
            if not self.allows(self.user, self.call.link.remote[0], each):
                raise Refused(v2.Code.UNAUTHORIZED, f"user {self.user} lacks {each}")


class Callers:
    """Knows callers by the gate of the server."""

    def __init__(self, gate: AccessGate, monotonic: Callable[[], float], call_ms: float) -> None:
        """`call_ms`: for callers that give no deadline."""
        self._gate = gate
        self._monotonic = monotonic
        self._call_ms = call_ms

    def may_all(self, call: Call) -> bool:
        """True for a call that needs no look at who made it: the server asks nobody, and the call names its client."""
        return not self._gate.asks_who and bool(call.headers.get(b"x-mq-client-id", b"").strip())

    def of(self, call: Call) -> Caller:
        """Refused CLIENT_ID_REQUIRED, UNAUTHORIZED."""
        client_id = call.header("x-mq-client-id").strip()[:_ID_MAX]
        user = self._user(call) if self._gate.asks_who else None
        if not client_id:
            raise Refused(v2.Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing")
        left_ms = self._call_ms
        if call.deadline is not None:
            left_ms = (call.deadline - self._monotonic()) * 1000
        return Caller(call, client_id, user, self._gate.allows, left_ms)

    def _user(self, call: Call) -> str:
        found = _AUTHORIZATION.fullmatch(call.header("authorization").strip())
        signed = call.header(_SIGNED)
        if found is None or _SIGNED not in found[2] or not signed:
            raise Refused(v2.Code.UNAUTHORIZED, "this server takes only signed calls: give the client its credentials")
        name = found[1].partition("/")[0]
        proof = hmac.new(self._gate.secret_of(name).encode(), signed.encode(), hashlib.sha1).hexdigest()
        if not hmac.compare_digest(proof, found[3].lower()):
            raise Refused(v2.Code.UNAUTHORIZED, f"user {name[:128]} is not known, or the signature is not its own")
        return name
