# C types of property_scan.pyx, for the kernels that read property texts.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr


cdef struct Slice:
    const uint8_t* at
    Py_ssize_t size


cdef struct PropertyMarks:
    # The values of a property text that broker and store use; a slice without bytes: the text has no such property.
    Slice unique_key
    Slice keys
    Slice tags
    Slice wait
    Slice sequence
    bint is_special  # it has a property that does not leave a send plain


cdef enum:
    # Of ParkMarks.time: what it counts.
    DELAY_SECONDS = 1
    DELAY_MS = 2
    DELIVER_MS = 3


cdef struct ParkMarks:
    # The properties that make a half message or ask for a time, and those that name a parked message's target. They
    # leave a send plain only where they are asked for.
    Slice prepared
    Slice group
    Slice transaction_id
    Slice topic
    Slice queue_id
    Slice time
    int time_kind
    bint is_stored  # it has a property that a broker has added


cdef enum:
    NAME_END = 1
    VALUE_END = 2


cdef inline const uint8_t* pair_end(const uint8_t* at, const uint8_t* end, const uint8_t** name_end) noexcept nogil:
    """Where the pair at `at` ends: at its VALUE_END, or at `end`. `name_end`: its first NAME_END, NULL without one.

    Names are short: the loop over one has ended before a call of memchr has begun.
    """
    cdef const uint8_t* stop
    name_end[0] = NULL
    while at < end and at[0] != NAME_END:
        if at[0] == VALUE_END:
            return at
        at += 1
    if at == end:
        return end
    name_end[0] = at
    stop = <const uint8_t*>memchr(at, VALUE_END, end - at)
    return end if stop == NULL else stop


cdef inline bint read_digits(Slice text, int64_t* number) noexcept nogil:
    """Read a number of 1 to 18 digits."""
    cdef Py_ssize_t position
    number[0] = 0
    for position in range(min(text.size, 18)):
        if not c"0" <= text.at[position] <= c"9":
            return False
        number[0] = 10 * number[0] + text.at[position] - c"0"
    return 0 < text.size <= 18


cdef bint is_plain_name(const uint8_t* name, Py_ssize_t size) noexcept
cdef bint read_marks(
    const uint8_t* text, Py_ssize_t size, bint unique_names, PropertyMarks* marks, ParkMarks* park
) noexcept
