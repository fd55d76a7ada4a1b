/* Making communicators: again after a failure, many of them, and beside what is under way. Ranks are
 * threads. test_shrink.c makes those of ranks that are left. */
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/comm.h"
#include "core/progress.h"
#include "core/text.h"
#include "ranks.h"
#include "support.h"

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                            COLL_TRANSPORT_TCP};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static bool works(test_rank *rank, coll_comm *comm)
{
    int32_t value = 1;
    return coll_all_reduce(comm, &value, &value, 1, COLL_INT32, COLL_SUM, &rank->error) ==
               COLL_OK &&
           value == coll_comm_size(comm);
}

/* Rank 1 comes when rank 0 has given up, and tries again: the call that belongs to the failed one
 * fails, or its communicator does, and the next ones are good. */
static void late_body(test_rank *rank)
{
    static sem_t over;
    static const int both[] = {0, 1};
    coll_comm *comm = NULL;
    coll_comm *second = NULL;
    RANK_CHECK(rank, rank->rank != 0 || sem_init(&over, 0, 0) == 0);
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    if (rank->rank == 1) {
        (void)sem_wait(&over);
    }
    coll_status status = coll_comm_create(rank->context, both, 2, &comm, &rank->error);
    if (rank->rank == 0) {
        (void)sem_post(&over);
    }
    if (status == COLL_OK && rank->rank == 1) { /* over sockets, if the flag alone is here yet */
        status = coll_barrier(comm, &rank->error);
        coll_comm_destroy(comm);
    }
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
    RANK_OK(rank, coll_comm_create(rank->context, both, 2, &comm, &rank->error));
    RANK_OK(rank, coll_comm_create(rank->context, both, 2, &second, &rank->error));
    RANK_CHECK(rank, works(rank, comm) && works(rank, second));
    coll_comm_destroy(comm);
    coll_comm_destroy(second);
}

static void a_list_can_be_tried_again(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                    .transport = transports[t],
                                                    .timeout_ns = 3 * BASE_NS_PER_S / 2},
                              late_body);
    }
}

/* Its number would be that of another one. */
static void last_body(test_rank *rank)
{
    static const int both[] = {0, 1};
    coll_comm *comm = NULL;
    coll_arena *arena = NULL;
    for (size_t i = 0; i < rank->context->made_count; i++) {
        rank->context->made[i].count = COLL_COMMS_MADE_MAX - 1;
    }
    RANK_OK(rank, coll_comm_create(rank->context, both, 2, &comm, &rank->error));
    RANK_CHECK(rank, coll_comm_number(comm->id) == COLL_COMMS_MADE_MAX);
    coll_comm *none = NULL;
    RANK_CHECK(rank,
               coll_comm_create(rank->context, both, 2, &none, &rank->error) == COLL_ERR_LIMIT);
    comm->arenas_made = COLL_ARENAS_MADE_MAX - 1;
    RANK_OK(rank, coll_arena_create(comm, 4096, &arena, &rank->error));
    coll_arena_destroy(arena);
    RANK_CHECK(rank, coll_arena_create(comm, 4096, &arena, &rank->error) == COLL_ERR_LIMIT);
    RANK_CHECK(rank, works(rank, comm));
    coll_comm_destroy(comm);
}

static void no_number_is_given_twice(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transports[t]},
                              last_body);
    }
}

/* The next of all orders of the ranks. */
static void next_order(int *ranks, int count)
{
    int i = count - 2;
    while (ranks[i] > ranks[i + 1]) {
        i--;
    }
    int j = count - 1;
    while (ranks[j] < ranks[i]) {
        j--;
    }
    const int swapped = ranks[i];
    ranks[i] = ranks[j];
    ranks[j] = swapped;
    for (int low = i + 1, high = count - 1; low < high; low++, high--) {
        const int moved = ranks[low];
        ranks[low] = ranks[high];
        ranks[high] = moved;
    }
}

static void many_body(test_rank *rank)
{
    enum { LISTS = 1030 };
    int ranks[] = {0, 1, 2, 3, 4, 5, 6};
    for (int i = 0; i < LISTS; i++) {
        coll_comm *comm = NULL;
        RANK_OK(rank, coll_comm_create(rank->context, ranks, 7, &comm, &rank->error));
        coll_comm_destroy(comm);
        next_order(ranks, 7);
    }
}

static void lists_may_be_many(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 7, .transport = COLL_TRANSPORT_SHM},
                          many_body);
}

/* Rank 0 makes a communicator with rank 2, which waits for rank 1, which waits for an all-reduce that
 * rank 0 has started. */
static void moving_body(test_rank *rank)
{
    enum { VALUES = 1 << 20 };
    static int32_t sums[3][VALUES];
    static const int first[] = {0, 1};
    static const int second[] = {0, 2};
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *a = NULL;
    coll_comm *b = NULL;
    coll_request *request = NULL;
    int32_t *values = sums[rank->rank];
    int32_t word = 1;
    for (int i = 0; i < VALUES; i++) {
        values[i] = i;
    }
    const coll_op_desc sum = {.size = sizeof sum,
                              .kind = COLL_ALL_REDUCE,
                              .send = values,
                              .recv = values,
                              .count = VALUES,
                              .type = COLL_INT32,
                              .reduce = COLL_SUM};
    if (rank->rank < 2) {
        RANK_OK(rank, coll_comm_create(rank->context, first, 2, &a, &rank->error));
        RANK_OK(rank, coll_start(a, &sum, &request, &rank->error));
    }
    if (rank->rank == 1) {
        RANK_OK(rank, coll_request_wait(&request, &rank->error));
        RANK_OK(rank, coll_send(world, &word, 1, COLL_INT32, 2, &rank->error));
    } else if (rank->rank == 2) {
        RANK_OK(rank, coll_receive(world, &word, 1, COLL_INT32, 1, &rank->error));
    }
    if (rank->rank != 1) {
        RANK_OK(rank, coll_comm_create(rank->context, second, 2, &b, &rank->error));
        RANK_CHECK(rank, works(rank, b));
    }
    RANK_OK(rank, coll_request_wait(&request, &rank->error));
    RANK_CHECK(rank, rank->rank == 2 || values[VALUES - 1] == 2 * (VALUES - 1));
    coll_comm_destroy(a);
    coll_comm_destroy(b);
}

static void creation_moves_what_was_started(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = transports[t]},
                              moving_body);
    }
}

/* What rank 1 lists; the others list 0, 1, 2. */
typedef struct other_list {
    int ranks[3];
    int count;
    const char *text;
    const char *own_text; /* one more over sockets, where the cost model was measured before */
} other_list;

static void lists_body(test_rank *rank)
{
    static const int ranks[] = {0, 1, 2};
    const other_list *other = rank->user;
    const bool differs = rank->rank == 1;
    coll_comm *comm = NULL;
    coll_comm *world = coll_context_world(rank->context);
    const coll_status status = coll_comm_create(rank->context, differs ? other->ranks : ranks,
                                                differs ? other->count : 3, &comm, &rank->error);
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, other->own_text) != NULL);
    RANK_CHECK(rank, strstr(rank->error.message, other->text) != NULL);
    RANK_CHECK(rank, strstr(rank->error.message, "rank 1 (host") != NULL);
    RANK_CHECK(rank, works(rank, world)); /* and nobody has left before all have said so */
}

static void different_lists_are_named(void **state)
{
    static other_list others[] = {{{1, 0, 2}, 3, "makes communicator 1 of ranks 1 0 2", NULL},
                                  {{0, 1}, 2, "makes communicator 1 of ranks 0-1", NULL}};
    (void)state;
    for (int i = 0; i < 2 * TRANSPORTS; i++) {
        other_list *other = &others[i % 2];
        const coll_transport transport = transports[i / 2];
        other->own_text = transport == COLL_TRANSPORT_SHM ? "makes communicator 2 of ranks 0-2"
                                                          : "makes communicator 3 of ranks 0-2";
        test_ranks_as_threads(&(test_ranks_options){.size = 3,
                                                    .transport = transport,
                                                    .timeout_ns = 100 * BASE_NS_PER_S,
                                                    .user = other},
                              lists_body);
    }
}

/* Rank 0 makes one of 0, 1, 2. Ranks 1 and 2 first make one with a rank that leaves: rank 2 when rank 1
 * has come, and later than a difference may last: that is a second, so only time can pass it. */
static void two_differ_body(test_rank *rank)
{
    static const int ranks[] = {0, 1, 2};
    const int with_leaver[] = {0, rank->rank, rank->rank + 2};
    static const unsigned wait_ms[] = {0, 0, 1300, 200, 1500};
    coll_comm *comm = NULL;
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    (void)usleep(wait_ms[rank->rank] * 1000);
    if (rank->rank > 2) {
        return;
    }
    if (rank->rank > 0) {
        const coll_status status =
            coll_comm_create(rank->context, with_leaver, 3, &comm, &rank->error);
        RANK_CHECK(rank, status == COLL_ERR_PEER);
    }
    RANK_OK(rank, coll_comm_create(rank->context, ranks, 3, &comm, &rank->error));
    RANK_CHECK(rank, works(rank, comm));
    coll_comm_destroy(comm);
}

/* Over shared memory ranks compare their lists at once. */
static void one_difference_after_another_is_none(void **state)
{
    (void)state;
    for (int t = 1; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 5, .transport = transports[t]},
                              two_differ_body);
    }
}

static int count_busy(const coll_context *context)
{
    int count = 0;
    for (const coll_comm *comm = context->busy; comm != NULL; comm = comm->busy_next) {
        count++;
    }
    return count;
}

/* Of many communicators, calls walk those that have something under way. */
static void idle_body(test_rank *rank)
{
    enum { COMMS = 20, STARTED = 2 };
    static sem_t looked;
    coll_comm *comms[COMMS] = {NULL};
    coll_comm *world = coll_context_world(rank->context);
    coll_request *requests[STARTED + 1] = {NULL};
    int32_t sums[STARTED] = {0};
    int32_t message = 5;
    const int32_t one = 1;
    RANK_CHECK(rank, rank->rank != 0 || sem_init(&looked, 0, 0) == 0);
    for (int i = 0; i < COMMS; i++) {
        RANK_OK(rank, coll_comm_split(world, 0, rank->rank, &comms[i], &rank->error));
    }
    RANK_CHECK(rank, !coll_is_under_way(rank->context) && count_busy(rank->context) == 0);
    if (rank->rank == 1) {
        (void)sem_wait(&looked);
    }
    for (int i = 0; i < STARTED; i++) {
        const coll_op_desc sum = {.size = sizeof sum,
                                  .kind = COLL_ALL_REDUCE,
                                  .send = &one,
                                  .recv = &sums[i],
                                  .count = 1,
                                  .type = COLL_INT32,
                                  .reduce = COLL_SUM};
        RANK_OK(rank, coll_start(comms[5 + 7 * i], &sum, &requests[i], &rank->error));
    }
    const coll_op_desc end = {.size = sizeof end,
                              .send = &message,
                              .recv = &message,
                              .count = 1,
                              .type = COLL_INT32,
                              .root = 1 - rank->rank,
                              .kind = rank->rank == 0 ? COLL_RECEIVE : COLL_SEND};
    RANK_OK(rank, coll_start(world, &end, &requests[STARTED], &rank->error));
    if (rank->rank == 0) {
        RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
        RANK_CHECK(rank, count_busy(rank->context) == STARTED + 1);
        (void)sem_post(&looked);
    }
    RANK_OK(rank, coll_request_wait_all(requests, STARTED + 1, &rank->error));
    RANK_CHECK(rank, sums[0] == 2 && sums[1] == 2);
    RANK_CHECK(rank, !coll_is_under_way(rank->context) && count_busy(rank->context) == 0);
    for (int i = 0; i < COMMS; i++) {
        RANK_CHECK(rank, works(rank, comms[i]));
        coll_comm_destroy(comms[i]);
    }
}

static void idle_communicators_are_left_alone(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transports[t]},
                              idle_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation_moves_what_was_started),
        cmocka_unit_test(different_lists_are_named),
        cmocka_unit_test(one_difference_after_another_is_none),
        cmocka_unit_test(a_list_can_be_tried_again),
        cmocka_unit_test(no_number_is_given_twice),
        cmocka_unit_test(lists_may_be_many),
        cmocka_unit_test(idle_communicators_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
