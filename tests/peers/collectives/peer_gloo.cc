// gloo over TCP, as Debian packages it. "default": the operations that PyTorch calls, asynchronous
// pairs. "busy-poll" (the file compiled with PEER_BUSY_POLL): the classes that can run on synchronous
// pairs which poll, one variant for each algorithm.
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "peer.h"

#ifdef PEER_BUSY_POLL
static const bool busy = true;
#else
static const bool busy = false;
#endif

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::vector<std::unique_ptr<gloo::Algorithm>> algorithms; // by root

static const char *variants(peer_kind kind)
{
    if (kind >= PEER_SCAN) {
        return nullptr; // gloo has no scans
    }
    if (!busy) {
        return kind == PEER_REDUCE_SCATTER ? "halving_doubling"
               : kind == PEER_ALL_REDUCE   ? "ring,bcube"
                                           : "default";
    }
    switch (kind) {
    case PEER_ALL_REDUCE:
        return "ring,ring_chunked,halving_doubling,bcube";
    case PEER_ALL_GATHER:
        return "ring";
    case PEER_REDUCE_SCATTER:
        return "halving_doubling";
    case PEER_BROADCAST:
        return "one_to_all";
    default:
        return nullptr; // gloo's all-to-all needs asynchronous pairs
    }
}

static void open_gloo(peer_options *options)
{
    gloo::transport::tcp::attr attr;
    attr.hostname = options->address != nullptr ? options->address : "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(options->directory);
    context = std::make_shared<gloo::rendezvous::Context>(options->rank, options->size);
    context->connectFullMesh(store, device);
    for (int r = 0; busy && r < options->size; r++) {
        if (r != options->rank) {
            context->getPair(r)->setSync(true, true);
        }
    }
}

static void close_gloo()
{
    std::_Exit(0); // taking the connections down may abort; there is nothing to save
}

static void *allocate(const char *place, size_t size_bytes)
{
    (void)place;
    return aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
}

static gloo::Algorithm *make_all_reduce(int variant, float *data, int count)
{
    const std::vector<float *> pointers = {data};
    switch (variant) {
    case 0:
        return new gloo::AllreduceRing<float>(context, pointers, count);
    case 1:
        return new gloo::AllreduceRingChunked<float>(context, pointers, count);
    case 2:
        return new gloo::AllreduceHalvingDoubling<float>(context, pointers, count);
    default:
        return new gloo::AllreduceBcube<float>(context, pointers, count);
    }
}

static void prepare_classes(const peer_task *task)
{
    const int count = (int)task->count;
    const int size = context->size;
    switch (task->kind) {
    case PEER_ALL_REDUCE:
        algorithms.emplace_back(make_all_reduce(task->variant, task->recv, count));
        break;
    case PEER_ALL_GATHER:
        algorithms.emplace_back(new gloo::AllgatherRing<float>(
            context, std::vector<const float *>{task->send}, task->recv, count));
        break;
    case PEER_BROADCAST:
        for (int root = 0; root < size; root++) {
            algorithms.emplace_back(new gloo::BroadcastOneToAll<float>(
                context, std::vector<float *>{task->recv}, task->count, root));
        }
        break;
    default:
        // In place: the send buffer loses its contents, and the block is copied out.
        algorithms.emplace_back(new gloo::ReduceScatterHalvingDoubling<float>(
            context, std::vector<float *>{(float *)task->send}, count * size,
            std::vector<int>((size_t)size, count)));
    }
}

static void prepare(const peer_task *task)
{
    if (busy || task->kind == PEER_REDUCE_SCATTER) {
        prepare_classes(task);
    }
}

static void release()
{
    algorithms.clear();
}

static void run_functions(const peer_task *task, int root)
{
    const size_t blocks = task->count * (size_t)context->size;
    float *send = (float *)task->send;
    switch (task->kind) {
    case PEER_ALL_REDUCE: {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(task->variant == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                                : gloo::AllreduceOptions::Algorithm::BCUBE);
        options.setOutput(task->recv, task->count);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
        break;
    }
    case PEER_ALL_GATHER: {
        gloo::AllgatherOptions options(context);
        options.setInput(send, task->count);
        options.setOutput(task->recv, blocks);
        gloo::allgather(options);
        break;
    }
    case PEER_BROADCAST: {
        gloo::BroadcastOptions options(context);
        options.setRoot(root);
        options.setOutput(task->recv, task->count);
        gloo::broadcast(options);
        break;
    }
    default: {
        gloo::AlltoallOptions options(context);
        options.setInput(send, blocks);
        options.setOutput(task->recv, blocks);
        gloo::alltoall(options);
    }
    }
}

static void run(const peer_task *task, int root)
{
    try {
        if (algorithms.empty()) {
            run_functions(task, root);
            return;
        }
        algorithms[task->kind == PEER_BROADCAST ? (size_t)root : 0]->run();
        if (task->kind == PEER_REDUCE_SCATTER) {
            std::copy(task->send, task->send + task->count, task->recv);
        }
    } catch (const std::exception &problem) {
        peer_die("%s", problem.what());
    }
}

int main(int argc, char **argv)
{
    peer_library library = {};
    library.name = busy ? "gloo-busy" : "gloo";
    library.variants = variants;
    library.open = open_gloo;
    library.close = close_gloo;
    library.allocate = allocate;
    library.prepare = prepare;
    library.run = run;
    library.release = release;
    try {
        return peer_main(argc, argv, &library);
    } catch (const std::exception &problem) {
        peer_die("%s", problem.what());
    }
}
