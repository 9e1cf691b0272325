"""format("rocketmq") read: topics as batches and streams.

Owns        options, offsets, planning and reads.
Must not know   how records become rows (spark/columns.py), the sink.   Start reading at stream_reader.py, then
                range_read.py.
"""
