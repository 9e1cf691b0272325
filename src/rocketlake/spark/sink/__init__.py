"""The sink of format("rocketmq"): rows become messages.

Owns        the way from Spark's Arrow batches to the brokers' answers.
Must not know   how topics are read.   Start reading at task.py.
"""
