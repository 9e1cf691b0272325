"""How a message comes into the store: plain, marked by a producer sequence, or in a large batch.

Owns        the steps between a request that was checked and the store, and what a sender is told of a failure.
Must not know   header fields, rights.
Start reading at    intake.py
"""
