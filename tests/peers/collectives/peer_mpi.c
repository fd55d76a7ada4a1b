/* Any MPI: compiled once for each, by its own compiler or with its own header. */
#include <mpi.h>
#include <stdlib.h>

#include "peer.h"

#ifndef PEER_NAME
#define PEER_NAME "mpi"
#endif

static void check(int code)
{
    if (code != MPI_SUCCESS) {
        peer_die("MPI error %d", code);
    }
}

static const char *variants(peer_kind kind)
{
    (void)kind;
    return "default";
}

static void open_mpi(peer_options *options)
{
    check(MPI_Init(NULL, NULL));
    check(MPI_Comm_rank(MPI_COMM_WORLD, &options->rank));
    check(MPI_Comm_size(MPI_COMM_WORLD, &options->size));
}

static void close_mpi(void)
{
    check(MPI_Finalize());
}

static void *allocate(const char *place, size_t size_bytes)
{
    (void)place;
    return aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
}

static void run(const peer_task *task, int root)
{
    const int count = (int)task->count;
    switch (task->kind) {
    case PEER_ALL_REDUCE:
        check(MPI_Allreduce(MPI_IN_PLACE, task->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
        break;
    case PEER_ALL_GATHER:
        check(MPI_Allgather(task->send, count, MPI_FLOAT, task->recv, count, MPI_FLOAT,
                            MPI_COMM_WORLD));
        break;
    case PEER_REDUCE_SCATTER:
        check(MPI_Reduce_scatter_block(task->send, task->recv, count, MPI_FLOAT, MPI_SUM,
                                       MPI_COMM_WORLD));
        break;
    case PEER_BROADCAST:
        check(MPI_Bcast(task->recv, count, MPI_FLOAT, root, MPI_COMM_WORLD));
        break;
    case PEER_SCAN:
        check(MPI_Scan(task->send, task->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
        break;
    case PEER_EXSCAN:
        check(MPI_Exscan(task->send, task->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
        break;
    default:
        check(MPI_Alltoall(task->send, count, MPI_FLOAT, task->recv, count, MPI_FLOAT,
                           MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    static const peer_library library = {.name = PEER_NAME,
                                         .variants = variants,
                                         .open = open_mpi,
                                         .close = close_mpi,
                                         .allocate = allocate,
                                         .run = run};
    return peer_main(argc, argv, &library);
}
