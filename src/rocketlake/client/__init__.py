"""Producers and consumers that speak RocketMQ's remoting protocol, to our broker or to Apache's.

Owns        retries, routes in use, rebalance, what a consumer has in hand.
Must not know   the broker, the store.   Start reading at producer/producer.py, then consumer/push.py.
"""
