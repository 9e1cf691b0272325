"""One async function per request: address and values in, typed result out, refusals as RemoteError.

Owns        which header and body a request takes and what its answer codes mean.
Must not know   routes, groups, retries.   Start reading at send.py.
"""
