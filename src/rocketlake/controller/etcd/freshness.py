"""Freshness: which answers of members are too old to be believed.

Owns        the cluster's id, the term that each member has shown, the newest revision seen.
Must not know   the network, what the answers hold.

A member that was paused, cut off or restored from a backup answers with what it knew then; some versions do so even to
reads that should go by way of the leader. The term that counts is the one that a majority has shown: a member that is
cut off may count its own up without end.
"""

from __future__ import annotations

from rocketlake.controller.etcd.wire import Header

__all__ = ["Freshness"]

_MEMBERS_MAX = 64


class Freshness:
    """What one cluster has shown so far."""

    def __init__(self, member_count: int) -> None:
        self._majority = member_count // 2 + 1
        self._terms: dict[int, int] = {}
        self.cluster_id = 0
        """Of the first answer; 0 before it. A cluster that was restored from a backup has another one."""
        self.revision = 0
        """The newest revision of all answers."""

    def judge(self, header: Header, known_revision: int) -> str:
        """Why the answer is dropped; "" if it is fresh. `known_revision`: `revision` when the request was sent."""
        if not header.cluster_id:
            return "it does not name its cluster"
        if header.cluster_id != (self.cluster_id or header.cluster_id):
            return f"it belongs to another cluster, {header.cluster_id:x}, not to {self.cluster_id:x}"
        shown = self._terms.get(header.member_id, 0)
        if header.raft_term < shown:
            return f"its term went back from {shown} to {header.raft_term}"
        if header.raft_term < self._majority_term():
            return f"it is in term {header.raft_term}, a majority in {self._majority_term()}"
        if header.revision < known_revision:
            return f"it is at revision {header.revision}, {known_revision} was seen before"
        self._note(header)
        return ""

    def _note(self, header: Header) -> None:
        self.cluster_id = header.cluster_id
        self.revision = max(self.revision, header.revision)
        if len(self._terms) >= _MEMBERS_MAX and header.member_id not in self._terms:
            self._terms.clear()  # members come and go over the years
        self._terms[header.member_id] = header.raft_term

    def _majority_term(self) -> int:
        terms = sorted(self._terms.values(), reverse=True)
        return terms[self._majority - 1] if len(terms) >= self._majority else 0
