"""100 yuan become 100 points, whatever is killed: `python examples/transfer.py NAMESRV FOLDER ORDER [DIE_AT]`.

ORDER `transaction`: a half message, the yuan, the end; its broker asks a program that was started again. The two that
go wrong beside it: `database_first`, `message_first`. DIE_AT 1 or 2 kills the program behind that step. `settle` starts
it again: it answers the broker, books the points of messages that came, and prints both accounts.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys

from rocketlake import Consumer, Message, Producer, StoredMessage, TransactionEnd, TransactionProducer

namesrv, folder, order, die_at = (*sys.argv[1:], "0")[:4]
book = sqlite3.connect(f"{folder}/book.db", isolation_level=None)
book.execute("create table if not exists taken (id text primary key)")
book.execute("create table if not exists given (id text primary key)")


def step(number: int) -> None:
    """Die here, if that is asked for."""
    if number == int(die_at):
        os._exit(1)


def take(transfer: str) -> None:
    """100 yuan less, once."""
    book.execute("insert or ignore into taken values (?)", (transfer,))


async def take_in_transaction(message: Message) -> TransactionEnd:
    """The local part: between the half message and its end."""
    step(1)
    take(str(message.keys))
    step(2)
    return TransactionEnd.COMMIT


async def was_taken(message: StoredMessage) -> TransactionEnd:
    """The broker asks: did the database commit?"""
    found = book.execute("select 1 from taken where id = ?", (message.keys,)).fetchone()
    return TransactionEnd.COMMIT if found else TransactionEnd.ROLLBACK


async def main() -> None:
    """One transfer in the order asked for, or what is left of it."""
    transfer = Message("transfers", b"100", keys="transfer-1")
    if order == "settle":
        bank = TransactionProducer("bank", check=was_taken, namesrv=namesrv, topics=("transfers",))
        async with bank, Consumer("points", "transfers", namesrv=namesrv, from_where="first") as consumer:
            while message := await consumer.receive(timeout_ms=4000):
                book.execute("insert or ignore into given values (?)", (message.keys,))
        taken, given = (book.execute(f"select count(*) from {table}").fetchone()[0] for table in ("taken", "given"))
        print(f"{100 - 100 * taken} yuan, {100 * given} points")
    elif order == "transaction":
        async with TransactionProducer("bank", check=was_taken, namesrv=namesrv) as bank:
            await bank.send_in_transaction(transfer, take_in_transaction)
    else:
        async with Producer("bank", namesrv=namesrv) as sender:
            if order == "database_first":
                take("transfer-1")
                step(1)
            await sender.send(transfer)
            step(1)
            take("transfer-1")
            step(2)


asyncio.run(main())
