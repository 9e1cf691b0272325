"""CRC-32 by folding: the body of each message is checked or summed, for which zlib before 1.3 takes ten times as long.

Owns        the sum of zlib's polynomial over a stretch of bytes.
Must not know   what the bytes are.

Kernel: Cython without a Python form; zlib is the truth (base/crc32.py takes it where this is not compiled).
The method is Intel's: carry-less multiplication folds 64 bytes at a time into 16 that have the same remainder.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

__all__ = ["crc32"]

cdef extern from *:
    """
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "this kernel is written for little-endian machines; without it RocketLake takes zlib"
    #endif

    /* CRC-32 of zlib's polynomial: eight bytes a step from tables, 64 bytes a step where the processor can fold. */
    static uint32_t crc_table[8][256];
    static uint32_t crc_step(uint32_t c) { return c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1; }

    static uint32_t crc_from_tables(uint32_t c, const unsigned char *data, Py_ssize_t size) {
        while (size >= 8) {
            uint32_t low, high;
            __builtin_memcpy(&low, data, 4);
            __builtin_memcpy(&high, data + 4, 4);
            low ^= c;
            c = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^ crc_table[5][low >> 16 & 0xFF]
              ^ crc_table[4][low >> 24] ^ crc_table[3][high & 0xFF] ^ crc_table[2][high >> 8 & 0xFF]
              ^ crc_table[1][high >> 16 & 0xFF] ^ crc_table[0][high >> 24];
            data += 8;
            size -= 8;
        }
        while (size-- > 0) c = crc_table[0][(c ^ *data++) & 0xFF] ^ (c >> 8);
        return c;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    static int can_fold;
    static long long fold_512[2], fold_128[2];

    /* The power x^bits modulo the polynomial, as a carry-less factor for reflected data. */
    static long long power_of_x(int bits) {
        uint32_t c = 0x80000000u;
        while (bits-- > 0) c = crc_step(c);
        return (long long)c << 1;
    }

    __attribute__((target("pclmul,sse2")))
    static __m128i folded(__m128i block, __m128i by, __m128i next) {
        __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), next);
    }

    /* 64 bytes and more are folded into 16 that have the same remainder; the tables do the rest. */
    __attribute__((target("pclmul,sse2")))
    static uint32_t crc_by_folding(uint32_t c, const unsigned char *data, Py_ssize_t size) {
        const __m128i *at = (const __m128i *)data;
        const __m128i by_512 = _mm_loadu_si128((const __m128i *)fold_512);
        const __m128i by_128 = _mm_loadu_si128((const __m128i *)fold_128);
        __m128i a = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int)c));
        __m128i b = _mm_loadu_si128(at + 1), d = _mm_loadu_si128(at + 2), e = _mm_loadu_si128(at + 3);
        unsigned char rest[16];
        for (at += 4, size -= 64; size >= 64; at += 4, size -= 64) {
            a = folded(a, by_512, _mm_loadu_si128(at));
            b = folded(b, by_512, _mm_loadu_si128(at + 1));
            d = folded(d, by_512, _mm_loadu_si128(at + 2));
            e = folded(e, by_512, _mm_loadu_si128(at + 3));
        }
        a = folded(folded(folded(a, by_128, b), by_128, d), by_128, e);
        _mm_storeu_si128((__m128i *)rest, a);
        return crc_from_tables(crc_from_tables(0, rest, 16), (const unsigned char *)at, size);
    }
    #endif

    static void make_crc_tables(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t c = n;
            for (int k = 0; k < 8; k++) c = crc_step(c);
            crc_table[0][n] = c;
        }
        for (uint32_t n = 0; n < 256; n++)
            for (int k = 1; k < 8; k++)
                crc_table[k][n] = crc_table[0][crc_table[k - 1][n] & 0xFF] ^ (crc_table[k - 1][n] >> 8);
    #if defined(__x86_64__) && defined(__GNUC__)
        can_fold = __builtin_cpu_supports("pclmul");
        fold_512[0] = power_of_x(4 * 128 + 32);
        fold_512[1] = power_of_x(4 * 128 - 32);
        fold_128[0] = power_of_x(128 + 32);
        fold_128[1] = power_of_x(128 - 32);
    #endif
    }

    static uint32_t crc_of(const unsigned char *data, Py_ssize_t size) {
    #if defined(__x86_64__) && defined(__GNUC__)
        if (size >= 64 && can_fold) return ~crc_by_folding(0xFFFFFFFFu, data, size);
    #endif
        return ~crc_from_tables(0xFFFFFFFFu, data, size);
    }
    """
    void make_crc_tables() noexcept nogil
    uint32_t crc_of(const uint8_t* data, Py_ssize_t size) noexcept nogil

make_crc_tables()


cdef uint32_t checksum_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """The CRC-32 of so many bytes."""
    return crc_of(data, size)


def crc32(data):
    """zlib.crc32 of any contiguous buffer."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    cdef uint32_t found = crc_of(<const uint8_t*>buffer.buf, buffer.len)
    PyBuffer_Release(&buffer)
    return found
