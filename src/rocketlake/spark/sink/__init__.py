"""The sink of format("rocketmq"): rows become messages.

Owns        everything between Spark's Arrow batches and the brokers' answers.
Must not know   how topics are read.   Start reading at task.py.
"""
