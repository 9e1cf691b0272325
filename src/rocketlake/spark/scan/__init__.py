"""Store files as Spark tables, without a broker: ours or Apache's, live or copied, never written to.

Owns        format("rocketmq_store").
Must not know   brokers, the network, how a store is written.   Start reading at data_source.py, then plan.py and
                log_read.py.
"""
