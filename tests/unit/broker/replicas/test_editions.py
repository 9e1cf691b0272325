"""Whose receipts for tables count."""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import ManualClock
from rocketlake.broker.replicas.editions import Editions
from rocketlake.net.link import Link
from rocketlake.net.request import Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.tables import NewerTablesHeader, NewerTablesReplyHeader
from rocketlake.protocol.request_code import RequestCode


class Table:
    """A table whose changes are counted."""

    edition = 1


class Slave:
    """One process with the broker id 2, on a link of its own."""

    def __init__(self, editions: Editions, link: Link, mark: str) -> None:
        self.editions, self.link, self.mark = editions, link, mark
        self.known = ""

    def ask(self) -> None:
        """Confirm what the last answer named, and take the newest editions."""
        header = NewerTablesHeader(broker_id=2, mark=self.mark, known=self.known)
        command = Command.request(RequestCode.GET_NEWER_TABLES, header)
        reply = self.editions.newer(Request(command, self.link, 0.0))
        assert isinstance(reply, Reply) and isinstance(reply.header, NewerTablesReplyHeader)
        self.known = reply.header.known


async def test_a_process_whose_id_was_given_away_confirms_no_table(new_link: Callable[..., Link]) -> None:
    clock, table, copied = ManualClock(), Table(), list[str]()
    editions = Editions(clock, Turns(clock, 0.002))
    editions.add_settings(topics=table)
    recorded = "old"
    editions.expect(lambda: {2}, lambda broker_id, mark: (broker_id, mark) == (2, recorded))
    old, new = (Slave(editions, new_link(clock), mark) for mark in ("old", "new"))
    old.ask()
    old.ask()
    editions.when_copied(copied.append)
    assert copied == [""], "the one that is recorded has it"

    recorded = "new"
    table.edition += 1
    editions.when_copied(copied.append)
    old.ask()
    old.ask()
    assert copied == [""], "the one that may be elected lacks it"
    new.ask()
    assert copied == [""], "asked, not confirmed"
    new.ask()
    assert copied == ["", ""]
