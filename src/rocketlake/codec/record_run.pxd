# C types of record_run.pyx, for the modules that fill a run.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketlake.codec.property_scan cimport PropertyMarks


cdef struct Record:
    const uint8_t* body
    const uint8_t* born_host
    Py_ssize_t body_size
    Py_ssize_t properties_at  # in the run's own text
    Py_ssize_t properties_size
    Py_ssize_t first_key  # its key index entries, numbers into the run's hashes
    Py_ssize_t keys
    int64_t born_ms
    int64_t tag_code
    int64_t physical_offset
    int64_t queue_offset
    int64_t prepared_offset  # of its half message; 0 for a message without one
    Py_ssize_t size
    int part
    int32_t flag
    int32_t sys_flag
    int32_t reconsume_times


cdef struct Part:
    # The records of one queue.
    int topic
    int32_t queue_id
    Py_ssize_t count
    Py_ssize_t first  # number of its first entry
    int64_t queue_offset  # of its first record


cdef Py_ssize_t put_number(uint8_t* target, int64_t value) noexcept


cdef class RunTopic:
    cdef readonly str name
    cdef readonly bytes encoded
    cdef uint32_t hash_start


cdef class RecordRun:
    cdef readonly long long physical_offset
    cdef readonly long long size
    cdef readonly long long store_ms
    cdef Py_ssize_t count

    cdef bytes _born_host
    cdef const uint8_t* _born_at
    cdef Py_ssize_t _born_bytes
    cdef bytes _store_host
    cdef list _topics
    cdef list _queues
    cdef list _sources
    cdef Record* records
    cdef Py_ssize_t _room
    cdef Part* _parts
    cdef Py_ssize_t _part_count
    cdef Py_ssize_t _part_room
    cdef uint8_t* text
    cdef Py_ssize_t _text_size
    cdef Py_ssize_t _text_room
    cdef int64_t* _hashes
    cdef Py_ssize_t _hash_count
    cdef Py_ssize_t _hash_room
    cdef bytes _entries

    cdef int keep(self, object source) except -1
    cdef int set_born_host(self, const uint8_t* host, Py_ssize_t size) except -1
    cdef int add_topic(self, RunTopic topic) except -1
    cdef Py_ssize_t add_text(self, const uint8_t* text, Py_ssize_t size) except -1
    cdef Py_ssize_t repeat_text(self, Py_ssize_t text_at, Py_ssize_t size) except -1
    cdef Py_ssize_t _make_room(self, Py_ssize_t size) except -1
    cdef int add(self, int topic, int32_t queue_id, int32_t flag, int32_t sys_flag, int32_t reconsume_times,
                 int64_t born_ms, const uint8_t* body, Py_ssize_t body_size, Py_ssize_t properties_at,
                 Py_ssize_t properties_size, PropertyMarks* marks) except -1
    cdef int _part(self, int topic, int32_t queue_id) except -1
    cdef int _add_hash(self, uint32_t hash_start, const uint8_t* key, Py_ssize_t size) except -1
    cdef int _add_words(self, uint32_t hash_start, const uint8_t* keys, Py_ssize_t size) except -1
    cdef int _number_records(self) except -1
    cdef int _encode_entries(self) except -1
