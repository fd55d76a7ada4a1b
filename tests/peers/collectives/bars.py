"""Where the libraries are compared, at which sizes, and by how much ours is to be faster."""

import collections

OURS = "ringfence"
FLOOR = "floor"  # no peer: the same with no library around it (floor.h)
SCANS = ("scan", "exscan")  # with no floor and no bar
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "alltoall") + SCANS
K, M = 1 << 10, 1 << 20

# memory: what ours gets ("arena" or "heap"; peers always have the heap). transport: what ours is told.
# ours: further options of our program. congestion: the congestion control that sockets begin with in the
# namespaces; None: as on this system.
Place = collections.namedtuple("Place", "name title ranks memory transport network peers kinds sizes bars ours "
                               "congestion", defaults=((), None))
# factor None: shown without a verdict. peers None: the best of all.
Bar = collections.namedtuple("Bar", "factor peers against")

MPI = ("openmpi", "mpich", "impi")
GLOO = ("gloo", "gloo-busy")
SIZES = (4, 8, 64, 128, 256, K, 4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M)
CROWDED = (4, 4 * K, 64 * K, M, 16 * M, 64 * M)
REMOTE = (4, 64, K, 4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M)

# (largest size, factor against the best peer): the first line that a size fits in.
ARENA = ((64, 1.5), (256, 1.3), (K, 1.6), (4 * K, 2.5), (16 * K, 3.5), (256 * K, 3), (M, 4), (16 * M, 5),
         (64 * M, 2.5))
ORDINARY = ((16 * K, 1.5), (64 * K - 1, 1.0), (64 * M, 1.2))
MANY = ((64, 1.4), (4 * K, 1.8), (64 * K - 1, None), (64 * M, 3))
OTHER_KINDS = ((64 * M, 1.3),)


def host(name, ranks, memory, sizes, lines):
    where = "memory in an arena" if memory == "arena" else "ordinary pointers"
    kinds = KINDS if ranks == 2 else KINDS[:1]
    return Place(name, f"{ranks} ranks on one host, {where}", ranks, memory, "shm", "host", MPI + (FLOOR,),
                 kinds, sizes, lines)


def remote(name, transport, title, peers, kinds=KINDS, ours=(), congestion=None):
    return Place(name, title, 2, "heap", transport, "namespaces", peers + (FLOOR,), kinds, REMOTE, None,
                 ours, congestion)


PLACES = {place.name: place for place in (
    host("host2-arena", 2, "arena", SIZES, ARENA),
    host("host2-ordinary", 2, "heap", SIZES, ORDINARY),
    host("host4-arena", 4, "arena", CROWDED, MANY),
    host("host4-ordinary", 4, "heap", CROWDED, MANY),
    host("host8-arena", 8, "arena", CROWDED[:-1], MANY),
    host("host8-ordinary", 8, "heap", CROWDED[:-1], MANY),
    remote("tcp2", "tcp", "tcp between two network namespaces", GLOO + ("openmpi-tcp",)),
    remote("tcp2-off", "tcp", "tcp between two network namespaces, our frames without a MAC",
           GLOO[1:] + ("openmpi-tcp",), KINDS[:1], ("--tcp-auth", "off")),
    remote("tcp2-reno", "tcp", "tcp between two network namespaces, reno as the system's congestion control",
           GLOO + ("openmpi-tcp",), congestion="reno"),
    remote("tcp2-reno-off", "tcp", "the same, our frames without a MAC", GLOO[1:] + ("openmpi-tcp",), KINDS[:1],
           ("--tcp-auth", "off"), "reno"),
    remote("zmq2", "zmq", "zmq with CURVE against gloo, between two network namespaces", GLOO[:1]),
    remote("zmq2-off", "zmq", "zmq without CURVE against gloo, between two network namespaces", GLOO[:1],
           ours=("--tcp-auth", "off")),
)}


def bars_of(place, kind, size):
    """The bars of one cell; always one at least, so that the ratio is shown."""
    if place.transport == "zmq":
        return [Bar(1.0, GLOO[:1], "gloo's default")]
    if kind in SCANS:
        return [Bar(None, None, "best peer")]
    if kind != "all_reduce":
        return [Bar(1.3, None, "best peer")]
    if place.transport == "tcp":
        if size <= 4 * K:
            return [Bar(4.0, GLOO[1:], "gloo, busy-poll"), Bar(1.5, ("openmpi-tcp",), "Open MPI")]
        return [Bar(1.3 if size >= 64 * K else None, None, "best peer")]
    for largest, factor in place.bars:
        if size <= largest:
            return [Bar(factor, None, "best peer")]
    return [Bar(None, None, "best peer")]


def sizes_of(place, kind, sizes):
    """Every rank has a block of at least one element."""
    least = 4 if kind in ("all_reduce", "broadcast") + SCANS else 4 * place.ranks
    return sorted({max(size, least) for size in sizes})
