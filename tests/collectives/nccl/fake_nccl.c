/* The fake GPU's NCCL: non-blocking communicators whose groups of calls meet in host memory. The
 * last rank to come does the work of all. Sums are made from rank 0 upwards: an order of NCCL's
 * own, which is not ours. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fake_gpu.h"

enum { RANKS_MAX = 8, CALLS_MAX = 64, POLLS = 2 };

typedef enum call_kind {
    CALL_ALL_REDUCE,
    CALL_REDUCE,
    CALL_REDUCE_SCATTER,
    CALL_ALL_GATHER,
    CALL_BROADCAST,
    CALL_ALL_TO_ALL,
    CALL_SEND,
    CALL_RECEIVE,
} call_kind;

typedef struct fake_call {
    call_kind kind;
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

typedef struct call_list {
    ncclComm_t comm;
    bool hangs;
    int count;
    fake_call calls[CALLS_MAX];
} call_list;

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
    call_list *lists[RANKS_MAX];
    fake_letter *mail[RANKS_MAX][RANKS_MAX]; /* from, to */
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

/* Ranks map the memory that ids travel through at different addresses: a checker of threads needs
 * to see what came first. */
static pthread_mutex_t handed_over = PTHREAD_MUTEX_INITIALIZER;
static fake_world *worlds; /* all that were made, */
static ncclComm_t comms;   /* with this lock: a stream may still be about to leave one */
static _Thread_local call_list *group;
static _Thread_local cudaStream_t group_stream;

/* ---- communicators ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (fake_gpu_now()->id_result != ncclSuccess) {
        return fake_gpu_now()->id_result;
    }
    fake_world *world = calloc(1, sizeof *world);
    BASE_ASSERT(world != NULL);
    (void)pthread_mutex_lock(&handed_over);
    (void)pthread_mutex_init(&world->lock, NULL);
    (void)pthread_cond_init(&world->changed, NULL);
    world->next = worlds;
    worlds = world;
    (void)pthread_mutex_unlock(&handed_over);
    memcpy(id->internal, &world, sizeof world);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm_out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct fake_nccl_comm *comm = calloc(1, sizeof *comm);
    BASE_ASSERT(comm != NULL && config->blocking == 0);
    memcpy(&comm->world, id.internal, sizeof comm->world);
    (void)pthread_mutex_lock(&handed_over);
    comm->next = comms;
    comms = comm;
    (void)pthread_mutex_unlock(&handed_over);
    comm->gpu = fake_gpu_now();
    comm->rank = rank;
    comm->size = ranks;
    comm->polls_left = POLLS;
    comm->hangs = comm->gpu->init_hangs;
    fake_gpu_count(1);
    *comm_out = comm;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = comm->error;
    if (comm->error == ncclSuccess && (comm->hangs || comm->polls_left > 0)) {
        comm->polls_left--;
        *error = ncclInProgress;
    }
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->polls_left = POLLS;
    comm->hangs = comm->gpu->finalize_hangs;
    return ncclInProgress;
}

void fake_nccl_reset(void)
{
    while (comms != NULL) {
        ncclComm_t comm = comms;
        comms = comm->next;
        free(comm);
    }
    while (worlds != NULL) {
        fake_world *world = worlds;
        worlds = world->next;
        for (int i = 0; i < RANKS_MAX * RANKS_MAX; i++) {
            while (world->mail[i / RANKS_MAX][i % RANKS_MAX] != NULL) {
                fake_letter *letter = world->mail[i / RANKS_MAX][i % RANKS_MAX];
                world->mail[i / RANKS_MAX][i % RANKS_MAX] = letter->next;
                free(letter);
            }
        }
        (void)pthread_cond_destroy(&world->changed);
        (void)pthread_mutex_destroy(&world->lock);
        free(world);
    }
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    (void)atomic_fetch_add(&comm->gpu->destroyed, 1);
    fake_gpu_count(-1);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)atomic_fetch_add(&comm->gpu->aborted, 1);
    (void)pthread_mutex_lock(&comm->world->lock);
    comm->world->broken = true;
    atomic_store(&comm->aborted, true);
    (void)pthread_cond_broadcast(&comm->world->changed);
    (void)pthread_mutex_unlock(&comm->world->lock);
    fake_gpu_count(-1);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError ? "unhandled system error" : "an error of the fake NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the fake's last error";
}

ncclResult_t ncclMemAlloc(void **memory, size_t size_bytes)
{
    return cudaMalloc(memory, size_bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    (void)cudaFree(memory);
    return ncclSuccess;
}

/* ---- what calls do ---- */

/* How many parts of `count` elements a call gives on this rank. */
static int parts_given(const fake_call *call, int rank, int size)
{
    switch (call->kind) {
    case CALL_REDUCE_SCATTER:
    case CALL_ALL_TO_ALL:
        return size;
    case CALL_SEND:
    case CALL_RECEIVE:
        return 0;
    case CALL_BROADCAST:
        return rank == call->peer ? 1 : 0;
    default:
        return 1;
    }
}

static void add_up(uint8_t *to, const uint8_t *from, const fake_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->type == ncclFloat32) {
            ((float *)(void *)to)[i] += ((const float *)(const void *)from)[i];
        } else {
            ((uint32_t *)(void *)to)[i] += ((const uint32_t *)(const void *)from)[i]; /* wraps */
        }
    }
}

static void reduce(const fake_world *world, int size, int index, size_t offset, uint8_t *to)
{
    const fake_call *first = &world->lists[0]->calls[index];
    const size_t bytes = first->count * first->element_bytes;
    uint8_t *sum = malloc(bytes);
    BASE_ASSERT(sum != NULL && first->op == ncclSum);
    memcpy(sum, first->sent + offset, bytes);
    for (int rank = 1; rank < size; rank++) {
        add_up(sum, world->lists[rank]->calls[index].sent + offset, first);
    }
    memcpy(to, sum, bytes);
    free(sum);
}

static void do_call(const fake_world *world, int rank, int size, int index)
{
    const fake_call *call = &world->lists[rank]->calls[index];
    const size_t bytes = call->count * call->element_bytes;
    switch (call->kind) {
    case CALL_ALL_REDUCE:
        reduce(world, size, index, 0, call->recv);
        break;
    case CALL_REDUCE:
        if (rank == call->peer) {
            reduce(world, size, index, 0, call->recv);
        }
        break;
    case CALL_REDUCE_SCATTER:
        reduce(world, size, index, (size_t)rank * bytes, call->recv);
        break;
    case CALL_BROADCAST:
        memcpy(call->recv, world->lists[call->peer]->calls[index].sent, bytes);
        break;
    case CALL_ALL_GATHER:
        for (int r = 0; r < size; r++) {
            memcpy(call->recv + (size_t)r * bytes, world->lists[r]->calls[index].sent, bytes);
        }
        break;
    case CALL_ALL_TO_ALL:
        for (int r = 0; r < size; r++) {
            memcpy(call->recv + (size_t)r * bytes,
                   world->lists[r]->calls[index].sent + (size_t)rank * bytes, bytes);
        }
        break;
    case CALL_RECEIVE:
    case CALL_SEND:
        break;
    }
}

/* What each rank gives is copied first: buffers may be in place. */
static void do_all(fake_world *world, int size)
{
    for (int pass = 0; pass < 3; pass++) {
        for (int rank = 0; rank < size; rank++) {
            for (int i = 0; i < world->lists[rank]->count; i++) {
                fake_call *call = &world->lists[rank]->calls[i];
                call->sent_bytes =
                    (size_t)parts_given(call, rank, size) * call->count * call->element_bytes;
                if (pass == 0) {
                    call->sent = malloc(call->sent_bytes + 1);
                    BASE_ASSERT(call->sent != NULL);
                    if (call->sent_bytes > 0) {
                        memcpy(call->sent, call->send, call->sent_bytes);
                    }
                } else if (pass == 1) {
                    do_call(world, rank, size, i);
                } else {
                    free(call->sent);
                }
            }
        }
    }
}

/* Sends go at once, as far as the sender can tell. */
static void post_sends(const call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    for (int i = 0; i < list->count; i++) {
        const fake_call *call = &list->calls[i];
        const size_t bytes = call->count * call->element_bytes;
        if (call->kind != CALL_SEND) {
            continue;
        }
        fake_letter *letter = malloc(sizeof *letter + bytes);
        BASE_ASSERT(letter != NULL);
        letter->next = NULL;
        memcpy(letter->bytes, call->send, bytes);
        fake_letter **end = &comm->world->mail[comm->rank][call->peer];
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = letter;
    }
    (void)pthread_cond_broadcast(&comm->world->changed);
}

static void await_receives(const call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    for (int i = 0; i < list->count; i++) {
        const fake_call *call = &list->calls[i];
        if (call->kind != CALL_RECEIVE) {
            continue;
        }
        fake_letter **first = &world->mail[call->peer][comm->rank];
        while (*first == NULL && !atomic_load(&comm->aborted)) {
            (void)pthread_cond_wait(&world->changed, &world->lock);
        }
        fake_letter *letter = *first;
        if (letter != NULL) {
            memcpy(call->recv, letter->bytes, call->count * call->element_bytes);
            *first = letter->next;
            free(letter);
        }
    }
}

static bool has_collectives(const call_list *list)
{
    bool has = false;
    for (int i = 0; i < list->count; i++) {
        has = has || (list->calls[i].kind != CALL_SEND && list->calls[i].kind != CALL_RECEIVE);
    }
    return has;
}

static void meet(call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    const unsigned round = world->round;
    world->lists[comm->rank] = list;
    if (++world->arrived == comm->size && !world->broken) {
        do_all(world, comm->size);
        world->arrived = 0;
        world->round++;
        (void)pthread_cond_broadcast(&world->changed);
    }
    while (world->round == round && !atomic_load(&comm->aborted)) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
}

/* A rank that has neither of the two in a group takes no part in it. */
static void run_group(void *argument)
{
    call_list *list = argument;
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    (void)pthread_mutex_lock(&world->lock);
    while (list->hangs && !atomic_load(&comm->aborted)) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
    if (!atomic_load(&comm->aborted)) {
        post_sends(list);
        if (has_collectives(list)) {
            meet(list);
        }
        await_receives(list);
    }
    (void)pthread_mutex_unlock(&world->lock);
}

/* ---- groups ---- */

ncclResult_t ncclGroupStart(void)
{
    BASE_ASSERT(group == NULL);
    group = calloc(1, sizeof *group);
    BASE_ASSERT(group != NULL);
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    call_list *list = group;
    group = NULL;
    if (list->count == 0) {
        free(list);
        return ncclSuccess;
    }
    struct fake_nccl_comm *comm = list->comm;
    fake_gpu *gpu = comm->gpu;
    const int number = ++gpu->groups;
    BASE_ASSERT(comm->polls_left <= 0); /* the last one had come to its end */
    comm->polls_left = POLLS;
    comm->hangs = number == gpu->group_hangs_at;
    comm->error = number == gpu->async_error_at ? ncclSystemError : ncclSuccess;
    if (number == gpu->group_fails_at) {
        free(list);
        return ncclInternalError;
    }
    list->hangs = number == gpu->run_hangs_at || comm->hangs || comm->error != ncclSuccess;
    fake_stream_enqueue(group_stream, run_group, list);
    return ncclInProgress;
}

static ncclResult_t add(ncclComm_t comm, cudaStream_t stream, fake_call call)
{
    static const size_t bytes[] = {[ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,
                                   [ncclInt64] = 8,   [ncclUint64] = 8,  [ncclFloat16] = 2,
                                   [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2};
    BASE_ASSERT(group != NULL && group->count < CALLS_MAX);
    call.element_bytes = bytes[call.type];
    group->comm = comm;
    group_stream = stream;
    group->calls[group->count++] = call;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, stream,
               (fake_call){.kind = CALL_ALL_REDUCE,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .type = type,
                           .op = op});
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, stream,
               (fake_call){.kind = CALL_REDUCE,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .type = type,
                           .op = op,
                           .peer = root});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, stream,
               (fake_call){.kind = CALL_REDUCE_SCATTER,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .type = type,
                           .op = op});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return add(
        comm, stream,
        (fake_call){
            .kind = CALL_ALL_GATHER, .send = send, .recv = recv, .count = count, .type = type});
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, stream,
               (fake_call){.kind = CALL_BROADCAST,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .type = type,
                           .peer = root});
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return add(
        comm, stream,
        (fake_call){
            .kind = CALL_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .type = type});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add(
        comm, stream,
        (fake_call){.kind = CALL_SEND, .send = send, .count = count, .type = type, .peer = peer});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(comm, stream,
               (fake_call){
                   .kind = CALL_RECEIVE, .recv = recv, .count = count, .type = type, .peer = peer});
}
