// Rounds of the NCCL between processes: what ranks put down in the file that they all map, and what they
// take from it. Shared by process_nccl.cc, which has NCCL's functions, and process_round.cc.
//
// Calls between ncclGroupStart and ncclGroupEnd are one round, of which all ranks take part. A round
// is an operation on the stream that asks again until its peers have come: first until they have read
// the round before, then until all have put down what they give. Sums are made from rank 0 upwards,
// which is not our order.
#ifndef TEST_PROCESS_ROUND_H
#define TEST_PROCESS_ROUND_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fake_common.h"

constexpr size_t share_bytes = (size_t)64 << 20; // of a rank in the file, most of it a hole

enum class process_kind { all_reduce, all_gather, broadcast, all_to_all, send, receive };

struct process_call {
    process_kind what;
    const char *send;
    char *recv;
    size_t count;
    size_t element_bytes;
    ncclDataType_t type;
    int peer; // or root
};

// What one rank has put down, at the beginning of its share.
struct process_share {
    std::atomic<uint64_t> put;  // rounds
    std::atomic<uint64_t> read; // of all ranks' shares
    std::atomic<int> here;
};

struct process_world {
    char *memory;
    process_share &of(int rank) const
    {
        return *reinterpret_cast<process_share *>(memory + (size_t)rank * share_bytes);
    }
    char *data(int rank) const
    {
        return memory + (size_t)rank * share_bytes + 4096;
    }
};

struct process_round {
    std::vector<process_call> calls;
    uint64_t number;
    bool has_put;
};

struct fake_nccl_comm {
    process_world all;
    int rank;
    int size;
    int polls_left;
    uint64_t rounds;
    uint64_t hangs_at; // a round that this rank never takes part in; 0: none
    std::atomic<bool> aborted;
    bool blocking; // of ncclCommInitRank: its calls may stand outside of a group
    bool finalized;
};

// Whether the round has ended.
bool process_move_on(fake_nccl_comm *comm, process_round &r);

#endif
