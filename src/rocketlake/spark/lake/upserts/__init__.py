"""Tables that are kept up to date by key.

Owns        the newest row of each key, deletes that are remembered, the rewriting of hash buckets.
Must not know   formats: a batch is one commit of the table, which takes old files out and puts new ones in.
"""
