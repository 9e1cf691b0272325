"""Registers: where the states of the groups are kept, one interface and several homes.

Owns        reading, compare-and-set and watching of keys in memory, in a file, and in services beside us.
Must not know   what the values mean.
"""
