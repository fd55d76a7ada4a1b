// The emulator's captures and graphs. Called by the plugin instead of libcudart.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "emulate/control.h"
#include "emulate/runtime.h"
#include "emulate/streams.h"

struct CUgraphExec_st {
    std::vector<emulate_task> tasks;
    bool outside;
    uint64_t launches;
};

namespace
{

std::map<uint64_t, CUgraph_st *> captures; // under way
std::atomic<int> outside_graphs;

// How many captures may still begin, and how many may become a graph; -1: any number. CUDA_EMULATE_CAPTURES=COUNT:GPU says the
// first for the process that sees this GPU.
int find_captures_allowed()
{
    const char *given = std::getenv("CUDA_EMULATE_CAPTURES");
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    int count = -1;
    int gpu = -1;
    return given != nullptr && visible != nullptr &&
                   std::sscanf(given, "%d:%d", &count, &gpu) == 2 && std::atoi(visible) == gpu
               ? count
               : -1;
}

int captures_allowed = find_captures_allowed();
int ends_allowed = -1;

// Whether all nodes come before the origin's end.
bool all_joined(const CUgraph_st *capture)
{
    std::vector<bool> before(capture->tasks.size());
    node_list open = capture->origin->after;
    size_t found = 0;
    while (!open.empty()) {
        const size_t node = open.back();
        open.pop_back();
        if (!before[node]) {
            before[node] = true;
            found++;
            open.insert(open.end(), capture->tasks[node].after.begin(),
                        capture->tasks[node].after.end());
        }
    }
    return found == capture->tasks.size();
}

// An order of the nodes that their graph allows: each time the first or the last one that may run.
node_list launch_order(const std::vector<emulate_task> &tasks, bool last)
{
    node_list order;
    std::vector<bool> done(tasks.size());
    while (order.size() < tasks.size()) {
        size_t next = tasks.size();
        for (size_t i = 0; i < tasks.size() && (last || next == tasks.size()); i++) {
            bool ready = !done[i];
            for (size_t before : tasks[i].after) {
                ready = ready && done[before];
            }
            next = ready ? i : next;
        }
        done[next] = true;
        order.push_back(next);
    }
    return order;
}

} // namespace

cudaError_t emulate_spoil(CUgraph_st *capture, cudaError_t error)
{
    capture->failed = error;
    return emulate_keep(error);
}

cudaError_t emulate_join_capture(cudaStream_t stream, const CUevent_st *event)
{
    const auto found = captures.find(event->capture);
    if (found == captures.end()) {
        return emulate_keep(cudaErrorCapturedEvent);
    }
    if (stream->capture != nullptr && stream->capture != found->second) {
        return emulate_spoil(stream->capture, cudaErrorStreamCaptureMerge);
    }
    if (stream->capture == nullptr) {
        stream->after.clear();
    }
    stream->capture = found->second;
    stream->after.insert(stream->after.end(), event->after.begin(), event->after.end());
    return emulate_enter();
}

bool emulate_has_outside_graphs()
{
    return outside_graphs.load() > 0;
}

extern "C" {

void emulate_allow_captures(int begun, int ended)
{
    captures_allowed = begun;
    ends_allowed = ended;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    static uint64_t begun;
    (void)mode;
    if (captures_allowed == 0 || stream->capture != nullptr) {
        return emulate_keep(cudaErrorStreamCaptureUnsupported);
    }
    captures_allowed -= captures_allowed > 0;
    stream->capture = new CUgraph_st{{}, ++begun, stream, cudaSuccess};
    stream->after.clear();
    captures[begun] = stream->capture;
    emulate_counted.objects++;
    return emulate_enter();
}

// Work that the origin does not come after would be left behind: that is an error.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    CUgraph_st *ended = stream->capture;
    *graph = nullptr;
    if (ended == nullptr || ended->origin != stream) {
        return emulate_keep(cudaErrorStreamCaptureUnmatched);
    }
    if (ended->failed == cudaSuccess && !all_joined(ended)) {
        ended->failed = cudaErrorStreamCaptureUnjoined;
    }
    for (cudaStream_t other : emulate_streams) {
        other->capture = other->capture == ended ? nullptr : other->capture;
    }
    captures.erase(ended->number);
    if (ends_allowed == 0 && ended->failed == cudaSuccess) {
        ended->failed = cudaErrorStreamCaptureInvalidated;
    }
    ends_allowed -= ends_allowed > 0;
    if (ended->failed != cudaSuccess) {
        const bool unjoined = ended->failed == cudaErrorStreamCaptureUnjoined;
        (void)cudaGraphDestroy(ended);
        return emulate_keep(unjoined ? cudaErrorStreamCaptureUnjoined
                                     : cudaErrorStreamCaptureInvalidated);
    }
    *graph = ended;
    return emulate_enter();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *exec = new CUgraphExec_st{graph->tasks, false, 0};
    for (const emulate_task &task : graph->tasks) {
        (*exec)->outside = (*exec)->outside || task.outside;
    }
    outside_graphs += (*exec)->outside;
    emulate_counted.objects++;
    return emulate_enter();
}

// Each second launch begins with other nodes, where the graph leaves that open.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = emulate_enter();
    emulate_counted.launches++;
    for (size_t node : launch_order(exec->tasks, exec->launches++ % 2 == 1)) {
        emulate_task task = exec->tasks[node];
        if (task.records != nullptr) {
            task.records->stream = stream;
            task.number = ++task.records->recorded;
        } else if (task.awaits != nullptr) {
            task.number = task.awaits->recorded;
        }
        error = error == cudaSuccess ? emulate_add_task(stream, std::move(task)) : error;
    }
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    emulate_counted.objects--;
    delete graph;
    return emulate_enter();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    emulate_counted.objects--;
    outside_graphs -= exec->outside;
    delete exec;
    return emulate_enter();
}

} // extern "C"
