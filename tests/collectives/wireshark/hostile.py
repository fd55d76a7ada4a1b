"""Writes captures of one connection with frames that no libcoll writes: hostile.py FILE AUTH. For dissector.sh."""
import struct
import sys

HUGE = 2**64 - 1
FLAG, DATA = 2, 3
ALL_REDUCE, ALL_TO_ALL, COMM_CREATE = 1, 9, 101
DOUBLE, SUM, RING, PAIRWISE = 2, 1, 1, 2


def hello(rank, peer, auth):
    return struct.pack("<8I", 0x31546652, 5, rank, peer, 2, auth, 1, 1) + bytes(64)


def frame(kind, communicator, number, channel, body):
    head = struct.pack("<IIQQIIIII", 0x32436652, kind, communicator, number, channel, len(body), 0, 0, 0)
    return head + bytes(20) + body


def flag(communicator, number, sequence, count, kind, algorithm=0, counts=0, payload=b""):
    descriptor = struct.pack("<QQiiiiiIiI", sequence, count, kind, DOUBLE, SUM, 0, algorithm, counts, 0, 0)
    return frame(FLAG, communicator, number, 0, bytes(8) + descriptor + bytes(16) + payload)


def message(number, sequence, count):
    head = struct.pack("<IiQQ", 0x31744F50, DOUBLE, sequence, count)
    return frame(DATA, 9, number, 2, head + bytes(256 - len(head)))


FRAMES = [
    flag(1, 0, 1, 2, COMM_CREATE, payload=bytes([0, 1])),
    flag(1, 1, HUGE, HUGE, ALL_REDUCE, RING),
    frame(DATA, 1, 2, 0, bytes(524288)),
    message(3, HUGE, HUGE),
    frame(DATA, 9, 4, 2, bytes(1001)),
    frame(DATA, 9, 5, 2, bytes(1000)),
    flag(1, 6, 3, 5, ALL_TO_ALL, counts=PAIRWISE, payload=bytes(16)),
    # numbers of frames before, with less in them
    frame(FLAG, 1, 1, 0, b""),
    frame(DATA, 9, 3, 2, bytes(8)),
    flag(1, 6, 3, 5, ALL_TO_ALL, counts=PAIRWISE),
    frame(DATA, 1, 7, 0, b""),
    # more ranks than a job has: no communicator
    flag(2, 8, 1, 1, COMM_CREATE, payload=bytes(i % 65 for i in range(65))),
    frame(DATA, 2, 9, 0, bytes(8)),
]


def capture(path, auth):
    sequences = [1, 1]
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101))

        def packet(sender, flags, data=b""):
            tcp = struct.pack(">HHIIBBHHH", 40000 + sender, 40001 - sender, sequences[sender],
                              sequences[1 - sender], 5 << 4, flags, 65535, 0, 0) + data
            loopback = b"\x7f\0\0\1"
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, loopback, loopback) + tcp
            file.write(struct.pack("<IIII", 0, 0, len(ip), len(ip)) + ip)
            sequences[sender] += len(data) + (flags >> 1 & 1)

        packet(0, 0x02)
        packet(1, 0x12)
        packet(0, 0x10)
        for sender, data in [(0, hello(0, 1, auth)), (1, hello(1, 0, auth))] + [(0, one) for one in FRAMES]:
            for at in range(0, len(data), 60000):
                packet(sender, 0x18, data[at:at + 60000])


capture(sys.argv[1], int(sys.argv[2]))
