"""RocketMQ for PySpark, in Python, no jar.

Owns        the formats that Spark users name.
Must not know   broker, name server, the store's writers.   Start reading at data_source.py, then
                source/stream_reader.py.
"""
