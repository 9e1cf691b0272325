"""The sink with deliveryGuarantee = exactly_once: half messages, and one decision a batch.

Owns        the way of a batch from its half messages over its decision to its ends.
Must not know   rows, Spark's classes.   Start reading at batch.py, then journal.py; docs/decisions/0047.
"""
