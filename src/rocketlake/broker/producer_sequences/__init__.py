"""Producer sequences: a batch that a producer sends again is not stored again.

Owns        which sequence number each producer reached in each queue.
Must not know   requests, the use of messages.   Start reading at table.py; why: docs/decisions/0010.
"""
