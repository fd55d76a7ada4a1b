/* The limits of libcoll, each with its unit. */
#ifndef COLL_SRC_LIMITS_H
#define COLL_SRC_LIMITS_H

#include <stdint.h>

#include "base/limits.h"

enum {
    COLL_RANKS_MAX = BASE_COLL_RANKS_MAX,    /* ranks of one context */
    COLL_FLAG_COUNT = 32,                    /* flags of a rank, used in turn */
    COLL_UNDERWAY_MAX = COLL_FLAG_COUNT / 2, /* operations of a communicator under way */
    COLL_FLAGS_KEPT = 4,                     /* flags to a peer that may wait to be coalesced */
    COLL_INLINE_BYTES_MAX = 16384,           /* payload that travels with a flag over sockets */
    COLL_TINY_BYTES = 56,                    /* payload that fits a flag */
    COLL_RECENT_OPS = 3,                   /* blocking operations kept ready beside the last one */
    COLL_CHANNELS = 3,                     /* independent streams from a rank to another, */
    COLL_CHANNEL_P2P = COLL_CHANNELS - 1,  /* of which the last is send and receive's */
    COLL_SCRATCH_KEPT_BYTES = 64 << 20,    /* of scratch that blocking calls keep for the next */
    COLL_CHUNK_BYTES = 32 * 1024,          /* one frame of a stream */
    COLL_STREAM_CREDITS = 8,               /* frames under way in one stream */
    COLL_NET_CHUNK_BYTES_MAX = 512 * 1024, /* one frame of a stream over sockets, at most, */
    COLL_NET_CREDITS = 4,                  /* and how many are under way */
    COLL_PIECE_BYTES = 256 * 1024,         /* work between two looks at the abort word, */
    COLL_MOVES_PER_LOOK = 16,              /* and pieces of it between two at the clock */
    COLL_PAST_CACHE_BYTES = 16 << 20,      /* copies so long are not to stay in the cache */
    COLL_ARENAS_MAX = 64,                  /* living arenas of a communicator */
    COLL_ARENAS_MADE_MAX = INT32_MAX,      /* arenas that a communicator ever makes, */
    COLL_COMMS_MADE_MAX = INT32_MAX,       /* and communicators of one list: 31 bits of an id */
    COLL_COMM_LISTS = 16,                  /* different lists of ranks in a context, at first */
    COLL_REASON_BYTES = 256,               /* abort reason, with the final NUL */
    COLL_SIZED_BYTES_MAX = 4096,           /* struct of a caller's that says its size */
    COLL_HOST_BYTES = 64,                  /* host name in messages, with the final NUL */
    COLL_FAILED_TEXT_BYTES = 252,          /* of why a rank cannot connect, with the final NUL */
    COLL_DESCRIBE_BYTES = 512,             /* coll_context_describe keeps this much */
    COLL_UNEXPECTED_MAX = COLL_RANKS_MAX + 64, /* flags for communicators not made here yet */
    COLL_GONE_MAX = 64, /* closed communicators that are distinguished from those */
};

/* Of shared memory. */
enum {
    COLL_SHM_SLOTS = 4,                   /* contributions of a rank that can be read at once */
    COLL_SHM_SLOT_BYTES = 16 * 1024,      /* the largest contribution that goes by a slot */
    COLL_SHM_COPY_BYTES = 2 * 1024,       /* up to here it does even if it lies in an arena */
    COLL_STAGING_BYTES = 2048 * 1024,     /* a rank's staging buffer, a ring of windows */
    COLL_WINDOW_BYTES = 512 * 1024,       /* the longest, */
    COLL_WINDOW_ONLY_BYTES = 1024 * 1024, /* where ranks share processors and it is the only one, */
    COLL_WINDOW_PIPE_BYTES = 16 * 1024,   /* and for a rank where bytes go one way */
    COLL_WINDOWS = 2,                     /* in the ring, */
    COLL_WINDOWS_PIPE = 8,                /* and where bytes go one way */
    COLL_SHM_SPINS_HOT = 16,              /* turns without a pause, */
    COLL_SHM_LOOKS = 32,                  /* in each, at one flag, */
    COLL_SHM_SPINS = 256,                 /* pauses before a blocking operation is queued */
    COLL_YIELDS_MIN = 32,                 /* before sleeping, where ranks outnumber processors */
    COLL_YIELDS_MAX = 128,
};

/* Of hosts that stop answering. */
enum {
    COLL_HOST_TIMEOUT_S = 15, /* silence of a host until its connections are lost, by default, */
    COLL_SILENCE_MAX_S = 24 * 3600, /* and the longest that idle connections are probed for */
    COLL_SILENCE_TRIES = 3,         /* to get an answer, in vain, at least */
    COLL_PROBES_IN_TIMEOUT = 5,     /* of an idle connection, after a third of the host timeout, */
    COLL_PROBES = 8,                /* and until the kernel ends it, should this rank not look */
    COLL_SILENCE_LOOK_MS = 500,     /* between two looks of a rank that waits */
};

_Static_assert(COLL_SILENCE_TRIES < COLL_PROBES_IN_TIMEOUT && COLL_PROBES_IN_TIMEOUT < COLL_PROBES,
               "a rank that waits finds a silent host before the kernel does, and says more");

/* At most half of the flags are under way. A rank that reuses the flag of operation s has finished
 * operation s + half. So every peer has started s + half, and has therefore finished s. */
_Static_assert(COLL_UNDERWAY_MAX * 2 <= COLL_FLAG_COUNT, "a flag would be reused too early");
_Static_assert(COLL_FLAGS_KEPT * 4 <= COLL_UNDERWAY_MAX, "flags kept back would be waited for");
_Static_assert(COLL_CHUNK_BYTES % 64 == 0, "chunks are whole cache lines");

#endif
