"""The proxy: RocketMQ's gRPC v2 service for the 5.x clients of every language, in a broker's process or in its own.

Owns        HTTP/2 and gRPC on a port of its own (http2/, server.py), what each call means (services/), how brokers are
            asked (cluster.py).
Must not know   the broker: it is asked by requests, like any other.
Start reading at    server.py
"""
