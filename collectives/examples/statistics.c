/* Four processes have numbers each, and learn the mean, the deviation and the largest of all in one
 * all-reduce, with a reduction of their own.
 *
 *   cc statistics.c $(pkg-config --cflags --libs libcoll-launched) -lm -o statistics
 *   launcher --ranks 4 -- ./statistics */
#include <coll/launched.h>
#include <math.h>
#include <stdio.h>

enum { COUNT = 1000 };

typedef struct statistics {
    double count;
    double mean;
    double squares; /* of the distances from the mean, added up */
    double largest;
    int64_t rank; /* that has it; the lowest of several */
} statistics;

/* Joins two samples (Chan, Golub, LeVeque), and keeps the larger of two values. */
static void join(void *left, const void *right, size_t count, void *user)
{
    statistics *l = left;
    const statistics *r = right;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        const double both = l[i].count + r[i].count;
        const double apart = r[i].mean - l[i].mean;
        l[i].squares += r[i].squares + apart * apart * l[i].count * r[i].count / both;
        l[i].mean += apart * r[i].count / both;
        l[i].count = both;
        l[i].rank = r[i].largest > l[i].largest ? r[i].rank : l[i].rank;
        l[i].largest = fmax(l[i].largest, r[i].largest);
    }
}

static coll_status join_all(coll_launched *launched, coll_error *error)
{
    coll_comm *world = coll_context_world(coll_launched_context(launched));
    const int rank = coll_comm_rank(world);
    const double first = rank * COUNT;
    statistics all = {1, first, 0, first, rank};
    for (int i = 1; i < COUNT; i++) {
        const statistics next = {1, first + i, 0, first + i, rank};
        join(&all, &next, 1, NULL);
    }
    const coll_reduction joined = {
        .size = sizeof joined, .name = "statistics", .element_bytes = sizeof all, .combine = join};
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = &all,
                               .recv = &all,
                               .count = 1,
                               .reduction = &joined};
    const coll_status status = coll_run(world, &desc, error);
    if (status == COLL_OK) {
        printf("%g numbers: mean %.1f, deviation %.1f; the largest is %g, of rank %d\n", all.count,
               all.mean, sqrt(all.squares / all.count), all.largest, (int)all.rank);
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
    if (join_all(launched, &error) != COLL_OK) {
        coll_launched_fail(launched, &error);
    }
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : 1;
}
