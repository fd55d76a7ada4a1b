// NCCL between processes of one host, over the emulator's streams: the plugin that node.sh takes has it in
// place of libnccl.
#include "process_round.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

#include "emulate/control.h"

namespace
{

constexpr int polls = 2; // until a call is no longer in progress

std::unique_ptr<process_round> group;
ncclComm_t group_comm;
cudaStream_t group_stream;

ncclResult_t add(process_call c, ncclComm_t comm, cudaStream_t stream)
{
    c.element_bytes = fake_element_bytes(c.type);
    const bool alone = !group && comm->blocking;
    if (alone) {
        (void)ncclGroupStart();
    } else if (!group) {
        return ncclInternalError;
    }
    group->calls.push_back(c);
    group_comm = comm;
    group_stream = stream;
    if (alone) {
        (void)ncclGroupEnd();
    }
    return ncclSuccess;
}

const char *bytes_of(const void *memory)
{
    return static_cast<const char *>(memory);
}

} // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *directory = std::getenv("TMPDIR");
    (void)std::snprintf(id->internal, sizeof id->internal, "%s/process-nccl-XXXXXX",
                        directory != nullptr ? directory : "/tmp");
    const int fd = mkostemp(id->internal, O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(FAKE_NCCL_RANKS_MAX * share_bytes)) != 0) {
        return ncclSystemError;
    }
    (void)close(fd);
    return ncclSuccess;
}

// NCCL_FAKE_HANG=RANK:ROUND: that rank stands still there.
ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const char *hang = std::getenv("NCCL_FAKE_HANG");
    int who = -1;
    int when = 0;
    const int fd = open(id.internal, O_RDWR | O_CLOEXEC);
    if (fd < 0 || config->blocking != 0 || ranks > FAKE_NCCL_RANKS_MAX) {
        return ncclSystemError;
    }
    void *memory =
        mmap(nullptr, FAKE_NCCL_RANKS_MAX * share_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (memory == MAP_FAILED) {
        return ncclSystemError;
    }
    if (hang != nullptr && std::sscanf(hang, "%d:%d", &who, &when) == 2 && who != rank) {
        when = 0;
    }
    fake_nccl_comm *comm = new fake_nccl_comm{{static_cast<char *>(memory)},
                                              rank,
                                              ranks,
                                              polls,
                                              0,
                                              (uint64_t)when,
                                              {false},
                                              false,
                                              false};
    if (comm->all.of(0).here.fetch_add(1) + 1 == ranks) {
        (void)unlink(id.internal); // all have it
    }
    *made = comm;
    return ncclInProgress;
}

ncclResult_t ncclCommInitRank(ncclComm_t *made, int ranks, ncclUniqueId id, int rank)
{
    ncclConfig_t config = {.blocking = 0};
    if (ncclCommInitRankConfig(made, ranks, id, rank, &config) != ncclInProgress) {
        return ncclSystemError;
    }
    (*made)->blocking = true;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    const bool waits = comm->finalized && emulate_has_outside_graphs();
    *error = waits || comm->polls_left > 0 ? ncclInProgress : ncclSuccess;
    comm->polls_left -= comm->polls_left > 0 ? 1 : 0;
    return ncclSuccess;
}

// As NCCL's own it stays in progress until no graph has the communicator's operations.
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->finalized = true;
    comm->polls_left = polls;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    (void)munmap(comm->all.memory, FAKE_NCCL_RANKS_MAX * share_bytes);
    delete comm;
    return ncclSuccess;
}

// What is on streams ends, and the communicator stays: its tasks still name it. As NCCL's own it
// returns only when no graph has its operations. With NCCL_FAKE_ABORT_HANGS it does not return.
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    while (std::getenv("NCCL_FAKE_ABORT_HANGS") != nullptr) {
        (void)pause();
    }
    comm->aborted.store(true);
    while (emulate_has_outside_graphs()) {
        (void)usleep(1000);
    }
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError ? "unhandled system error" : "an error of the process NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGroupStart(void)
{
    group = std::make_unique<process_round>();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    std::shared_ptr<process_round> ended = std::move(group);
    fake_nccl_comm *comm = group_comm;
    if (ended->calls.empty()) {
        return ncclSuccess;
    }
    comm->polls_left = polls;
    // A round of a graph gets its number when it begins: so its state is one run's.
    (void)emulate_await_on(group_stream, [comm, ended] {
        if (ended->number == 0) {
            ended->number = ++comm->rounds;
            ended->has_put = false;
        }
        const bool done = process_move_on(comm, *ended);
        ended->number = done ? 0 : ended->number;
        return done;
    });
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const bool known = op == ncclSum && (type == ncclFloat32 || type == ncclInt32);
    return known ? add({process_kind::all_reduce, bytes_of(send), static_cast<char *>(recv), count,
                        0, type, -1},
                       comm, stream)
                 : ncclInternalError;
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return add(
        {process_kind::all_gather, bytes_of(send), static_cast<char *>(recv), count, 0, type, -1},
        comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(
        {process_kind::broadcast, bytes_of(send), static_cast<char *>(recv), count, 0, type, root},
        comm, stream);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return add(
        {process_kind::all_to_all, bytes_of(send), static_cast<char *>(recv), count, 0, type, -1},
        comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add({process_kind::send, bytes_of(send), nullptr, count, 0, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({process_kind::receive, nullptr, static_cast<char *>(recv), count, 0, type, peer},
               comm, stream);
}

// Our modes do not use these two.
ncclResult_t ncclReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                        cudaStream_t)
{
    return ncclInternalError;
}

ncclResult_t ncclReduceScatter(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}

// The backend's kernels.
cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree)
{
    return fake_tree_can(tree) ? emulate_run_on(stream, [t = *tree] { fake_tree(&t); })
                               : cudaErrorInvalidValue;
}

cudaError_t coll_nccl_begin_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    return emulate_run_on(stream, [n = *notes] { fake_begin(&n, emulate_clock_ns()); });
}

cudaError_t coll_nccl_end_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    return emulate_run_on(stream, [n = *notes] { fake_end(&n, emulate_clock_ns()); });
}

} // extern "C"
