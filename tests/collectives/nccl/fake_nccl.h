/* Between the two files of the fake NCCL: what a group of calls is, and where ranks meet. */
#ifndef TEST_COLL_FAKE_NCCL_H
#define TEST_COLL_FAKE_NCCL_H

#include <stdint.h>

#include "fake_common.h"
#include "fake_gpu.h"

enum { FAKE_NCCL_CALLS_MAX = 64 };

typedef enum fake_call_kind {
    FAKE_CALL_ALL_REDUCE,
    FAKE_CALL_REDUCE,
    FAKE_CALL_REDUCE_SCATTER,
    FAKE_CALL_ALL_GATHER,
    FAKE_CALL_BROADCAST,
    FAKE_CALL_ALL_TO_ALL,
    FAKE_CALL_SEND,
    FAKE_CALL_RECEIVE,
} fake_call_kind;

typedef struct fake_call {
    fake_call_kind kind;
    const uint8_t *send;
    uint8_t *recv;
    size_t count;
    size_t element_bytes;
    ncclRedOp_t op;
    ncclDataType_t type;
    int peer;      /* or root */
    uint8_t *sent; /* a copy of what this rank gives, while the calls are done */
    size_t sent_bytes;
} fake_call;

typedef struct fake_call_list {
    ncclComm_t comm;
    bool hangs;
    int count;
    fake_call calls[FAKE_NCCL_CALLS_MAX];
} fake_call_list;

/* From one rank to another. */
typedef struct fake_letter {
    struct fake_letter *next;
    uint8_t bytes[];
} fake_letter;

typedef struct fake_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived;
    unsigned round;
    bool broken;
    fake_call_list *lists[FAKE_NCCL_RANKS_MAX];
    fake_letter *mail[FAKE_NCCL_RANKS_MAX][FAKE_NCCL_RANKS_MAX]; /* from, to */
    struct fake_world *next;
} fake_world;

struct fake_nccl_comm {
    fake_gpu *gpu;
    fake_world *world;
    int rank;
    int size;
    int polls_left; /* until it is no longer in progress */
    bool hangs;
    ncclResult_t error;
    atomic_bool aborted;
    struct fake_nccl_comm *next; /* of all that were made */
};

/* A group on its stream: argument is a fake_call_list. fake_nccl_run.c */
void fake_nccl_run_group(void *argument);

#endif
