"""format("rocketmq") for PySpark, in Python, no jar.

Owns: options, columns, offsets and reads of the Spark source. Must not know: broker, name server, the store's writers.
Start reading at: data_source.py, then stream_reader.py.
"""
