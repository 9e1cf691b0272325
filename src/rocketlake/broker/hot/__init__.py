"""The second path: plain sends and pulls of one received chunk, served together by kernels.

Owns        which requests are plain, how a run of them is served.
Must not know   rules that the ordinary path (processors/) does not have.
Start reading at    send_runs.py, pull_runs.py; docs/internals/hot_path.md
"""
