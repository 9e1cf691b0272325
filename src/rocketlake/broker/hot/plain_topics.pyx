"""The topics of plain sends, found by the bytes of their names.

Owns        what a kernel knows of a topic, until topics change.
Must not know   which topics take plain sends (rights/send.py), requests, records.

Kernel: Cython without a Python form, a part of plain_send.pyx and plain_end.pyx; their tests test it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from rocketlake.codec.property_scan cimport Slice
from rocketlake.codec.record_run cimport RunTopic

__all__ = ["PlainTopic", "PlainTopics"]

cdef enum:
    MULTI_TAGS = 2


cdef class PlainTopic:
    """A topic that takes plain sends.

    `queues`: queue ids are below it; consumers read those below `read_queues`. `sys_flag`: bits its messages get.
    """

    def __init__(self, str name, int queues, int read_queues, bint is_multi_tag):
        self.run_topic = RunTopic(name)
        self.queues = queues
        self.read_queues = read_queues
        self.sys_flag = MULTI_TAGS if is_multi_tag else 0


cdef class PlainTopics:
    """Keeps what it has found until `forget`. `find(name)` gives the PlainTopic, or None while sends to the topic are
    not plain."""

    def __init__(self, find):
        self._find = find
        self._known = {}

    def forget(self):
        """A topic was made, changed or deleted."""
        self._known.clear()
        self._last = None

    cdef PlainTopic find(self, Slice name):
        """The topic of this ASCII name, or None."""
        cdef PlainTopic topic = self._last
        if topic is not None and PyBytes_GET_SIZE(topic.run_topic.encoded) == name.size and memcmp(
            PyBytes_AS_STRING(topic.run_topic.encoded), name.at, name.size
        ) == 0:
            return topic
        cdef bytes encoded = PyBytes_FromStringAndSize(<const char*>name.at, name.size)
        found = self._known.get(encoded)
        if found is None:
            found = self._find(encoded.decode("ascii"))
            if found is None:
                return None
            self._known[encoded] = found
        self._last = found
        return found
