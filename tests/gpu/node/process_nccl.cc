// NCCL between processes of one host, over the emulator's streams: the plugin of test_node.c has it in
// place of libnccl. What the ranks exchange lies in a file that they all map.
//
// Calls between ncclGroupStart and ncclGroupEnd are one round, of which all ranks take part. A round
// is an operation on the stream that asks again until its peers have come: first until they have read
// the round before, then until all have put down what they give. Sums are made from rank 0 upwards,
// which is not our order.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "emulate/control.h"
#include "nccl/nccl_kernels.h"

extern "C" {
#include <nccl.h>
}

namespace
{

constexpr int ranks_max = 8;
constexpr size_t share_bytes = (size_t)64 << 20; // of a rank in the file, most of it a hole
constexpr int polls = 2;                         // until a call is no longer in progress

enum class kind { all_reduce, all_gather, broadcast, all_to_all, send, receive };

struct call {
    kind what;
    const char *send;
    char *recv;
    size_t count;
    size_t element_bytes;
    ncclDataType_t type;
    int peer; // or root
};

// What one rank has put down, at the beginning of its share.
struct share {
    std::atomic<uint64_t> put;  // rounds
    std::atomic<uint64_t> read; // of all ranks' shares
    std::atomic<int> here;
};

struct world {
    char *memory;
    share &of(int rank) const
    {
        return *reinterpret_cast<share *>(memory + (size_t)rank * share_bytes);
    }
    char *data(int rank) const
    {
        return memory + (size_t)rank * share_bytes + 4096;
    }
};

struct round {
    std::vector<call> calls;
    uint64_t number;
    bool has_put;
};

void pass_time(coll_nccl_progress *progress)
{
    const uint64_t now_ns = emulate_clock_ns();
    if (progress->started != progress->finished) {
        progress->busy_ns += now_ns - progress->since_ns;
    }
    progress->since_ns = now_ns;
}

} // namespace

struct fake_nccl_comm {
    world all;
    int rank;
    int size;
    int polls_left;
    uint64_t rounds;
    uint64_t hangs_at; // a round that this rank never takes part in; 0: none
    std::atomic<bool> aborted;
    std::string path;
    bool blocking; // of ncclCommInitRank: its calls may stand outside of a group
};

namespace
{

std::unique_ptr<round> group;
ncclComm_t group_comm;
cudaStream_t group_stream;

bool all_have(const fake_nccl_comm *comm, std::atomic<uint64_t> share::*number, uint64_t wanted)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if ((comm->all.of(rank).*number).load() < wanted) {
            return false;
        }
    }
    return true;
}

// What a call puts down: so many parts of `count` elements.
size_t put_bytes(const call &c, int size)
{
    switch (c.what) {
    case kind::receive:
        return 0;
    case kind::all_to_all:
        return c.count * c.element_bytes * (size_t)size;
    default:
        return c.count * c.element_bytes;
    }
}

// A share: for each call its bytes, its receiver, and then what it gives.
struct entry {
    uint64_t bytes;
    int64_t receiver; // of a send; -1: all
};

void put_down(const fake_nccl_comm *comm, const round &r)
{
    char *at = comm->all.data(comm->rank);
    const char *end = at + share_bytes - 4096;
    for (const call &c : r.calls) {
        const entry mine = {put_bytes(c, comm->size), c.what == kind::send ? c.peer : -1};
        if (at + sizeof mine + mine.bytes > end) {
            std::fprintf(stderr, "process NCCL: a round has more than %zu bytes\n", share_bytes);
            std::abort();
        }
        std::memcpy(at, &mine, sizeof mine);
        std::memcpy(at + sizeof mine, c.send, mine.bytes);
        at += sizeof mine + mine.bytes;
    }
    entry last = {UINT64_MAX, -1};
    std::memcpy(at, &last, sizeof last);
}

// What the rank put down as its call `index`; of sends to `receiver`, those alone count.
const char *find(const fake_nccl_comm *comm, int rank, size_t index, int receiver)
{
    const char *at = comm->all.data(rank);
    for (;;) {
        entry e;
        std::memcpy(&e, at, sizeof e);
        if (e.bytes == UINT64_MAX) {
            std::fprintf(stderr, "process NCCL: rank %d has not what rank %d wants\n", rank,
                         comm->rank);
            std::abort();
        }
        if ((receiver < 0 || e.receiver == receiver) && index-- == 0) {
            return at + sizeof e;
        }
        at += sizeof e + e.bytes;
    }
}

void add_up(const fake_nccl_comm *comm, const call &c, size_t index)
{
    for (size_t i = 0; i < c.count; i++) {
        float sum = 0;
        uint32_t whole = 0;
        for (int rank = 0; rank < comm->size; rank++) {
            const char *theirs = find(comm, rank, index, -1) + i * 4;
            float real;
            uint32_t number;
            std::memcpy(&real, theirs, 4);
            std::memcpy(&number, theirs, 4);
            sum = rank == 0 ? real : sum + real;
            whole += number;
        }
        std::memcpy(c.recv + i * 4, c.type == ncclFloat32 ? (void *)&sum : (void *)&whole, 4);
    }
}

void take(const fake_nccl_comm *comm, const call &c, size_t index, size_t earlier)
{
    const size_t bytes = c.count * c.element_bytes;
    switch (c.what) {
    case kind::all_reduce:
        add_up(comm, c, index);
        break;
    case kind::broadcast:
        std::memcpy(c.recv, find(comm, c.peer, index, -1), bytes);
        break;
    case kind::all_gather:
    case kind::all_to_all:
        for (int rank = 0; rank < comm->size; rank++) {
            const size_t from = c.what == kind::all_to_all ? (size_t)comm->rank * bytes : 0;
            std::memcpy(c.recv + (size_t)rank * bytes, find(comm, rank, index, -1) + from, bytes);
        }
        break;
    case kind::receive:
        std::memcpy(c.recv, find(comm, c.peer, earlier, comm->rank), bytes);
        break;
    case kind::send:
        break;
    }
}

void take_all(const fake_nccl_comm *comm, const round &r)
{
    for (size_t i = 0; i < r.calls.size(); i++) {
        size_t earlier = 0; // receives from the same rank in this round
        for (size_t j = 0; j < i; j++) {
            earlier += r.calls[j].what == kind::receive && r.calls[j].peer == r.calls[i].peer;
        }
        take(comm, r.calls[i], i, earlier);
    }
}

// Whether the round has ended.
bool move_on(fake_nccl_comm *comm, round &r)
{
    share &mine = comm->all.of(comm->rank);
    if (comm->aborted.load()) {
        return true;
    }
    if (comm->hangs_at == r.number) {
        return false;
    }
    if (!r.has_put) {
        if (!all_have(comm, &share::read, r.number - 1)) {
            return false;
        }
        put_down(comm, r);
        mine.put.store(r.number);
        r.has_put = true;
    }
    if (!all_have(comm, &share::put, r.number)) {
        return false;
    }
    take_all(comm, r);
    mine.read.store(r.number);
    return true;
}

ncclResult_t add(call c, ncclComm_t comm, cudaStream_t stream)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; // by ncclDataType_t
    c.element_bytes = bytes[c.type];
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

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22800;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *directory = std::getenv("TMPDIR");
    (void)std::snprintf(id->internal, sizeof id->internal, "%s/process-nccl-XXXXXX",
                        directory != nullptr ? directory : "/tmp");
    const int fd = mkostemp(id->internal, O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(ranks_max * share_bytes)) != 0) {
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
    if (fd < 0 || config->blocking != 0 || ranks > ranks_max) {
        return ncclSystemError;
    }
    void *memory =
        mmap(nullptr, ranks_max * share_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
                                              id.internal,
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
    *error = comm->polls_left > 0 ? ncclInProgress : ncclSuccess;
    comm->polls_left -= comm->polls_left > 0 ? 1 : 0;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->polls_left = polls;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    (void)munmap(comm->all.memory, ranks_max * share_bytes);
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

ncclResult_t ncclMemAlloc(void **memory, size_t size_bytes)
{
    return cudaMalloc(memory, size_bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    (void)cudaFree(memory);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group = std::make_unique<round>();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    std::shared_ptr<round> ended = std::move(group);
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
        const bool done = move_on(comm, *ended);
        ended->number = done ? 0 : ended->number;
        return done;
    });
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const bool known = op == ncclSum && (type == ncclFloat32 || type == ncclInt32);
    return known ? add({kind::all_reduce, bytes_of(send), static_cast<char *>(recv), count, 0, type,
                        -1},
                       comm, stream)
                 : ncclInternalError;
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return add({kind::all_gather, bytes_of(send), static_cast<char *>(recv), count, 0, type, -1},
               comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return add({kind::broadcast, bytes_of(send), static_cast<char *>(recv), count, 0, type, root},
               comm, stream);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return add({kind::all_to_all, bytes_of(send), static_cast<char *>(recv), count, 0, type, -1},
               comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add({kind::send, bytes_of(send), nullptr, count, 0, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({kind::receive, nullptr, static_cast<char *>(recv), count, 0, type, peer}, comm,
               stream);
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

// The backend's kernels, of float32 sums, which is all that our modes add up.
cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree)
{
    const coll_nccl_tree t = *tree;
    if (t.type != COLL_FLOAT32 || t.reduce != COLL_SUM || t.ranks > ranks_max) {
        return cudaErrorInvalidValue;
    }
    return emulate_run_on(stream, [t] {
        const float *parts = static_cast<const float *>(t.parts);
        for (size_t i = 0; i < t.count; i++) {
            float v[ranks_max];
            for (int rank = 0; rank < t.ranks; rank++) {
                v[rank] = parts[(size_t)rank * t.count + i];
            }
            for (int step = 1; step < t.ranks; step *= 2) {
                for (int rank = 0; rank + step < t.ranks; rank += 2 * step) {
                    v[rank] += v[rank + step];
                }
            }
            static_cast<float *>(t.out)[i] = v[0];
        }
    });
}

cudaError_t coll_nccl_begin_run(cudaStream_t stream, coll_nccl_progress *progress)
{
    return emulate_run_on(stream, [progress] {
        pass_time(progress);
        (void)__atomic_fetch_add(&progress->started, 1, __ATOMIC_SEQ_CST);
    });
}

cudaError_t coll_nccl_end_run(cudaStream_t stream, coll_nccl_progress *progress)
{
    return emulate_run_on(stream, [progress] {
        pass_time(progress);
        (void)__atomic_fetch_add(&progress->finished, 1, __ATOMIC_SEQ_CST);
    });
}

} // extern "C"
