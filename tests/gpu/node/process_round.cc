// Rounds of the NCCL between processes: see the header.
#include "process_round.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulate/memory.h"

namespace
{

bool all_have(const fake_nccl_comm *comm, std::atomic<uint64_t> process_share::*number,
              uint64_t wanted)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if ((comm->all.of(rank).*number).load() < wanted) {
            return false;
        }
    }
    return true;
}

// What a call puts down: so many parts of `count` elements.
size_t put_bytes(const process_call &c, int size)
{
    switch (c.what) {
    case process_kind::receive:
        return 0;
    case process_kind::all_to_all:
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

void put_down(const fake_nccl_comm *comm, const process_round &r)
{
    char *at = comm->all.data(comm->rank);
    const char *end = at + share_bytes - 4096;
    for (const process_call &c : r.calls) {
        const entry mine = {put_bytes(c, comm->size), c.what == process_kind::send ? c.peer : -1};
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

void add_up(const fake_nccl_comm *comm, const process_call &c, size_t index)
{
    std::memcpy(c.recv, find(comm, 0, index, -1), c.count * c.element_bytes);
    for (int rank = 1; rank < comm->size; rank++) {
        fake_add_up(c.recv, find(comm, rank, index, -1), c.count, c.type);
    }
}

void take(const fake_nccl_comm *comm, const process_call &c, size_t index, size_t earlier)
{
    const size_t bytes = c.count * c.element_bytes;
    switch (c.what) {
    case process_kind::all_reduce:
        add_up(comm, c, index);
        break;
    case process_kind::broadcast:
        std::memcpy(c.recv, find(comm, c.peer, index, -1), bytes);
        break;
    case process_kind::all_gather:
    case process_kind::all_to_all:
        for (int rank = 0; rank < comm->size; rank++) {
            const size_t from = c.what == process_kind::all_to_all ? (size_t)comm->rank * bytes : 0;
            std::memcpy(c.recv + (size_t)rank * bytes, find(comm, rank, index, -1) + from, bytes);
        }
        break;
    case process_kind::receive:
        std::memcpy(c.recv, find(comm, c.peer, earlier, comm->rank), bytes);
        break;
    case process_kind::send:
        break;
    }
}

void take_all(const fake_nccl_comm *comm, const process_round &r)
{
    for (size_t i = 0; i < r.calls.size(); i++) {
        size_t earlier = 0; // receives from the same rank in this round
        for (size_t j = 0; j < i; j++) {
            earlier +=
                r.calls[j].what == process_kind::receive && r.calls[j].peer == r.calls[i].peer;
        }
        take(comm, r.calls[i], i, earlier);
    }
}

} // namespace

bool process_move_on(fake_nccl_comm *comm, process_round &r)
{
    process_share &mine = comm->all.of(comm->rank);
    if (comm->aborted.load()) {
        return true;
    }
    if (comm->hangs_at == r.number) {
        return false;
    }
    if (!r.has_put) {
        if (!all_have(comm, &process_share::read, r.number - 1)) {
            return false;
        }
        emulate_memory_open();
        put_down(comm, r);
        mine.put.store(r.number);
        r.has_put = true;
    }
    if (!all_have(comm, &process_share::put, r.number)) {
        return false;
    }
    emulate_memory_open();
    take_all(comm, r);
    mine.read.store(r.number);
    return true;
}
