"""Stores of Apache's DLedger mode: their entries, and the conversion into an ordinary store.

Owns        the bytes of entries, the rules of what is taken over from such a store.
Must not know   groups and elections: the store of one member, stopped, is all that is read.
"""
