/* The NCCL backend's communicators, and its table. Part of the plugin: plugin.c names the table. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl/nccl_core.h"

enum { UUID_BYTES = 16, UUID_TEXT_BYTES = 48, RANKS_MAX = 64, CLOSE_STEP_NS = 200000 };

coll_status coll_nccl_fail(coll_error *reterr, coll_status status, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        reterr->status = status;
        (void)vsnprintf(reterr->message, sizeof reterr->message, format, args);
        va_end(args);
    }
    return status;
}

coll_status coll_nccl_check(const coll_nccl_comm *comm, ncclResult_t result, const char *what,
                            coll_error *reterr)
{
    if (result == ncclSuccess || result == ncclInProgress) {
        return COLL_OK;
    }
    const char *more = comm != NULL && comm->comm != NULL ? ncclGetLastError(comm->comm) : NULL;
    return coll_nccl_fail(reterr, result == ncclRemoteError ? COLL_ERR_PEER : COLL_ERR_IO,
                          "%s: %s%s%s", what, ncclGetErrorString(result),
                          more != NULL && more[0] != '\0' ? ": " : "", more != NULL ? more : "");
}

coll_status coll_nccl_cuda(cudaError_t result, const char *what, coll_error *reterr)
{
    return result == cudaSuccess
               ? COLL_OK
               : coll_nccl_fail(
                     reterr, result == cudaErrorMemoryAllocation ? COLL_ERR_MEMORY : COLL_ERR_IO,
                     "%s: CUDA error %d (%s)", what, (int)result, cudaGetErrorString(result));
}

coll_status coll_nccl_ended(cudaError_t result, const char *what, bool *done, coll_error *reterr)
{
    *done = result == cudaSuccess;
    if (result == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* the runtime keeps it for whoever asks next */
        return COLL_OK;
    }
    return coll_nccl_cuda(result, what, reterr);
}

int coll_nccl_version(void)
{
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

/* ---- which GPUs ---- */

typedef struct gpu_record {
    uint8_t uuid[UUID_BYTES];
    int32_t status; /* cudaError_t */
    int32_t device;
    char name[32];
} gpu_record;

static void uuid_text(const uint8_t uuid[UUID_BYTES], char text[UUID_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, UUID_TEXT_BYTES, "GPU-");
    for (int i = 0; i < UUID_BYTES; i++) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, UUID_TEXT_BYTES - used, "%s%02x", dash ? "-" : "",
                                 uuid[i]);
    }
}

static void read_gpu(int device, gpu_record *gpu)
{
    struct cudaDeviceProp properties;
    *gpu = (gpu_record){.device = device};
    gpu->status = (int32_t)cudaSetDevice(device);
    if (gpu->status == (int32_t)cudaSuccess) {
        gpu->status = (int32_t)cudaGetDeviceProperties(&properties, device);
    }
    if (gpu->status == (int32_t)cudaSuccess) {
        memcpy(gpu->uuid, &properties.uuid, UUID_BYTES);
        (void)snprintf(gpu->name, sizeof gpu->name, "%.31s", properties.name);
    }
}

/* Every rank looks at the same records, so every rank finds the same fault. */
static coll_status check_gpus(const gpu_record *gpus, int count, const coll_nccl_options *options,
                              coll_error *reterr)
{
    char text[UUID_TEXT_BYTES];
    for (int rank = 0; rank < count; rank++) {
        if (gpus[rank].status != (int32_t)cudaSuccess) {
            return coll_nccl_fail(reterr, COLL_ERR_IO,
                                  "rank %d cannot use GPU %d: CUDA error %d (%s)", rank,
                                  (int)gpus[rank].device, (int)gpus[rank].status,
                                  cudaGetErrorString((cudaError_t)gpus[rank].status));
        }
        for (int other = 0; other < rank && !options->shares_gpu; other++) {
            if (memcmp(gpus[rank].uuid, gpus[other].uuid, UUID_BYTES) == 0) {
                uuid_text(gpus[rank].uuid, text);
                return coll_nccl_fail(reterr, COLL_ERR_INVALID,
                                      "ranks %d and %d use the same GPU, %s (%s): each rank needs "
                                      "one of its own",
                                      other, rank, text, gpus[rank].name);
            }
        }
        if (!options->mixes_cards && strcmp(gpus[rank].name, gpus[0].name) != 0) {
            return coll_nccl_fail(reterr, COLL_ERR_INVALID,
                                  "rank 0 has a %s, rank %d a %s: the slowest would decide, and "
                                  "sums of different kinds may differ, unless that is asked for",
                                  gpus[0].name, rank, gpus[rank].name);
        }
    }
    return COLL_OK;
}

static coll_status exchange_gpus(const coll_backend_open_args *args, coll_error *reterr)
{
    const coll_nccl_options *options = args->user;
    gpu_record mine;
    gpu_record all[RANKS_MAX];
    read_gpu(options->device, &mine);
    const coll_status status =
        args->exchange(args->exchange_user, &mine, all, sizeof mine, args->deadline_ns, reterr);
    return status == COLL_OK ? check_gpus(all, args->rank_count, options, reterr) : status;
}

/* ---- beginning ---- */

typedef struct id_record {
    ncclUniqueId id;
    int32_t result; /* ncclResult_t, of rank 0 */
} id_record;

static coll_status exchange_id(const coll_backend_open_args *args, ncclUniqueId *id,
                               coll_error *reterr)
{
    id_record all[RANKS_MAX];
    id_record mine = {.result = 0};
    if (args->rank == 0) {
        mine.result = (int32_t)ncclGetUniqueId(&mine.id);
    }
    const coll_status status =
        args->exchange(args->exchange_user, &mine, all, sizeof mine, args->deadline_ns, reterr);
    if (status != COLL_OK) {
        return status;
    }
    *id = all[0].id;
    return coll_nccl_check(NULL, (ncclResult_t)all[0].result, "rank 0: ncclGetUniqueId", reterr);
}

static void release(void *comm_)
{
    coll_nccl_comm *comm = comm_;
    if (comm->notes.progress != NULL) {
        (void)cudaFreeHost(comm->notes.progress);
    }
    if (comm->notes.numbers != NULL) {
        (void)cudaFree(comm->notes.numbers);
    }
    free(comm);
}

static coll_status alloc_progress(coll_nccl_comm *comm, coll_error *reterr)
{
    void *progress = NULL;
    const coll_status status =
        coll_nccl_cuda(cudaHostAlloc(&progress, sizeof *comm->notes.progress, cudaHostAllocMapped),
                       "pinned memory", reterr);
    if (status == COLL_OK) {
        memset(progress, 0, sizeof *comm->notes.progress);
        comm->notes.progress = progress;
    }
    return status;
}

static coll_status open_comm(const coll_backend_open_args *args, void **made, coll_error *reterr)
{
    const coll_nccl_options *options = args->user;
    if (options == NULL || options->size != sizeof *options || args->rank_count > RANKS_MAX) {
        return coll_nccl_fail(reterr, COLL_ERR_INVALID, "no options, or too many ranks");
    }
    ncclUniqueId id;
    coll_status status = exchange_gpus(args, reterr);
    if (status == COLL_OK) {
        status = exchange_id(args, &id, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    coll_nccl_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) {
        return coll_nccl_fail(reterr, COLL_ERR_MEMORY, "no memory for a communicator");
    }
    comm->rank = args->rank;
    comm->size = args->rank_count;
    comm->device = options->device;
    comm->alone = comm->size == 1 && !options->calls_alone;
    status = alloc_progress(comm, reterr);
    if (status == COLL_OK) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        status = coll_nccl_check(
            NULL, ncclCommInitRankConfig(&comm->comm, comm->size, id, comm->rank, &config),
            "ncclCommInitRankConfig", reterr);
    }
    if (status != COLL_OK) {
        release(comm);
        return status;
    }
    *made = comm;
    return COLL_OK;
}

static coll_status poll_comm(void *comm_, bool *ready, coll_error *reterr)
{
    coll_nccl_comm *comm = comm_;
    *ready = false;
    for (;;) {
        ncclResult_t state = ncclSuccess;
        coll_status status = coll_nccl_check(comm, ncclCommGetAsyncError(comm->comm, &state),
                                             "ncclCommGetAsyncError", reterr);
        if (status == COLL_OK) {
            status = coll_nccl_check(comm, state, "NCCL", reterr);
        }
        if (status != COLL_OK || state == ncclInProgress) {
            return status;
        }
        if (!comm->under_way) {
            *ready = true;
            return COLL_OK;
        }
        bool done = false;
        status = coll_nccl_advance(comm, &done, reterr);
        if (status != COLL_OK) {
            return status;
        }
        comm->under_way = !done;
    }
}

static coll_status is_idle(void *comm, void *stream, bool *done, coll_error *reterr)
{
    (void)comm;
    return coll_nccl_ended(cudaStreamQuery(stream), "the stream", done, reterr);
}

static uint64_t read_busy_ns(const void *comm_)
{
    const coll_nccl_comm *comm = comm_;
    return __atomic_load_n(&comm->notes.progress->busy_ns, __ATOMIC_ACQUIRE);
}

static void read_progress(const void *comm_, uint64_t *started, uint64_t *finished)
{
    const coll_nccl_comm *comm = comm_;
    *finished = __atomic_load_n(&comm->notes.progress->finished, __ATOMIC_ACQUIRE);
    *started = __atomic_load_n(&comm->notes.progress->started, __ATOMIC_ACQUIRE);
}

/* ---- end ---- */

static void abort_comm(void *comm_)
{
    const coll_nccl_comm *comm = comm_;
    (void)cudaSetDevice(comm->device); /* of this thread */
    (void)ncclCommAbort(comm->comm);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static coll_status close_comm(void *comm_, int64_t deadline_ns, coll_error *reterr)
{
    const coll_nccl_comm *comm = comm_;
    static const struct timespec step = {.tv_nsec = CLOSE_STEP_NS};
    ncclResult_t state = ncclInProgress;
    (void)cudaSetDevice(comm->device);
    coll_status status =
        coll_nccl_check(comm, ncclCommFinalize(comm->comm), "ncclCommFinalize", reterr);
    while (status == COLL_OK && state == ncclInProgress && now_ns() < deadline_ns) {
        status = coll_nccl_check(comm, ncclCommGetAsyncError(comm->comm, &state),
                                 "ncclCommGetAsyncError", reterr);
        if (status == COLL_OK && state == ncclInProgress) {
            (void)nanosleep(&step, NULL);
        }
    }
    if (status == COLL_OK && state == ncclInProgress) {
        status = coll_nccl_fail(reterr, COLL_ERR_TIMEOUT,
                                "ncclCommFinalize has not ended by its deadline");
    } else if (status == COLL_OK) {
        status = coll_nccl_check(comm, state, "ncclCommFinalize", reterr);
    }
    if (status != COLL_OK) {
        (void)ncclCommAbort(comm->comm);
        return status;
    }
    return coll_nccl_check(NULL, ncclCommDestroy(comm->comm), "ncclCommDestroy", reterr);
}

/* ---- memory ---- */

static coll_status alloc_memory(void *comm, size_t size_bytes, void **memory, coll_error *reterr)
{
    return coll_nccl_check(comm, ncclMemAlloc(memory, size_bytes), "ncclMemAlloc", reterr);
}

static void free_memory(void *comm, void *memory)
{
    (void)comm;
    (void)ncclMemFree(memory);
}

const coll_backend coll_nccl_backend = {
    .size = sizeof(coll_backend),
    .abi = COLL_BACKEND_ABI,
    .name = "nccl",
    .kinds = COLL_BIT(COLL_ALL_REDUCE) | COLL_BIT(COLL_BROADCAST) | COLL_BIT(COLL_ALL_GATHER) |
             COLL_BIT(COLL_BARRIER) | COLL_BIT(COLL_REDUCE) | COLL_BIT(COLL_REDUCE_SCATTER) |
             COLL_BIT(COLL_GATHER) | COLL_BIT(COLL_SCATTER) | COLL_BIT(COLL_ALL_TO_ALL),
    .types = COLL_BIT(COLL_FLOAT32) | COLL_BIT(COLL_FLOAT64) | COLL_BIT(COLL_INT32) |
             COLL_BIT(COLL_INT64) | COLL_BIT(COLL_UINT8) | COLL_BIT(COLL_FLOAT16) |
             COLL_BIT(COLL_BFLOAT16) | COLL_BIT(COLL_INT8) | COLL_BIT(COLL_UINT64) |
             COLL_BIT(COLL_UINT32),
    .reduces = COLL_BIT(COLL_SUM) | COLL_BIT(COLL_MIN) | COLL_BIT(COLL_MAX) |
               COLL_BIT(COLL_PRODUCT) | COLL_BIT(COLL_AVERAGE),
    .open = open_comm,
    .poll = poll_comm,
    .op_make = coll_nccl_op_make,
    .group = coll_nccl_group,
    .start = coll_nccl_start,
    .test = coll_nccl_test,
    .idle = is_idle,
    .op_free = coll_nccl_op_free,
    .progress = read_progress,
    .busy_ns = read_busy_ns,
    .abort = abort_comm,
    .close = close_comm,
    .release = release,
    .alloc = alloc_memory,
    .free = free_memory,
};
