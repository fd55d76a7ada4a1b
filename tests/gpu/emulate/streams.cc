// The emulator's streams and events. Called by the plugin instead of libcudart.
#include "emulate/streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

#include "emulate/control.h"
#include "emulate/device.h"
#include "emulate/memory.h"
#include "emulate/runtime.h"

emulate_counts emulate_counted;
std::set<cudaStream_t> emulate_streams;

namespace
{

bool eager;
constexpr size_t tasks_max = 1024; // of a stream, under way
constexpr useconds_t outside_poll_us = 50;

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

bool run_task(cudaStream_t stream, const emulate_task &task);

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
    if (task.run && !task.outside) {
        emulate_memory_open(); // it stays so until the host goes on
    }
    if (task.run && !emulate_is_broken() && !task.run()) {
        return false;
    }
    stream->now_ns += task.takes_ns;
    if (task.records != nullptr) {
        task.records->passed = task.number;
        task.records->passed_ns = emulate_clock_ns();
    }
    return true;
}

bool drain_and_close(cudaStream_t stream)
{
    const bool ended = drain(stream, nullptr, 0);
    emulate_memory_close();
    return ended;
}

// What is outside has processors to share with this process.
void drain_whole(cudaStream_t stream)
{
    while (!drain_and_close(stream)) {
        (void)usleep(outside_poll_us);
    }
    waited(stream);
}

} // namespace

cudaError_t emulate_add_task(cudaStream_t stream, emulate_task task)
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
    while (stream->tasks.size() >= tasks_max && !drain_and_close(stream)) {
        (void)usleep(outside_poll_us); // in the driver
    }
    stream->tasks.push_back(std::move(task));
    if (eager) {
        drain_and_close(stream);
    }
    return cudaSuccess;
}

cudaError_t emulate_wait_for_all()
{
    for (cudaStream_t stream : emulate_streams) {
        drain_whole(stream);
    }
    return emulate_enter();
}

cudaError_t emulate_run_on(cudaStream_t stream, std::function<void()> task)
{
    return emulate_add_task(stream, {.run = [run = std::move(task)] {
                                run();
                                return true;
                            }});
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
    return emulate_add_task(
        stream, {.run = std::move(task), .outside = true, .takes_ns = time_of.outside_ns});
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
    const auto run = [=] {
        if (!emulate_breaks_now()) {
            emulate_run_kernel(grid, block, shared_bytes, body);
        }
        return true;
    };
    (void)emulate_add_task(stream, {.run = run, .takes_ns = time_of.kernel_ns});
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

emulate_counts emulate_count(void)
{
    return emulate_counted;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const void *const both[] = {to, from};
    (void)kind;
    if (stream->capture != nullptr) { // else the driver goes by way of pinned memory of its own
        emulate_check_addresses(both, sizeof both, "a copy in a graph");
    }
    return emulate_run_on(stream, [=] { std::memcpy(to, from, size_bytes); });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    emulate_check_addresses(&memory, sizeof memory, "a memset");
    return emulate_run_on(stream, [=] { std::memset(memory, value, size_bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const cudaError_t error = emulate_enter();
    (void)flags;
    *stream = nullptr;
    if (error == cudaSuccess) {
        *stream = new CUstream_st();
        emulate_streams.insert(*stream);
        emulate_counted.objects++;
    }
    return error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain_whole(stream);
    emulate_streams.erase(stream);
    emulate_counted.objects--;
    delete stream;
    return emulate_enter();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->capture != nullptr) {
        return emulate_spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    drain_whole(stream);
    return emulate_enter();
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (stream->capture != nullptr) {
        return emulate_spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    const bool ended = drain_and_close(stream);
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
        return emulate_join_capture(stream, event);
    }
    if (!external && stream->capture != nullptr && event->recorded > 0) {
        return emulate_spoil(stream->capture, cudaErrorStreamCaptureIsolation);
    }
    return emulate_add_task(stream, {.awaits = event, .number = event->recorded});
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
    return emulate_add_task(stream, {.records = event, .number = event->recorded});
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

} // extern "C"
