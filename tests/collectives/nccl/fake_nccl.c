/* The fake GPU's NCCL: non-blocking communicators whose groups of calls meet in host memory. The
 * last rank to come does the work of all. Sums are made from rank 0 upwards: an order of NCCL's
 * own, which is not ours. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fake_nccl.h"

enum { POLLS = 2 };

/* Ranks map the memory that ids travel through at different addresses: a checker of threads needs
 * to see what came first. */
static pthread_mutex_t handed_over = PTHREAD_MUTEX_INITIALIZER;
static fake_world *worlds; /* all that were made, */
static ncclComm_t comms;   /* with this lock: a stream may still be about to leave one */
static _Thread_local fake_call_list *group;
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
        for (int i = 0; i < FAKE_NCCL_RANKS_MAX * FAKE_NCCL_RANKS_MAX; i++) {
            while (world->mail[i / FAKE_NCCL_RANKS_MAX][i % FAKE_NCCL_RANKS_MAX] != NULL) {
                fake_letter *letter = world->mail[i / FAKE_NCCL_RANKS_MAX][i % FAKE_NCCL_RANKS_MAX];
                world->mail[i / FAKE_NCCL_RANKS_MAX][i % FAKE_NCCL_RANKS_MAX] = letter->next;
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
    fake_call_list *list = group;
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
    fake_stream_enqueue(group_stream, fake_nccl_run_group, list, sizeof *list);
    free(list);
    return ncclInProgress;
}

static ncclResult_t add(ncclComm_t comm, cudaStream_t stream, fake_call call)
{
    BASE_ASSERT(group != NULL && group->count < FAKE_NCCL_CALLS_MAX);
    call.element_bytes = fake_element_bytes(call.type);
    group->comm = comm;
    group_stream = stream;
    group->calls[group->count++] = call;
    return ncclSuccess;
}

#define ADD(...) add(comm, stream, (fake_call){.count = count, .type = type, __VA_ARGS__})

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_ALL_REDUCE, .send = send, .recv = recv, .op = op);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_REDUCE, .send = send, .recv = recv, .op = op, .peer = root);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_REDUCE_SCATTER, .send = send, .recv = recv, .op = op);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_ALL_GATHER, .send = send, .recv = recv);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_BROADCAST, .send = send, .recv = recv, .peer = root);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_ALL_TO_ALL, .send = send, .recv = recv);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_SEND, .send = send, .peer = peer);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return ADD(.kind = FAKE_CALL_RECEIVE, .recv = recv, .peer = peer);
}
