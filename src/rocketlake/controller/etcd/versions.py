"""Which versions of etcd are used.

Owns        the oldest version, those whose members can diverge, the reasons.
Must not know   the network.
"""

from __future__ import annotations

import re

__all__ = ["refused_version"]

_OLDEST = (3, 4, 23)
_DIVERGING = ((3, 5, 0), (3, 5, 3))
"""From the first, before the second."""


def refused_version(text: str, *, unsafe_versions: bool) -> str:
    """Why a member of this version is not used; "" if it is."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        return f"its version {text!r} cannot be read"
    version = tuple(int(part) for part in found.groups())
    if version < _OLDEST:
        return f"etcd {text} is too old: install 3.4.23 or newer"
    if _DIVERGING[0] <= version < _DIVERGING[1] and not unsafe_versions:
        return (
            f"etcd {text} is not used: members of 3.5.0 to 3.5.2 can diverge after a crash, and two controllers would"
            " decide differently: install 3.5.3 or newer"
        )
    return ""
