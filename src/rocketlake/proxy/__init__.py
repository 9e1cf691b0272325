"""The gRPC v2 interface that the 5.x clients speak.

Owns        its messages (v2/) and what they mean in RocketMQ's own terms (convert/).
Must not know   Spark.
"""
