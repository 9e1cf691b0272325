"""The register in etcd: decisions kept by compare-and-set in a cluster of etcd members, over its HTTP/JSON gateway.

Owns        the client of etcd: connections, codes, deadlines over all members, accounts, the watch.
Must not know   groups and brokers: it keeps bytes under keys.
"""
