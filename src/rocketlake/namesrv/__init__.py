"""The name server: it knows which broker serves which topic.

Owns        routes, broker liveness, KV settings, the requests about them.
Must not know   stores, messages, consumers.
Start reading at    route_table.py
"""
