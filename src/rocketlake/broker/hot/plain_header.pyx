"""Headers of plain requests, read without an object per field; for the kernels of the broker.

Owns        which headers are plain: regular, ASCII, as every known client writes them.
Must not know   request codes, the meaning of the fields.

Kernel: Cython without a Python form. protocol/frame.py, header_binary.py and header_json.py are the truth: they read,
or refuse, each header that is not plain. The tests of the kernels that use this one test it:
tests/parity/test_plain_sends.py, test_plain_pulls.py, test_plain_requests.py.
"""

from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketlake.codec.name_set cimport NameSet
from rocketlake.codec.property_scan cimport Slice
from rocketlake.protocol.plain_fields import PASSED_FIELDS

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8(str text) except NULL

cdef enum:
    BINARY_START_BYTES = 17

cdef NameSet _passed = NameSet(PASSED_FIELDS)


cdef bint may_pass(Slice name) noexcept:
    """True if a request with a field of this name may be plain although its kernel does not read the field."""
    return _passed.has(name.at, name.size)


cdef bint find_frame(
    const uint8_t* at, const uint8_t* end, int64_t frame_max, int64_t header_max, Frame* frame
) noexcept:
    """Find the parts of the frame at `at`; False if the frame is not whole, or its lengths are odd or too large."""
    cdef int64_t total
    if end - at < PREFIX_BYTES:
        return False
    total = int32(at)
    if total < 4 or total > frame_max or total > end - at - 4 or at[4] > 1:
        return False
    frame.size = 4 + total
    frame.is_binary = at[4] == 1
    frame.header = at + PREFIX_BYTES
    frame.header_size = int32(at + 4) & 0xFFFFFF
    frame.body = frame.header + frame.header_size
    frame.body_size = total - 4 - frame.header_size
    return frame.body_size >= 0 and frame.header_size <= header_max


cdef bint has_code(Frame* frame, int64_t code, int64_t other) noexcept:
    """False if the start of the header shows another request code than these two."""
    cdef const uint8_t* at = frame.header
    cdef int64_t found = 0
    if frame.header_size < BINARY_START_BYTES:
        return True
    if frame.is_binary:
        found = int16(at)
    elif memcmp(at, b'{"code":', 8) == 0:  # Java's is the first member
        at += 8
        while at < frame.body and c"0" <= at[0] <= c"9" and found < 100_000:
            found = 10 * found + (at[0] - c"0")
            at += 1
    else:
        return True
    return found == code or found == other


cdef int read_header(Frame* frame, Head* head, Field* fields, uint8_t* scratch) noexcept:
    """Read the header of a frame; returns its number of fields (at most FIELDS_MAX), -1 if the header is not plain.

    `scratch` has the size of the header: the value of a JSON field "i" is unescaped into it. With NULL a header with
    escapes is not plain.
    """
    if frame.is_binary:
        return _read_binary(frame.header, frame.header_size, head, fields)
    return _read_json(frame.header, frame.header + frame.header_size, head, fields, scratch)


cdef bint read_number(Slice text, Py_ssize_t digits_max, int64_t* number) noexcept:
    """Read a decimal number: no plus sign, no leading zero. A number of up to 10 digits must fit an int32."""
    cdef Py_ssize_t position = 0
    cdef int64_t value = 0
    cdef bint is_negative = text.size > 0 and text.at[0] == c"-"
    if is_negative:
        position = 1
    if not 0 < text.size - position <= digits_max or (text.at[position] == c"0" and text.size > 1):
        return False
    while position < text.size:
        if not c"0" <= text.at[position] <= c"9":
            return False
        value = 10 * value + (text.at[position] - c"0")
        position += 1
    number[0] = -value if is_negative else value
    return digits_max > 10 or -2147483648 <= number[0] <= 2147483647


cdef bint read_int(Slice text, int32_t* number) noexcept:
    """Read a number that fits an int32."""
    cdef int64_t read
    if not read_number(text, INT_DIGITS, &read):
        return False
    number[0] = <int32_t>read
    return True


cdef str as_text(Slice text, str known):
    """ASCII text as a str; `known` itself if it says the same."""
    if known is not None and len(known) == text.size:
        if memcmp(PyUnicode_AsUTF8(known), text.at, text.size) == 0:
            return known
    return PyUnicode_DecodeASCII(<const char*>text.at, text.size, NULL)


cdef int _read_binary(const uint8_t* header, Py_ssize_t size, Head* head, Field* fields) noexcept:
    cdef Py_ssize_t at, end, name_size, value_size
    cdef const uint8_t* name
    cdef int seen = 0, count = 0
    cdef bint is_ascii
    if size < BINARY_START_BYTES + 4 or int32(header + 13) != 0:  # no remark
        return -1
    head.code = int16(header)
    head.opaque = int32(header + 5)
    head.flag = int32(header + 9)
    head.is_binary = True
    at = BINARY_START_BYTES + 4
    end = at + int32(header + BINARY_START_BYTES)
    if end < at or end > size:
        return -1
    is_ascii = _is_ascii(header + at, end - at)  # with the lengths: most often none of their bytes is above 127
    while at < end:
        seen += 1
        if end - at < 6 or seen > FIELDS_MAX:
            return -1
        name_size = int16(header + at)
        name = header + at + 2
        at += 2 + name_size
        if name_size <= 0 or end - at < 4:
            return -1
        value_size = int32(header + at)
        if value_size < 0 or value_size > end - at - 4:
            return -1
        if not is_ascii and not (_is_ascii(name, name_size) and _is_ascii(header + at + 4, value_size)):
            return -1
        if value_size:  # a field without a value counts as absent
            fields[count].name.at = name
            fields[count].name.size = name_size
            fields[count].value.at = header + at + 4
            fields[count].value.size = value_size
            count += 1
        at += 4 + value_size
    return count


cdef int _read_json(const uint8_t* at, const uint8_t* end, Head* head, Field* fields, uint8_t* scratch) noexcept:
    """Read a header as every known client writes it: one object without blanks; only the properties may hold
    escapes."""
    cdef Slice name, value
    cdef int64_t version
    cdef int count = 0
    head.code = head.flag = head.opaque = -1
    head.is_binary = False
    if at == end or at[0] != c"{":
        return -1
    at += 1
    while True:
        at = _json_string(at, end, &name, NULL)
        if at == NULL or at == end or at[0] != c":":
            return -1
        at += 1
        if same(name, b"extFields", 9):
            at = _read_json_fields(at, end, fields, &count, scratch)
            if at == NULL:
                return -1
        elif at < end and at[0] == c'"':
            if not (same(name, b"language", 8) or same(name, b"serializeTypeCurrentRPC", 23)):
                return -1
            at = _json_string(at, end, &value, NULL)
            if at == NULL:
                return -1
        else:
            value.at = at
            while at < end and (c"0" <= at[0] <= c"9" or at[0] == c"-"):
                at += 1
            value.size = at - value.at
            if same(name, b"code", 4):
                if not read_number(value, INT_DIGITS, &head.code):
                    return -1
            elif same(name, b"flag", 4):
                if not read_number(value, INT_DIGITS, &head.flag):
                    return -1
            elif same(name, b"opaque", 6):
                if not read_number(value, INT_DIGITS, &head.opaque):
                    return -1
            elif same(name, b"version", 7):
                if not read_number(value, INT_DIGITS, &version):
                    return -1
            else:
                return -1
        if at < end and at[0] == c",":
            at += 1
        else:
            break
    # An opaque below 0 is written with a sign; such a request takes the ordinary path.
    return count if end - at == 1 and at[0] == c"}" and head.flag >= 0 and head.opaque >= 0 else -1


cdef const uint8_t* _read_json_fields(
    const uint8_t* at, const uint8_t* end, Field* fields, int* count, uint8_t* scratch
) noexcept:
    cdef Field* field
    if at == end or at[0] != c"{" or count[0]:  # or a second extFields
        return NULL
    at += 1
    if at < end and at[0] == c"}":
        return at + 1
    while count[0] < FIELDS_MAX:
        field = &fields[count[0]]
        at = _json_string(at, end, &field.name, NULL)
        if at == NULL or at == end or at[0] != c":":
            return NULL
        # Only the properties of a send may hold escapes: their separators are control characters.
        at = _json_string(at + 1, end, &field.value, scratch if same(field.name, b"i", 1) else NULL)
        if at == NULL:
            return NULL
        count[0] += 1
        if at < end and at[0] == c",":
            at += 1
        else:
            return at + 1 if at < end and at[0] == c"}" else NULL
    return NULL


cdef const uint8_t* _json_string(const uint8_t* at, const uint8_t* end, Slice* text, uint8_t* scratch) noexcept:
    """Read a string; returns where it ends, NULL if it is odd. One with escapes is unescaped into `scratch`; without
    `scratch` it is odd."""
    cdef const uint8_t* start
    cdef Py_ssize_t size = 0
    cdef uint8_t unit
    cdef int high, low
    if at == end or at[0] != c'"':
        return NULL
    at += 1
    start = at
    while at < end and at[0] != c'"' and at[0] != c"\\":
        if at[0] < 0x20 or at[0] >= 0x80:
            return NULL
        at += 1
    if at == end:
        return NULL
    if at[0] == c'"':
        text.at = start
        text.size = at - start
        return at + 1
    if scratch == NULL:
        return NULL
    size = at - start
    memcpy(scratch, start, size)
    while at < end and at[0] != c'"':
        unit = at[0]
        if unit < 0x20 or unit >= 0x80:
            return NULL
        at += 1
        if unit == c"\\":
            if at == end:
                return NULL
            unit = at[0]
            at += 1
            if unit == c"u":
                if end - at < 4 or at[0] != c"0" or at[1] != c"0":
                    return NULL
                high = _hex(at[2])
                low = _hex(at[3])
                if high < 0 or high > 7 or low < 0:
                    return NULL
                unit = <uint8_t>(high * 16 + low)
                at += 4
            elif unit == c"n":
                unit = c"\n"
            elif unit == c"t":
                unit = c"\t"
            elif unit == c"r":
                unit = c"\r"
            elif unit != c'"' and unit != c"\\" and unit != c"/":
                return NULL
        scratch[size] = unit
        size += 1
    if at == end:
        return NULL
    text.at = scratch
    text.size = size
    return at + 1


cdef inline int _hex(uint8_t digit) noexcept nogil:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    if c"a" <= digit <= c"f":
        return digit - c"a" + 10
    if c"A" <= digit <= c"F":
        return digit - c"A" + 10
    return -1


cdef bint _is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef uint8_t bits = 0
    cdef Py_ssize_t position
    for position in range(size):
        bits |= text[position]
    return bits < 0x80
