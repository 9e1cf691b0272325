"""Owns the list of targets. Must not know   what they do."""

from __future__ import annotations

from tests.fuzz import disk_targets, server_targets, text_targets, wire_targets

TARGETS = {
    target.name: target
    for module in (wire_targets, text_targets, disk_targets, server_targets)
    for target in module.TARGETS
}
