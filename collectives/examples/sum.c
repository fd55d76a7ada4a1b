/* Four processes add up their vectors, and each prints the same sum.
 *
 *   cc sum.c $(pkg-config --cflags --libs libcoll-launched) -o sum
 *   launcher --ranks 4 -- ./sum */
#include <coll/launched.h>
#include <stdio.h>

enum { COUNT = 1000 };

static coll_status add_up(coll_launched *launched, coll_error *error)
{
    float mine[COUNT];
    float sum[COUNT];
    coll_comm *world = coll_context_world(coll_launched_context(launched));
    const int rank = coll_comm_rank(world);
    for (int i = 0; i < COUNT; i++) {
        mine[i] = (float)(rank * COUNT + i);
    }
    const coll_status status =
        coll_all_reduce(world, mine, sum, COUNT, COLL_FLOAT32, COLL_SUM, error);
    if (status == COLL_OK) {
        printf("%d ranks: sum[0] = %g, sum[%d] = %g\n", coll_comm_size(world), sum[0], COUNT - 1,
               sum[COUNT - 1]);
    }
    return status;
}

int main(void)
{
    coll_error error;
    coll_launched *launched = NULL;
    if (coll_launched_open(&launched, &error) != COLL_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (add_up(launched, &error) != COLL_OK) {
        coll_launched_fail(launched, &error); /* the launcher says it, and ends the others */
    }
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : 1;
}
