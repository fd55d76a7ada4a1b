/* Ranks that give, over tcp, and need not wait for anybody: what they have given is on its way when
 * they go elsewhere, and they learn with their next call what has happened meanwhile. Ranks are
 * threads; their sockets hold next to nothing where that matters. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "small_sockets.h"
#include "support.h"

enum { TURNS = 2000, CALLS = 12 };

/* Not in the library meanwhile. False: it takes too long. */
static bool await(atomic_int *word, int value)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (atomic_load(word) < value && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return atomic_load(word) >= value;
}

static void run(int size, bool small, void *user, test_rank_body body)
{
    test_small_sockets = small;
    test_ranks_as_threads(
        &(test_ranks_options){.size = size, .transport = COLL_TRANSPORT_TCP, .user = user}, body);
    test_small_sockets = false;
}

/* ---- on its way ---- */

typedef struct gift {
    size_t count;
    int ops;
    bool taker_begins; /* shows that it has come, and goes elsewhere as well */
} gift;

static coll_op_desc make_desc(const gift *g, int32_t *memory)
{
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_BROADCAST,
                          .send = memory,
                          .recv = memory,
                          .count = g->count,
                          .type = COLL_INT32,
                          .root = 0};
}

enum { INLINE_COUNT = 4096, INLINE_OPS = 14, PLAN_COUNT = 1 << 16 };

_Static_assert(PLAN_COUNT >= INLINE_COUNT * INLINE_OPS, "room for both");

/* Rank 0 starts, looks which operations end, and is not in the library until rank 1 has all of
 * those. */
static void gift_body(test_rank *rank)
{
    static atomic_int begun;
    static atomic_int ended; /* operations of rank 0's, and one */
    static atomic_int taken;
    static int32_t values[2][PLAN_COUNT];
    const gift *g = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[INLINE_OPS] = {NULL};
    int done_count = 0;
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    atomic_store(&taken, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, rank->rank == 1 || !g->taker_begins || await(&begun, 1));
    for (int i = 0; i < g->ops; i++) {
        int32_t *memory = &values[rank->rank][(size_t)i * INLINE_COUNT];
        const coll_op_desc desc = make_desc(g, memory);
        memory[g->count - 1] = rank->rank == 0 ? i + 1 : 0;
        RANK_CHECK(rank, rank->rank == 0 || g->taker_begins || await(&ended, 1));
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    atomic_store(&begun, rank->rank);
    if (rank->rank == 0) {
        for (int i = 0; i < TURNS; i++) {
            RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
        }
        for (bool done = true; done && done_count < g->ops;) {
            RANK_OK(rank, coll_request_test(&requests[done_count], &done, &rank->error));
            done_count += done;
        }
        atomic_store(&ended, 1 + done_count);
        RANK_CHECK(rank, await(&taken, done_count));
    }
    RANK_CHECK(rank, await(&ended, 1));
    for (int i = done_count; i < g->ops; i++) {
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
        RANK_CHECK(rank, values[rank->rank][(size_t)i * INLINE_COUNT + g->count - 1] == i + 1);
        (void)atomic_fetch_add(&taken, rank->rank);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void what_was_given_is_on_its_way(void **state)
{
    (void)state;
    gift with_flags = {.count = INLINE_COUNT, .ops = INLINE_OPS};
    gift with_plan = {.count = PLAN_COUNT, .ops = 1, .taker_begins = true};
    run(2, true, &with_flags, gift_body);
    run(2, true, &with_plan, gift_body);
    run(2, false, &with_flags, gift_body);
}

/* ---- messages ---- */

/* More than small sockets hold, and less than a stream. */
enum { MESSAGE_COUNT = 50000, MESSAGES = 3, RING_COUNT = (3 << 19) / 4, BEHIND_COUNT = 1 << 18 };

static int32_t messages[2][MESSAGES][RING_COUNT];

static coll_op_desc make_message(const test_rank *rank, int which, size_t count)
{
    int32_t *data = messages[rank->rank][which];
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = rank->rank == 0 ? COLL_SEND : COLL_RECEIVE,
                          .send = rank->rank == 0 ? data : NULL,
                          .recv = rank->rank == 0 ? NULL : data,
                          .count = count,
                          .type = COLL_INT32,
                          .root = 1 - rank->rank};
}

/* Rank 0 sends, in blocking calls or not, and is not in the library until rank 1 has received what
 * has ended. */
static void message_body(test_rank *rank)
{
    static atomic_int sent; /* and one */
    static atomic_int taken;
    const bool blocking = *(const bool *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[MESSAGES] = {NULL};
    int done_count = 0;
    atomic_store(&sent, 0);
    atomic_store(&taken, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, rank->rank == 0 || blocking || await(&sent, 1));
    for (int i = 0; i < MESSAGES; i++) {
        const coll_op_desc desc = make_message(rank, i, MESSAGE_COUNT);
        messages[rank->rank][i][MESSAGE_COUNT - 1] = rank->rank == 0 ? i + 1 : 0;
        if (rank->rank == 0 && blocking) {
            RANK_OK(rank, coll_run(comm, &desc, &rank->error));
            RANK_CHECK(rank, await(&taken, i + 1));
            done_count++;
        } else {
            RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
        }
        if (rank->rank == 1 && blocking) {
            RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
            RANK_CHECK(rank, messages[1][i][MESSAGE_COUNT - 1] == i + 1);
            (void)atomic_fetch_add(&taken, 1);
        }
    }
    if (rank->rank == 0 && !blocking) {
        for (int i = 0; i < TURNS; i++) {
            RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
        }
        for (bool done = true; done && done_count < MESSAGES;) {
            RANK_OK(rank, coll_request_test(&requests[done_count], &done, &rank->error));
            done_count += done;
        }
        atomic_store(&sent, 1);
        RANK_CHECK(rank, await(&taken, done_count));
    }
    for (int i = done_count; i < MESSAGES && !blocking; i++) {
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
        RANK_CHECK(rank, messages[rank->rank][i][MESSAGE_COUNT - 1] == i + 1);
        (void)atomic_fetch_add(&taken, rank->rank);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void what_was_sent_is_on_its_way(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool blocking = i % 2 == 1;
        run(2, i < 2, &blocking, message_body);
    }
}

/* What else is on its way to the receiver is no part of what it was given: rank 1 has that, and
 * is not in the library until its sender was notified that it may go on. */
static void behind_body(test_rank *rank)
{
    static atomic_int begun;
    static atomic_int ended;
    static int32_t values[2][BEHIND_COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    coll_comm *apart = NULL;
    coll_op_desc message = make_message(rank, 0, MESSAGE_COUNT);
    if (*(const bool *)rank->user) {
        message.kind = COLL_BROADCAST;
        message.send = message.recv = messages[rank->rank][0];
        message.root = 0;
    }
    const coll_op_desc other = {.size = sizeof(coll_op_desc),
                                .kind = COLL_BROADCAST,
                                .send = values[rank->rank],
                                .recv = values[rank->rank],
                                .count = BEHIND_COUNT,
                                .type = COLL_INT32};
    coll_request *request = NULL;
    coll_request *behind = NULL;
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    values[rank->rank][BEHIND_COUNT - 1] = rank->rank == 0;
    RANK_OK(rank, coll_comm_split(comm, 0, rank->rank, &apart, &rank->error));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 0) {
        RANK_OK(rank, coll_start(comm, &message, &request, &rank->error));
        RANK_OK(rank, coll_start(apart, &other, &behind, &rank->error));
        atomic_store(&begun, 1);
        RANK_OK(rank, coll_request_wait(&request, &rank->error));
        atomic_store(&ended, 1);
    } else {
        RANK_CHECK(rank, await(&begun, 1));
        RANK_OK(rank, coll_run(comm, &message, &rank->error));
        RANK_CHECK(rank, await(&ended, 1));
        RANK_OK(rank, coll_start(apart, &other, &behind, &rank->error));
    }
    RANK_OK(rank, coll_request_wait(&behind, &rank->error));
    RANK_CHECK(rank, values[rank->rank][BEHIND_COUNT - 1] == 1);
    coll_comm_destroy(apart);
}

static void a_giver_waits_for_its_own_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool collective = i < 2;
        run(2, i % 2 == 0, &collective, behind_body);
    }
}

/* Both send as much as a stream holds before either receives: in the library, they read. */
static void ring_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const int peer = 1 - rank->rank;
    int32_t *data = messages[rank->rank][0];
    for (int i = 0; i < MESSAGES; i++) {
        data[RING_COUNT - 1] = rank->rank + 1;
        RANK_OK(rank, coll_send(comm, data, RING_COUNT, COLL_INT32, peer, &rank->error));
        RANK_OK(rank, coll_receive(comm, messages[rank->rank][1], RING_COUNT, COLL_INT32, peer,
                                   &rank->error));
        RANK_CHECK(rank, messages[rank->rank][1][RING_COUNT - 1] == peer + 1);
    }
}

static void a_stream_holds_what_is_promised(void **state)
{
    (void)state;
    run(2, true, NULL, ring_body);
    run(2, false, NULL, ring_body);
}

/* Rank 1 is elsewhere for good: whoever sends to it ends by the deadline, or by an abort. */
static void elsewhere_body(test_rank *rank)
{
    static atomic_int begun;
    static atomic_int aborted; /* rank 0's context is no longer in use by rank 1 */
    static atomic_int over;
    static coll_context *sender;
    const bool aborts = *(const bool *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    atomic_store(&begun, 0);
    atomic_store(&aborted, 0);
    atomic_store(&over, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        RANK_CHECK(rank, await(&begun, 1));
        if (aborts) {
            coll_context_abort(sender, "enough");
        }
        atomic_store(&aborted, 1);
        RANK_CHECK(rank, await(&over, 1));
        return;
    }
    sender = rank->context;
    const coll_op_desc desc = make_message(rank, 0, MESSAGE_COUNT);
    coll_request *request = NULL;
    RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
    atomic_store(&begun, 1);
    const coll_status status = coll_request_wait(&request, &rank->error);
    RANK_CHECK(rank, await(&aborted, 1));
    atomic_store(&over, 1);
    RANK_CHECK(rank, status == (aborts ? COLL_ERR_ABORTED : COLL_ERR_TIMEOUT));
    RANK_CHECK(rank, strstr(rank->error.message, aborts ? "enough" : "send int32") != NULL);
    RANK_CHECK(rank, aborts || strstr(rank->error.message, "waiting for rank 1 (host") != NULL);
}

static void a_rank_that_does_not_read_is_named(void **state)
{
    (void)state;
    test_small_sockets = true;
    for (int i = 0; i < 2; i++) {
        bool aborts = i == 1;
        test_ranks_as_threads(
            &(test_ranks_options){.size = 2,
                                  .transport = COLL_TRANSPORT_TCP,
                                  .timeout_ns = (aborts ? 10000 : 200) * BASE_NS_PER_MS,
                                  .user = &aborts},
            elsewhere_body);
    }
    test_small_sockets = false;
}

/* ---- news ---- */

typedef enum news {
    NEWS_OTHER_CALL, /* rank 2 calls something else than the others */
    NEWS_ROOT_LEFT,
    NEWS_GIVER_LEFT,
    NEWS_KINDS,
} news;

/* Rank 1 gives to rank 0 and takes nothing: it learns with its next call what is known by then, and
 * not only when it is as far ahead as it may be. */
static void news_body(test_rank *rank)
{
    static atomic_int given;
    static atomic_int known;
    const news which = *(const news *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t values[2] = {1, 0};
    const coll_op_desc reduce = {.size = sizeof(coll_op_desc),
                                 .kind = COLL_REDUCE,
                                 .send = &values[0],
                                 .recv = &values[1],
                                 .count = 1,
                                 .type = COLL_INT32,
                                 .reduce = COLL_SUM};
    atomic_store(&given, 0);
    atomic_store(&known, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        RANK_OK(rank, coll_run(comm, &reduce, &rank->error));
        atomic_store(&given, 1);
        RANK_CHECK(rank, await(&known, which == NEWS_OTHER_CALL ? 2 : 1));
        coll_status status = COLL_OK; /* the system may have the news still */
        for (int i = 0; status == COLL_OK && i < CALLS; i++) {
            (void)sched_yield();
            status = coll_run(comm, &reduce, &rank->error);
        }
        RANK_CHECK(rank, status == (which == NEWS_OTHER_CALL ? COLL_ERR_MISMATCH : COLL_ERR_PEER));
        RANK_CHECK(rank, strstr(rank->error.message,
                                which == NEWS_ROOT_LEFT ? "rank 0 (host" : "rank 2 (host"));
        atomic_store(&known, 3);
        return;
    }
    RANK_CHECK(rank, await(&given, 1));
    if (which == NEWS_OTHER_CALL) {
        const coll_status status = rank->rank == 0 ? coll_run(comm, &reduce, &rank->error)
                                                   : coll_barrier(comm, &rank->error);
        RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
        (void)atomic_fetch_add(&known, 1);
    } else {
        RANK_OK(rank, coll_run(comm, &reduce, &rank->error));
        if (rank->rank == (which == NEWS_ROOT_LEFT ? 0 : 2)) {
            coll_context_destroy(rank->context);
            rank->context = NULL;
            atomic_store(&known, 1);
        }
    }
    RANK_CHECK(rank, await(&known, 3));
}

static void givers_learn_it_in_time(void **state)
{
    (void)state;
    for (int i = 0; i < NEWS_KINDS; i++) {
        news which = (news)i;
        run(3, false, &which, news_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_is_on_its_way),
        cmocka_unit_test(what_was_sent_is_on_its_way),
        cmocka_unit_test(a_giver_waits_for_its_own_bytes),
        cmocka_unit_test(a_stream_holds_what_is_promised),
        cmocka_unit_test(a_rank_that_does_not_read_is_named),
        cmocka_unit_test(givers_learn_it_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
