"""Layouts that network and disk share: a pull answer carries commit log records as they lie on disk.

Owns        records, batches, property text, hosts, compression.
Must not know   files, frames, clocks.
Start reading at    record.py, docs/internals/record.md
"""
