"""The controllers of this broker: which of them is asked.

Owns        their addresses, the one that answered last, the tries of one question.
Must not know   the questions (calls.py), what the answers mean for this broker.

All of our controllers answer for themselves. Of Apache's only the leader does; the others say so, and name it.

A controller whose machine is gone does not refuse, it is silent. So all are asked with short tries first, and waited
for only when none of them has answered: a new master is often needed at the moment in which a controller is lost, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketlake.base.errors import LinkError
from rocketlake.net.client import InvokeTimeout, NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import from_fields
from rocketlake.protocol.headers.controller import ControllerMetadataReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ControllerSilent", "Controllers"]

_UNABLE = (ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR)
"""Answers of a controller whose register does not answer: another one may reach it."""
_SHORT_MS = 300
"""As a controller's own tries at its register."""


class ControllerSilent(LinkError):
    """A controller did not answer. It may have done all the same what it was asked for."""


class Controllers:
    """The controllers of one group."""

    def __init__(self, net: NetClient, addresses: Callable[[], Sequence[str]], timeout_ms: int) -> None:
        """`addresses`: those of the settings, `host:port`, at least one. `timeout_ms`: longest wait for each."""
        self._net = net
        self._addresses = addresses
        self._timeout_ms = timeout_ms
        self._chosen = ""

    @property
    def chosen(self) -> str:
        """The address that is asked next."""
        return self._chosen or self._addresses()[0]

    async def ask(self, command: Callable[[], Command]) -> Command:
        """The answer of the first controller that is able to give one. Raises ControllerSilent when none answers.

        `command` makes the request anew for each try. Only for questions that may be asked twice.
        """
        answer = await self._ask_each(command, _SHORT_MS) if len(self._addresses()) > 1 else None
        answer = answer or await self._ask_each(command, self._timeout_ms)
        return answer or await self.ask_one(command())  # a leader that was named last

    async def _ask_each(self, command: Callable[[], Command], timeout_ms: int) -> Command | None:
        """The first answer of use, or the last of those that were none; None without any."""
        answer = None
        for _each in self._addresses():
            try:
                answer = await self.ask_one(command(), timeout_ms)
            except ControllerSilent:
                continue
            if answer.code not in _UNABLE:
                break
        return answer

    async def ask_one(self, command: Command, timeout_ms: int | None = None) -> Command:
        """Ask the chosen controller once. Raises ControllerSilent: the next one is asked next time."""
        address = self.chosen
        try:
            answer = await self._net.invoke(address, command, timeout_ms or self._timeout_ms)
        except (LinkError, InvokeTimeout) as error:
            self._choose_other(address)
            raise ControllerSilent(
                f"controller {address} does not answer: {error.what}",
                hint="see that a controller runs there, and that controllerAddr names it",
            ) from error
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._chosen = await self._leader_after(address)
            raise ControllerSilent(f"controller {address} is not the leader", hint="wait until one is elected")
        self._chosen = address
        if answer.code in _UNABLE:
            self._choose_other(address)
        return answer

    def ask_another(self) -> None:
        """The chosen controller seems to be behind: the next question goes to another one."""
        self._choose_other(self.chosen)

    def hang_up(self) -> None:
        """End the links to all of them: the heartbeats came on these, too."""
        for address in {*self._addresses(), self.chosen}:
            self._net.give_up(address, "this broker is not to be the master any more")

    async def _leader_after(self, address: str) -> str:
        """The leader that this controller names; another address if it knows none."""
        command = Command.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
        try:
            answer = await self._net.invoke(address, command, self._timeout_ms)
        except (LinkError, InvokeTimeout):
            return self._other_than(address)
        named = from_fields(ControllerMetadataReplyHeader, answer.fields).controller_leader_address
        return named if named and named != address else self._other_than(address)

    def _choose_other(self, address: str) -> None:
        if self.chosen == address:
            self._chosen = self._other_than(address)

    def _other_than(self, address: str) -> str:
        """The address of the settings behind this one, in a circle."""
        addresses = list(self._addresses())
        return addresses[(addresses.index(address) + 1) % len(addresses)] if address in addresses else addresses[0]
