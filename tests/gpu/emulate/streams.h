// Streams, events and graphs, as streams.cc and graphs.cc share them. Private to these two.
#ifndef EMULATE_STREAMS_H
#define EMULATE_STREAMS_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include <cuda_runtime_api.h>

// Nodes of a graph, by index.
using node_list = std::vector<size_t>;

// Something on a stream, or a node of a graph. An event's task has the number of its recording; in a
// graph it gets that when the graph is launched.
struct emulate_task {
    std::function<bool()> run = {}; // false: it cannot yet
    CUevent_st *records = nullptr;
    CUevent_st *awaits = nullptr;
    uint64_t number = 0;
    bool outside = false;   // it waits for what comes from outside, as NCCL's peers
    node_list after = {};   // of a node: those that run before it
    uint64_t takes_ns = 0;  // of the device's clock
    uint64_t issued_ns = 0; // when the host had it enqueued
};

struct CUevent_st {
    CUstream_st *stream; // of the last recording
    uint64_t recorded;
    uint64_t passed;
    uint64_t capture; // which has captured the last recording, behind these nodes; 0: none
    node_list after;
    bool timed;
    uint64_t passed_ns;
};

struct CUstream_st {
    std::deque<emulate_task> tasks;
    CUgraph_st *capture;
    node_list after; // what the next node comes after
    uint64_t now_ns; // when the last task has ended
    bool runs;       // now: a circle of streams that wait for each other comes back here
};

struct CUgraph_st {
    std::vector<emulate_task> tasks;
    uint64_t number;     // of the capture, from 1
    CUstream_st *origin; // where it began
    cudaError_t failed;
};

extern std::set<cudaStream_t> emulate_streams;

// Enqueues the task, or makes it the next node of the stream's capture.
cudaError_t emulate_add_task(cudaStream_t stream, emulate_task task);

// graphs.cc
// What a capturing stream does against the rules ends its capture: EndCapture says so too.
cudaError_t emulate_spoil(CUgraph_st *capture, cudaError_t error);
// The stream waits for an event that a capture has recorded: it takes part in that capture from now
// on, or takes more nodes to come after.
cudaError_t emulate_join_capture(cudaStream_t stream, const CUevent_st *event);

#endif
