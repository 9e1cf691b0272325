"""One simulated run from one seed: traffic under faults, healing, the wait for everything to arrive, the final look.

Owns        the life of a run, the randomness of the process while it runs.
Must not know   how nodes die (nodes.py), the schedule of faults (faults.py), the messages (workload.py), the rules
                (checks.py).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from unittest import mock

from rocketlake.base.clock import ManualClock
from rocketlake.testing import checks
from rocketlake.testing.faults import Faults
from rocketlake.testing.history import History
from rocketlake.testing.plan import Plan
from rocketlake.testing.simulated_cluster import Cluster
from rocketlake.testing.virtual_time import run_virtual

__all__ = ["run_seed"]


def run_seed(seed: int) -> History:
    """One run; its problems are the rules that it broke. Equal seeds give equal event logs."""

    async def run() -> History:
        cluster = Cluster(Plan.of(seed), clock)
        history = cluster.history
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: history.problem(f"{context['message']}: {context.get('exception')!r}")
        )
        try:
            await _live(cluster)
        except Exception as error:  # the events tell more than the traceback
            history.problem(f"the run ended with {error!r}")
        return history

    clock = ManualClock()
    before = random.getstate()
    # Clients and brokers draw from the generator of `random`, so the run seeds it. The process id goes into unique
    # keys,
    # and their hashes into the key index, so it is fixed, too.
    random.seed(seed)
    try:
        with mock.patch.object(os, "getpid", lambda: seed):
            return run_virtual(run(), clock)
    finally:
        random.setstate(before)


async def _live(cluster: Cluster) -> None:
    """The life of a run, from the first start to the last stop."""
    await cluster.start()
    looking = asyncio.ensure_future(cluster.look())
    sending = [asyncio.ensure_future(sender.run()) for sender in cluster.senders]
    faults = Faults(cluster)
    await faults.happen()
    await faults.heal()
    await cluster.everything_arrives(sending)
    checks.check_stored(cluster.history, checks.read_all(cluster.running(), cluster.history))
    checks.check_key_order(cluster.history)
    for task in (looking, *sending):
        task.cancel()
    await cluster.stop()
    for broker in cluster.brokers:
        broker.audit()


def main() -> None:
    """`python -m rocketlake.testing.simulation SEED`: print the events, then the problems."""
    history = run_seed(int(sys.argv[1]))
    print("\n".join((*history.events, *history.problems)))
    sys.exit(bool(history.problems))


if __name__ == "__main__":
    main()
