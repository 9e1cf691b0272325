"""The wing that knows the rest of the cluster: registration with name servers, queues of other brokers.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.cluster.cluster_queues import ClusterQueues
from rocketlake.broker.cluster.group_members import GroupMembers
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.cluster.outbound import Outbound
from rocketlake.broker.cluster.registration import Registration
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.wing import Wing
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing

__all__ = ["Cluster"]


class Cluster(Wing):
    """Starts last, when all others can serve; stops first, so that clients turn away. `net` outlives it."""

    def __init__(self, ground: Ground) -> None:
        super().__init__("cluster", ground.clock)
        self.net = NetClient(
            ground.seams.limits,
            ground.clock,
            network=ground.seams.network,
            sign=signing(ground.accounts.credentials),
        )
        outbound = Outbound(self.net, ground.role.identity)
        self.master = KnownMaster(ground.role)
        self.registration = Registration(ground.config, ground.topics, outbound, self.master, ground.clock)
        self.queues = ClusterQueues(ground.config, ground.topics, outbound)
        self.members = GroupMembers(ground.config, outbound)
        self.adopt(self.registration)
