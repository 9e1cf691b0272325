# C types of frame.py. Lengths are 64 bits wide: a lying 32-bit length cannot overflow a sum.
import cython

from rocketlake.protocol.command cimport Command

cdef class FrameReader:
    cdef public long long frame_bytes_max
    cdef public long long header_bytes_max
    cdef public object error
    cdef bytearray _pending
    cdef long long _needed
    cdef long long _to_skip

    cpdef list feed(self, data)

    @cython.locals(skipped=cython.longlong)
    cpdef bytes gather(self, data)

    @cython.locals(frames=list, end=cython.longlong, total=cython.longlong,
                   kind=cython.longlong, header_size=cython.longlong, frame_end=cython.longlong,
                   body_at=cython.longlong)
    cpdef list cut(self, bytes data, long long position=*)

    cdef object _refusal(self, long long total, long long kind, long long header_size)

@cython.locals(kind=cython.longlong, command=Command)
cpdef Command decode_frame(tuple frame, limits=*)

@cython.locals(header=bytes, kind=cython.longlong, body=list, header_size=cython.longlong, total=cython.longlong,
               prefix=bytes)
cpdef list encode_command(Command command, codec=*)

cdef list _body_buffers(Command command)
