"""Python clients under one load, each a program of its own. Owns: the same work written for each of them.

Must not know   each other, the harness: they are run as `python FILE WORK ADDRESS TOPIC WARM SECONDS` (WORK: send,
                batches, consume), the peers' by a Python that has nothing of ours. Last line printed: figures as JSON.
"""
