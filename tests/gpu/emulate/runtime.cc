// The emulator's streams, events, graphs and errors. Called by the plugin instead of libcudart.
#include "emulate/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <sched.h>
#include <set>
#include <vector>

#include "emulate/control.h"
#include "emulate/device.h"
#include "emulate/memory.h"

// Nodes of a graph, by index.
using node_list = std::vector<size_t>;

// Something on a stream, or a node of a graph. An event's task has the number of its recording; in a
// graph it gets that when the graph is launched.
struct emulate_task {
    std::function<bool()> run; // false: it cannot yet
    CUevent_st *records;
    CUevent_st *awaits;
    uint64_t number;
    bool outside;       // it waits for what comes from outside, as NCCL's peers
    node_list after;    // of a node: those that run before it
    uint64_t takes_ns;  // of the device's clock
    uint64_t issued_ns; // when the host had it enqueued
};

struct CUevent_st {
    CUstream_st *stream; // of the last recording
    uint64_t recorded;
    uint64_t passed;
    uint64_t
        capture; // the last recording was captured by this one, behind these nodes; 0: it was not
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

struct CUgraphExec_st {
    std::vector<emulate_task> tasks;
    bool outside;
    uint64_t launches;
};

emulate_counts emulate_counted;

namespace
{

std::set<cudaStream_t> streams;
std::map<uint64_t, CUgraph_st *> captures; // under way
std::atomic<int> outside_graphs;
// What the driver says. CUDA_EMULATE_DRIVER: from the beginning. CUDA_EMULATE_GPUS: the machine has so
// many, and a process that may see another one (CUDA_VISIBLE_DEVICES) finds none.
cudaError_t find_driver()
{
    const char *error = std::getenv("CUDA_EMULATE_DRIVER");
    const char *gpus = std::getenv("CUDA_EMULATE_GPUS");
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (error != nullptr) {
        return static_cast<cudaError_t>(std::atoi(error));
    }
    const bool none =
        gpus != nullptr && visible != nullptr && std::atoi(visible) >= std::atoi(gpus);
    return none ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t driver = find_driver();
cudaError_t device_error = cudaSuccess; // stays
cudaError_t last_error = cudaSuccess;
bool eager;
constexpr size_t tasks_max = 1024; // of a stream, under way
int kernels_allowed = -1;

// How many captures may still begin; -1: any number. CUDA_EMULATE_CAPTURES=COUNT:GPU says it for the
// process that sees this GPU.
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

bool run_task(cudaStream_t stream, const emulate_task &task);

// The device's clock: emulate_set_clock.
struct device_clock {
    bool given;
    uint64_t kernel_ns;
    uint64_t outside_ns;
};

device_clock find_clock()
{
    const char *given = std::getenv("CUDA_EMULATE_CLOCK");
    unsigned long long kernel_ns = 0;
    unsigned long long outside_ns = 0;
    const bool found =
        given != nullptr && std::sscanf(given, "%llu:%llu", &kernel_ns, &outside_ns) == 2;
    return {found, kernel_ns, outside_ns};
}

device_clock time_of = find_clock();
uint64_t host_ns;     // the end of what the host has waited for
cudaStream_t running; // the last task's

// The host has waited for the stream.
void waited(cudaStream_t stream)
{
    host_ns = std::max(host_ns, stream->now_ns);
}

// Runs the stream until `until` is passed, or to its end. False: something cannot run yet.
bool drain(cudaStream_t stream, const CUevent_st *until, uint64_t number)
{
    bool moves = true;
    if (stream->runs) {
        std::fprintf(stderr, "emulator: streams wait for each other in a circle\n");
        std::abort();
    }
    stream->runs = true;
    while (moves && !stream->tasks.empty() && (until == nullptr || until->passed < number)) {
        moves = run_task(stream, stream->tasks.front());
        if (moves) {
            stream->tasks.pop_front();
        }
    }
    stream->runs = false;
    return moves;
}

bool run_task(cudaStream_t stream, const emulate_task &task)
{
    if (task.awaits != nullptr && task.awaits->passed < task.number &&
        !drain(task.awaits->stream, task.awaits, task.number)) {
        return false;
    }
    stream->now_ns = std::max(
        {stream->now_ns, task.issued_ns, task.awaits != nullptr ? task.awaits->passed_ns : 0});
    running = stream;
    if (task.run && device_error == cudaSuccess && !task.run()) {
        return false;
    }
    stream->now_ns += task.takes_ns;
    if (task.records != nullptr) {
        task.records->passed = task.number;
        task.records->passed_ns = emulate_clock_ns();
    }
    return true;
}

bool drain_open(cudaStream_t stream)
{
    bool ended = true;
    if (!stream->tasks.empty()) {
        emulate_memory_open();
        ended = drain(stream, nullptr, 0);
        emulate_memory_close();
    }
    return ended;
}

void drain_whole(cudaStream_t stream)
{
    while (!drain_open(stream)) {
        (void)sched_yield();
    }
    waited(stream);
}

cudaError_t add_task(cudaStream_t stream, emulate_task task)
{
    const cudaError_t error = emulate_enter();
    if (error != cudaSuccess) {
        return error;
    }
    task.issued_ns = host_ns;
    if (stream->capture != nullptr) {
        task.after = std::move(stream->after);
        stream->after = {stream->capture->tasks.size()};
        stream->capture->tasks.push_back(std::move(task));
        return cudaSuccess;
    }
    emulate_counted.full += stream->tasks.size() >= tasks_max;
    while (stream->tasks.size() >= tasks_max && !drain_open(stream)) {
        (void)sched_yield(); // in the driver
    }
    stream->tasks.push_back(std::move(task));
    if (eager) {
        drain_open(stream);
    }
    return cudaSuccess;
}

// What a capturing stream does against the rules ends its capture: EndCapture says so too.
cudaError_t spoil(CUgraph_st *capture, cudaError_t error)
{
    capture->failed = error;
    return emulate_keep(error);
}

// The stream waits for an event that a capture has recorded: it takes part in that capture from now
// on, or takes more nodes to come after.
cudaError_t join_capture(cudaStream_t stream, const CUevent_st *event)
{
    const auto found = captures.find(event->capture);
    if (found == captures.end()) {
        return emulate_keep(cudaErrorCapturedEvent);
    }
    if (stream->capture != nullptr && stream->capture != found->second) {
        return spoil(stream->capture, cudaErrorStreamCaptureMerge);
    }
    if (stream->capture == nullptr) {
        stream->after.clear();
    }
    stream->capture = found->second;
    stream->after.insert(stream->after.end(), event->after.begin(), event->after.end());
    return emulate_enter();
}

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

// A kernel that fails leaves its error for all later calls, as an illegal address does.
void run_kernel(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body)
{
    if (kernels_allowed == 0) {
        kernels_allowed = -1;
        device_error = cudaErrorIllegalAddress;
        return;
    }
    kernels_allowed -= kernels_allowed > 0;
    emulate_run_kernel(grid, block, shared_bytes, body);
}

} // namespace

cudaError_t emulate_enter()
{
    if (device_error != cudaSuccess) {
        return emulate_keep(device_error);
    }
    return driver != cudaSuccess ? emulate_keep(driver) : cudaSuccess;
}

cudaError_t emulate_keep(cudaError_t error)
{
    last_error = error;
    return error;
}

cudaError_t emulate_wait_for_all()
{
    for (cudaStream_t stream : streams) {
        drain_whole(stream);
    }
    return emulate_enter();
}

cudaError_t emulate_run_on(cudaStream_t stream, std::function<void()> task)
{
    return add_task(stream, {[run = std::move(task)] {
                                 run();
                                 return true;
                             },
                             nullptr,
                             nullptr,
                             0,
                             false,
                             {},
                             0,
                             0});
}

uint64_t emulate_clock_ns()
{
    timespec now = {};
    if (time_of.given) {
        return running->now_ns;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

cudaError_t emulate_await_on(cudaStream_t stream, std::function<bool()> task)
{
    return add_task(stream,
                    {std::move(task), nullptr, nullptr, 0, true, {}, time_of.outside_ns, 0});
}

bool emulate_has_outside_graphs()
{
    return outside_graphs.load() > 0;
}

// What the next launch may have: 48 KB, or as much more as it asked for before. sm_89 has 99 KB.
static constexpr size_t shared_bytes_default = 48 << 10;
static size_t shared_bytes_max = shared_bytes_default;

void emulate_allow_shared(size_t shared_bytes)
{
    shared_bytes_max = shared_bytes <= 99 << 10 ? shared_bytes : shared_bytes_default;
}

void emulate_enqueue(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                     std::function<void()> body)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const bool fits = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu &&
                      grid.y <= 65535 && grid.z <= 65535 && threads > 0 && threads <= 1024 &&
                      shared_bytes <= shared_bytes_max;
    shared_bytes_max = shared_bytes_default;
    if (!fits) {
        (void)emulate_keep(cudaErrorInvalidConfiguration);
        return;
    }
    (void)add_task(stream, {[=] {
                                run_kernel(grid, block, shared_bytes, body);
                                return true;
                            },
                            nullptr,
                            nullptr,
                            0,
                            false,
                            {},
                            time_of.kernel_ns,
                            0});
}

extern "C" {

void emulate_set_eager(bool wanted)
{
    eager = wanted;
}

void emulate_set_clock(uint64_t kernel_ns, uint64_t outside_ns)
{
    time_of = {true, kernel_ns, outside_ns};
}

void emulate_fail_kernel(int count)
{
    kernels_allowed = count;
}

void emulate_recover(void)
{
    device_error = cudaSuccess;
    last_error = cudaSuccess;
    kernels_allowed = -1;
}

void emulate_set_driver(int error)
{
    driver = static_cast<cudaError_t>(error);
    last_error = cudaSuccess;
}

emulate_counts emulate_count(void)
{
    return emulate_counted;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
        return "capturing stream has unjoined work";
    default:
        return "another error";
    }
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = device_error;
    return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = driver == cudaSuccess ? 1 : 0;
    return emulate_enter();
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return emulate_enter();
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? emulate_enter() : emulate_keep(cudaErrorInvalidValue);
}

// A process that may see one GPU of several (CUDA_VISIBLE_DEVICES) gets another UUID for each.
// CUDA_EMULATE_PCI: the PCI device that it is said to be, as 0000:19:00.0.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    *properties = {};
    (void)std::snprintf(properties->name, sizeof properties->name, "emulated GPU %d", device);
    (void)std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "%.15s",
                        visible != nullptr ? visible : "all");
    unsigned domain = 0xffff;
    unsigned bus = 0;
    unsigned slot = 0;
    const char *pci = std::getenv("CUDA_EMULATE_PCI");
    (void)(pci != nullptr && std::sscanf(pci, "%x:%x:%x", &domain, &bus, &slot));
    properties->pciDomainID = static_cast<int>(domain);
    properties->pciBusID = static_cast<int>(bus);
    properties->pciDeviceID = static_cast<int>(slot);
    size_t free_bytes = 0;
    return cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return emulate_enter();
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 0;
    return emulate_enter();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    return emulate_run_on(stream, [=] { std::memcpy(to, from, size_bytes); });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    return emulate_run_on(stream, [=] { std::memset(memory, value, size_bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const cudaError_t error = emulate_enter();
    (void)flags;
    *stream = nullptr;
    if (error == cudaSuccess) {
        *stream = new CUstream_st();
        streams.insert(*stream);
        emulate_counted.objects++;
    }
    return error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain_whole(stream);
    streams.erase(stream);
    emulate_counted.objects--;
    delete stream;
    return emulate_enter();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->capture != nullptr) {
        return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    drain_whole(stream);
    return emulate_enter();
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    const bool ended = drain_open(stream);
    if (ended) {
        waited(stream);
    }
    const cudaError_t error = emulate_enter();
    return error == cudaSuccess && !ended ? emulate_keep(cudaErrorNotReady) : error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    *status =
        stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return emulate_enter();
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (event->capture != 0) {
        return emulate_keep(cudaErrorCapturedEvent);
    }
    if (event->passed < event->recorded) {
        emulate_memory_open();
        (void)drain(event->stream, event, event->recorded);
        emulate_memory_close();
    }
    host_ns = std::max(host_ns, event->passed_ns);
    const cudaError_t error = emulate_enter();
    return error == cudaSuccess && event->passed < event->recorded ? emulate_keep(cudaErrorNotReady)
                                                                   : error;
}

// An event of the outside is a node of its own in a graph, which waits for the last recording before
// the graph's launch.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const bool external = flags == cudaEventWaitExternal;
    if (external && stream->capture == nullptr) {
        return emulate_keep(cudaErrorInvalidValue);
    }
    if (!external && event->capture != 0) {
        return join_capture(stream, event);
    }
    if (!external && stream->capture != nullptr && event->recorded > 0) {
        return spoil(stream->capture, cudaErrorStreamCaptureIsolation);
    }
    return add_task(stream, {{}, nullptr, event, event->recorded, false, {}, 0, 0});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st();
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    emulate_counted.objects++;
    return emulate_enter();
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)emulate_wait_for_all(); // tasks name it
    emulate_counted.objects--;
    delete event;
    return emulate_enter();
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    const bool external = flags == cudaEventRecordExternal;
    if (external && stream->capture == nullptr) {
        return emulate_keep(cudaErrorInvalidValue);
    }
    if (stream->capture != nullptr && !external) {
        event->capture = stream->capture->number;
        event->after = stream->after;
        return emulate_enter();
    }
    event->capture = 0;
    if (!external) {
        event->stream = stream;
        event->recorded++;
    }
    return add_task(stream, {{}, event, nullptr, event->recorded, false, {}, 0, 0});
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

// Rounded to float, as by the driver.
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->timed || !to->timed || from->recorded == 0 || to->recorded == 0) {
        return emulate_keep(cudaErrorInvalidResourceHandle);
    }
    if (from->passed < from->recorded || to->passed < to->recorded) {
        return emulate_keep(cudaErrorNotReady);
    }
    *ms = static_cast<float>(
        (static_cast<double>(to->passed_ns) - static_cast<double>(from->passed_ns)) * 1e-6);
    return emulate_enter();
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
    for (cudaStream_t other : streams) {
        other->capture = other->capture == ended ? nullptr : other->capture;
    }
    captures.erase(ended->number);
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
        error = error == cudaSuccess ? add_task(stream, std::move(task)) : error;
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
