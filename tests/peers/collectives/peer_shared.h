/* What the ranks of one library share: a file mapped by all, with a gate, the command at hand, and
 * every rank's samples. Works across network namespaces, and for every launcher. */
#ifndef PEER_SHARED_H
#define PEER_SHARED_H

#include "../../../collectives/bench/gate.h"
#include "peer.h"

enum { PEER_SAMPLES_MAX = 4096 };

typedef struct peer_samples {
    uint64_t begin[PEER_SAMPLES_MAX]; /* ticks */
    uint64_t end[PEER_SAMPLES_MAX];
    uint64_t wrong;
} peer_samples;

typedef struct peer_shared {
    bench_gate gate;
    _Alignas(128) _Atomic uint32_t command_number; /* a futex */
    char command[256];
    int batch; /* operations in a loop */
    int iterations;
    uint8_t exchange[PEER_RANKS_MAX][PEER_EXCHANGE_BYTES_MAX];
    peer_samples samples[PEER_RANKS_MAX];
} peer_shared;

/* Maps directory/shared, which the first rank to come makes. */
peer_shared *peer_shared_open(const char *directory);

/* Waits, asleep, until the command's number is no longer `seen`; the new number. */
uint32_t peer_shared_wait_command(peer_shared *shared, uint32_t seen);
void peer_shared_post_command(peer_shared *shared, const char *command);

#endif
