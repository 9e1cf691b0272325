"""How a message comes into the store: plain, marked by a producer sequence, or in a large batch.

Owns        the steps between a checked request and the store, and the answer that a sender gets after a failure.
Must not know   header fields, rights.
Start reading at    intake.py
"""
