"""The controller: it decides which broker of a group is the master, and which replicas are in step with it.

Owns        the state of each group, the decisions, the registers that keep them, the requests of brokers about them.
Must not know   stores, records, how brokers copy them.
"""
