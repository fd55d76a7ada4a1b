/* libcoll in a program that MPI starts: the all-gather with which the ranks find each other is
 * MPI's, all that follows is libcoll's.
 *
 *   mpicc sum_mpi.c $(pkg-config --cflags --libs libcoll) -o sum_mpi
 *   mpirun -n 4 ./sum_mpi */
#include <coll/coll.h>
#include <mpi.h>
#include <stdio.h>

/* Ignores the deadline, which MPI has none of. */
static coll_status gather(void *user, const void *mine, void *all, size_t size_bytes,
                          int64_t deadline_ns, coll_error *reterr)
{
    (void)deadline_ns;
    const MPI_Comm *comm = user;
    const int failed =
        MPI_Allgather(mine, (int)size_bytes, MPI_BYTE, all, (int)size_bytes, MPI_BYTE, *comm);
    if (failed != MPI_SUCCESS && reterr != NULL) {
        *reterr = (coll_error){.status = COLL_ERR_PEER, .message = "MPI_Allgather failed"};
    }
    return failed == MPI_SUCCESS ? COLL_OK : COLL_ERR_PEER;
}

static coll_status add_up(coll_context *context, coll_error *error)
{
    coll_comm *world = coll_context_world(context);
    double sum = 0;
    const double mine = coll_comm_rank(world) + 1;
    const coll_status status =
        coll_all_reduce(world, &mine, &sum, 1, COLL_FLOAT64, COLL_SUM, error);
    if (status == COLL_OK) {
        printf("1 + … + %d = %g\n", coll_comm_size(world), sum);
    }
    return status;
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    coll_context *context = NULL;
    coll_error error = {.message = ""};
    coll_context_options options = {
        .size = sizeof(coll_context_options), .exchange = gather, .exchange_user = &world};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &options.rank);
    MPI_Comm_size(world, &options.world_size);
    coll_status status = coll_context_create(&options, &context, &error);
    if (status == COLL_OK) {
        status = add_up(context, &error);
    }
    if (status != COLL_OK) {
        fprintf(stderr, "rank %d: %s\n", options.rank, error.message);
        MPI_Abort(world, 1);
    }
    coll_context_destroy(context);
    MPI_Finalize();
    return 0;
}
