"""How a consumer's read is done once it is admitted: the read, the waiting, what it leaves behind, the answer.

Owns        the steps between a pull that was admitted and the store, shared by the ordinary path and by runs.
Must not know   the checks before a read (rights/), how records are found.
Start reading at    queue_reads.py
"""
