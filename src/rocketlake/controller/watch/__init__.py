"""The watch over masters: who is heard, who is suspected, how another master comes into office.

Owns        heartbeats, suspicion, probes, the start of an election, the notices about its result.
Must not know   the rules of choice (controller/election.py), the requests of brokers.
"""
