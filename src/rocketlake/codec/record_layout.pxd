# The record layout for compiled code: its numbers and how bytes are read and written. `record_layout.py` has the same
# numbers for Python; tests/parity/test_record_layout.py compares the two.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    MAGIC_V1 = 0xDAA320A7
    MAGIC_V2 = 0xDAA320AB
    MAGIC_BLANK = 0xCBD43194

cdef enum:
    MAGIC_AT = 4
    CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_MS_AT = 40
    BORN_HOST_AT = 48
    STORE_MS_AT = 56  # with an IPv4 born host
    BODY_LENGTH_AT = 84  # with IPv4 hosts
    BODY_AT = 88
    RECORD_BYTES_MIN = 91
    BLANK_BYTES = 8
    HOST_BYTES_V4 = 8
    HOST_BYTES_V6 = 20
    HOST_V6_MORE = 12
    TOPIC_BYTES_MAX_V1 = 127
    TOPIC_BYTES_MAX = 32767
    PROPERTIES_BYTES_MAX = 32767
    BATCH_HEAD_BYTES = 20
    BATCH_ENTRY_BYTES_MIN = 22

# Bits of the system flag (model/sys_flag.py).
cdef enum:
    BORN_HOST_V6 = 16
    STORE_HOST_V6 = 32
    INNER_BATCH = 128

# Entry of a consume queue (store/consume_queue/entry.py).
cdef enum:
    ENTRY_SIZE = 20
    FILLER_SIZE = 0x7FFFFFFF

cdef extern from *:
    """
    #ifndef ROCKETLAKE_RECORD_LAYOUT
    #define ROCKETLAKE_RECORD_LAYOUT
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the kernels are written for little-endian machines; without them RocketLake takes the ordinary path"
    #endif
    #define ROCKETLAKE_QUEUE_OFFSET_MAX (INT64_MAX / 20)
    static inline uint16_t load16(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }
    static inline uint32_t load32(const unsigned char *at) {
        uint32_t big; __builtin_memcpy(&big, at, 4); return __builtin_bswap32(big);
    }
    static inline uint64_t load64(const unsigned char *at) {
        uint64_t big; __builtin_memcpy(&big, at, 8); return __builtin_bswap64(big);
    }
    static inline void store32(unsigned char *at, long long value) {
        uint32_t big = __builtin_bswap32((uint32_t)value); __builtin_memcpy(at, &big, 4);
    }
    static inline void store64(unsigned char *at, long long value) {
        uint64_t big = __builtin_bswap64((uint64_t)value); __builtin_memcpy(at, &big, 8);
    }
    #endif
    """
    uint16_t load16(const uint8_t* at) noexcept nogil
    uint32_t load32(const uint8_t* at) noexcept nogil
    uint64_t load64(const uint8_t* at) noexcept nogil
    void store32(uint8_t* at, int64_t value) noexcept nogil
    void store64(uint8_t* at, int64_t value) noexcept nogil
    int64_t QUEUE_OFFSET_MAX "ROCKETLAKE_QUEUE_OFFSET_MAX"
