"""HTTP/1.1: a link to a server (etcd's), and a small server for metrics and health.

Owns        requests and answers of both sides, by the library h11; the limits on what a peer may send and hold.
Must not know   brokers, name servers, controllers.
"""
