"""The second path of pops: plain pops, and plain acknowledgements, of one received chunk.

Owns        which of these requests are plain, how a run of them is served.
Must not know   rules that the ordinary path (processors/pop.py, processors/ack.py) does not have.
Start reading at    pop_runs.py, ack_runs.py; docs/internals/hot_path.md
"""
