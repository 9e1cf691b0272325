"""The wing of a planned change of role without a controller.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.dispatch_table import takeover_rows
from rocketlake.broker.processors.change_role import ChangeRole
from rocketlake.broker.replicas.master_calls import MasterCalls
from rocketlake.broker.replicas.taken_role import TakenRole
from rocketlake.broker.replicas.takeover import Followed, Roles, Takeover
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.copies import Copies
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.replicas import Replicas
from rocketlake.broker.wings.wing import Wing

__all__ = ["TakeoverWing"]


class TakeoverWing(Wing):
    """Runs in both roles, of a broker without a controller."""

    def __init__(self, ground: Ground, cluster: Cluster, copies: Copies, replicas: Replicas, roles: Roles) -> None:
        super().__init__("takeover", ground.clock)
        store, config = ground.store, ground.config.now
        self._role = ground.role
        self._worker = ground.seams.workers("takeover")
        self.taken = TakenRole(ground.table_path("takenRole.json"), ground.seams.files, config.broker_id)

        def followed() -> Followed:
            status = replicas.follower.status()
            return Followed(cluster.master.address, status.master if status.is_connected else "")

        takeover = Takeover(
            role=ground.role,
            roles=roles,
            taken=self.taken,
            calls=MasterCalls(cluster.net, lambda: ground.role.broker_id),
            copy_tables=copies.tables_of_master.copy_once,
            log_end=lambda: store.max_physical_offset,
            copied_end=lambda: min([slave.ack for slave in replicas.leader.slaves()], default=0),
            kept_end=lambda: store.kept_end,
            sync_log=store.sync_soon,
            followed=followed,
            worker=self._worker,
            clock=ground.clock,
        )
        change = ChangeRole(takeover, ground.role, ground.clock)
        self.rows = tuple(takeover_rows(change))
        self.adopt(change)

    async def stop(self) -> None:
        """End a change of role that goes on: it leaves the role as it was, or as it is on disk."""
        await super().stop()
        await self._worker.close()

    def take_role(self) -> None:
        """Before the broker serves: the role that it had last. StoreError if its file makes no sense."""
        self._role.broker_id = self.taken.load()
