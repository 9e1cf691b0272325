# C types of chains.py. Slots and numbers of entries fit 32 bits; positions, hashes and sums are 64 bits wide.
import cython

cdef long long _HEADER_SIZE, _ENTRY_WORDS, _CELL_WORDS, _ROW_MAX, _STEP_MAX, _PAGE, _PAGE_BITS, _PIECE_PAGES
cdef unsigned long long _MIX, _LOW_WORD
cdef long long _SIGN
cdef bint _SWAPS

cdef class NewEntries:
    cdef public long long row_count
    cdef public long long waiting
    cdef long long _slots
    cdef const unsigned char[::1] _view
    cdef unsigned char[::1] _held
    cdef long long _waiting_max
    cdef object _row
    cdef unsigned int[::1] _words
    cdef long long _mask
    cdef long long _pages
    cdef int[::1] _cells
    cdef int[::1] _firsts
    cdef long long _used_pages
    cdef int[::1] _leaving
    cdef int[::1] _leaving_firsts
    cdef long long _leaving_pages
    cdef long long _leaving_left
    cdef long long _page

    @cython.locals(
        data=cython.longlong[::1], row=cython.uint[::1], at=cython.longlong, used=cython.longlong,
        index=cython.longlong, hash_code=cython.longlong, physical=cython.longlong, slot=cython.longlong,
        previous=cython.longlong,
    )
    cpdef long long put(self, pairs, long long begin, long long end, long long number, long long seconds) except -1

    @cython.locals(number=cython.longlong)
    cpdef long long head(self, long long slot, long long count) except -1

    @cython.locals(
        cells=cython.int[::1], found=cython.longlong, previous=cython.longlong, page=cython.longlong,
        following=cython.int,
    )
    cdef long long _exchange(self, long long slot, long long number) except? -2

    @cython.locals(number=cython.longlong, position=cython.longlong)
    cdef long long _settled(self, long long slot, long long count) except -1

    cpdef begin_leaving(self)
    cpdef bytes row(self)
    cpdef row_written(self)

    @cython.locals(
        first=cython.longlong, begin=cython.longlong, end=cython.longlong, page=cython.longlong, start=cython.longlong,
        stop=cython.longlong,
    )
    cpdef tuple piece(self)

    @cython.locals(
        leaving=cython.int[::1], page=cython.longlong, cell=cython.longlong, at=cython.longlong,
        number=cython.longlong, position=cython.longlong,
    )
    cdef _patch(self, unsigned char[::1] target, long long begin, long long first)

    @cython.locals(first=cython.longlong, page=cython.longlong)
    cpdef piece_written(self)

    @cython.locals(page=cython.longlong)
    cdef long long _skipped(self) except -1

    @cython.locals(page=cython.longlong)
    cdef long long _behind(self, long long first) except -1

cdef long long _page_of(long long slot) noexcept

@cython.locals(at=cython.longlong)
cdef long long _probe(int[::1] cells, long long mask, long long slot) except -1

@cython.locals(
    data=cython.uint[::1], newest=cython.int[::1], slots=cython.longlong, number=cython.longlong,
    seconds=cython.longlong, used=cython.longlong, at=cython.longlong, is_changed=cython.bint,
    hash_code=cython.longlong, high=cython.longlong, after=cython.longlong, physical=cython.longlong,
    slot=cython.longlong, size=cython.longlong,
)
cpdef tuple link_entries(
    bytes entries, long long first, long long last_physical, long long end_physical, heads
)
