/* libcoll with neither MPI nor a launcher of ours: each process finds its place in its environment, and
 * the others through rank 0. In two terminals, or on two hosts with the name of the first as MASTER_ADDR:
 *
 *   cc sum_env.c $(pkg-config --cflags --libs libcoll) -o sum_env
 *   RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./sum_env
 *   RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./sum_env */
#include <coll/bootstrap.h>
#include <stdio.h>

static coll_status start(coll_context **context, coll_error *error)
{
    coll_bootstrap_options place = {.size = sizeof(coll_bootstrap_options)};
    coll_context_options options = {.size = sizeof(coll_context_options)};
    coll_bootstrap *bootstrap = NULL;
    coll_status status = coll_bootstrap_environment(&place, error);
    if (status == COLL_OK) {
        status = coll_bootstrap_open(&place, &bootstrap, error);
    }
    if (status == COLL_OK) {
        coll_bootstrap_apply(bootstrap, &options);
        status = coll_context_create(&options, context, error);
    }
    coll_bootstrap_close(bootstrap);
    return status;
}

int main(void)
{
    coll_context *context = NULL;
    coll_error error;
    double sum = 0;
    coll_status status = start(&context, &error);
    if (status == COLL_OK) {
        coll_comm *world = coll_context_world(context);
        const double mine = coll_comm_rank(world) + 1;
        status = coll_all_reduce(world, &mine, &sum, 1, COLL_FLOAT64, COLL_SUM, &error);
        if (status == COLL_OK) {
            printf("1 + … + %d = %g\n", coll_comm_size(world), sum);
        }
    }
    if (status != COLL_OK) {
        fprintf(stderr, "sum_env: %s\n", error.message);
    }
    coll_context_destroy(context);
    return status == COLL_OK ? 0 : 1;
}
