/* The flight recorder: what a dump has, and that it may be taken by anybody at any time. */
#include <jansson.h>
#include <locale.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "core/op.h"
#include "ranks.h"
#include "support.h"

enum { COMPLETED_MAX = 256, ROUNDS = 300 };

/* A processor whose ticks may be uneven. */
static bool is_uneven;

bool __real_coll_tsc_is_invariant(void);
bool __wrap_coll_tsc_is_invariant(void);

bool __wrap_coll_tsc_is_invariant(void)
{
    return !is_uneven && __real_coll_tsc_is_invariant();
}

/* The dump as JSON; NULL when it is none. */
static json_t *dump(coll_context *context, const char *reason)
{
    coll_error error;
    base_error failure;
    void *text = NULL;
    size_t text_bytes = 0;
    const int fd = memfd_create("dump", MFD_CLOEXEC);
    json_t *json = NULL;
    if (fd >= 0 && coll_context_dump(context, fd, reason, &error) == COLL_OK &&
        lseek(fd, 0, SEEK_SET) == 0 &&
        base_fd_read(fd, "dump", 4 << 20, &text, &text_bytes, &failure) == BASE_OK) {
        json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, NULL);
    }
    free(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return json;
}

static json_int_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static void keep_left(void *left, const void *right, size_t count, void *user)
{
    (void)left;
    (void)right;
    (void)count;
    (void)user;
}

static void completed_body(test_rank *rank)
{
    const coll_reduction own = {
        .size = sizeof own, .name = "a-longest_name.", .element_bytes = 12, .combine = keep_left};
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = (float[12]){0},
                               .recv = (float[12]){0},
                               .count = 4,
                               .reduction = &own};
    coll_comm *comm = coll_context_world(rank->context);
    float data[16] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        RANK_OK(rank, coll_all_reduce(comm, data, data, 16, COLL_FLOAT32, COLL_SUM, &rank->error));
    }
    RANK_OK(rank, coll_run(comm, &desc, &rank->error));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    json_t *json = dump(rank->context, "a \"quoted\"\nreason \xff, \xc3\xa9");
    const json_t *completed = json_object_get(json, "completed");
    const size_t count = json_array_size(completed);
    const json_t *last = json_array_get(completed, count - 1);
    const json_t *own_one = json_array_get(completed, count - 2);
    const json_t *before = json_array_get(completed, count - 3);
    RANK_CHECK(rank, json != NULL && count == COMPLETED_MAX);
    RANK_CHECK(rank, json_array_size(json_object_get(json, "pending")) == 0);
    RANK_CHECK(rank, integer(json, "rank") == rank->rank && integer(json, "pid") == getpid());
    RANK_CHECK(rank,
               strcmp(text(json, "reason"), "a \"quoted\"\nreason \xef\xbf\xbd, \xc3\xa9") == 0);
    RANK_CHECK(rank, strcmp(text(last, "operation"), "barrier") == 0);
    RANK_CHECK(rank, json_is_null(json_object_get(last, "type")));
    RANK_CHECK(rank, json_is_null(json_object_get(last, "reduce")));
    RANK_CHECK(rank, strcmp(text(before, "operation"), "all_reduce") == 0);
    RANK_CHECK(rank, strcmp(text(before, "type"), "float") == 0);
    RANK_CHECK(rank, strcmp(text(before, "reduce"), "sum") == 0);
    RANK_CHECK(rank, integer(before, "count") == 16 && integer(before, "bytes") == 64);
    RANK_CHECK(rank, strcmp(text(own_one, "type"), "12-byte") == 0);
    RANK_CHECK(rank, strcmp(text(own_one, "reduce"), own.name) == 0);
    RANK_CHECK(rank, integer(own_one, "count") == 4 && integer(own_one, "bytes") == 48);
    RANK_CHECK(rank, integer(last, "sequence") == integer(before, "sequence") + 2);
    RANK_CHECK(rank, integer(before, "began_unix_us") <= integer(last, "began_unix_us"));
    RANK_CHECK(rank, json_real_value(json_object_get(last, "took_us")) >= 0);
    json_decref(json);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void completed_operations_are_there(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 3, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, completed_body);
}

/* Ranks with parts of different sizes: each notes its own, and the digest that all have alike. */
static void counts_body(test_rank *rank)
{
    static char digests[3][16];
    const size_t counts[] = {3, 0, 2};
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *request = NULL;
    float parts[5] = {0};
    float whole[5] = {0};
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_GATHER,
                               .send = parts,
                               .recv = whole,
                               .counts = counts,
                               .type = COLL_FLOAT32,
                               .root = rank->rank}; /* it has none */
    RANK_OK(rank, coll_all_gather(comm, parts, whole, 1, COLL_FLOAT32, &rank->error));
    RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
    RANK_OK(rank, coll_request_wait(&request, &rank->error));
    json_t *json = dump(rank->context, NULL);
    const json_t *completed = json_object_get(json, "completed");
    const json_t *last = json_array_get(completed, json_array_size(completed) - 1);
    const json_t *before = json_array_get(completed, json_array_size(completed) - 2);
    (void)snprintf(digests[rank->rank], sizeof digests[0], "%s", text(last, "counts"));
    RANK_CHECK(rank, strlen(digests[rank->rank]) == 8);
    RANK_CHECK(rank, integer(last, "count") == (json_int_t)counts[rank->rank]);
    RANK_CHECK(rank, integer(last, "bytes") == 20 && integer(last, "root") == 0);
    RANK_CHECK(rank, json_object_get(before, "counts") == NULL && integer(before, "count") == 1);
    json_decref(json);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, strcmp(digests[rank->rank], digests[0]) == 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

/* A gather with counts has a root as well; the pairs of an all-to-all have no digest in common. */
static void root_and_counts_body(test_rank *rank)
{
    const size_t counts[] = {3, 0, 2};
    const size_t to[] = {(size_t)rank->rank, (size_t)rank->rank, (size_t)rank->rank};
    const size_t from[] = {0, 1, 2};
    coll_comm *comm = coll_context_world(rank->context);
    float parts[6] = {0};
    float whole[6] = {0};
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_GATHER,
                               .send = parts,
                               .recv = whole,
                               .counts = counts,
                               .type = COLL_FLOAT32,
                               .root = 2};
    RANK_OK(rank, coll_run(comm, &desc, &rank->error));
    RANK_OK(rank, coll_all_to_all_v(comm, parts, to, whole, from, COLL_FLOAT32, &rank->error));
    json_t *json = dump(rank->context, NULL);
    const json_t *completed = json_object_get(json, "completed");
    const json_t *last = json_array_get(completed, json_array_size(completed) - 1);
    const json_t *before = json_array_get(completed, json_array_size(completed) - 2);
    RANK_CHECK(rank, strcmp(text(before, "operation"), "gather") == 0);
    RANK_CHECK(rank, strcmp(text(before, "type"), "float") == 0);
    RANK_CHECK(rank, integer(before, "root") == 2 && strlen(text(before, "counts")) == 8);
    RANK_CHECK(rank, integer(before, "count") == (json_int_t)counts[rank->rank]);
    RANK_CHECK(rank, strcmp(text(last, "operation"), "alltoall") == 0);
    RANK_CHECK(rank, strcmp(text(last, "counts"), "pairwise") == 0);
    RANK_CHECK(rank, integer(last, "count") == 3 * rank->rank);
    RANK_CHECK(rank, integer(last, "bytes") == 12 * rank->rank);
    json_decref(json);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void root_and_counts_are_both_there(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 3, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, root_and_counts_body);
}

static void counts_are_told_by_a_digest(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 3, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, counts_body);
}

/* Rank 0 starts 40 operations that nobody answers yet, and one message: all of them are pending. */
static void pending_body(test_rank *rank)
{
    enum { STARTED = 40 };
    coll_comm *comm = coll_context_world(rank->context);
    static int32_t values[2][STARTED];
    coll_request *requests[STARTED + 1] = {NULL};
    int32_t note = 0;
    for (int i = 0; i < STARTED; i++) {
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = COLL_ALL_REDUCE,
                                   .send = &values[rank->rank][i],
                                   .recv = &values[rank->rank][i],
                                   .count = 1,
                                   .type = COLL_INT32,
                                   .reduce = COLL_SUM};
        if (rank->rank == 1 && i == 0) {
            RANK_OK(rank, coll_receive(comm, &note, 1, COLL_INT32, 0, &rank->error));
        }
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    if (rank->rank == 0) {
        json_t *json = dump(rank->context, NULL);
        const json_t *pending = json_object_get(json, "pending");
        RANK_CHECK(rank, json_array_size(pending) == STARTED);
        RANK_CHECK(rank, json_object_get(json_array_get(pending, 0), "took_us") == NULL);
        json_decref(json);
        RANK_OK(rank, coll_send(comm, &note, 1, COLL_INT32, 1, &rank->error));
    }
    RANK_OK(rank, coll_request_wait_all(requests, STARTED, &rank->error));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void pending_operations_are_there(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, pending_body);
}

/* A broadcast that rank 0 has done, in memory that rank 1 has yet to read, and behind it one that
 * is done altogether: the record says so of the second, also once that has been dropped. */
static void overtaken_body(test_rank *rank)
{
    enum { COUNT = 1 << 20 };
    static sem_t begun;
    static sem_t seen;
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_request *large = NULL;
    coll_request *small = NULL;
    int32_t value = 7;
    RANK_CHECK(rank,
               rank->rank != 0 || (sem_init(&begun, 0, 0) == 0 && sem_init(&seen, 0, 0) == 0));
    RANK_OK(rank, coll_arena_create(comm, COUNT * sizeof value, &arena, &rank->error));
    int32_t *data = coll_arena_data(arena);
    data[COUNT - 1] = rank->rank == 0 ? 7 : 0;
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = COLL_BROADCAST,
                         .send = data,
                         .recv = data,
                         .count = COUNT,
                         .type = COLL_INT32};
    RANK_OK(rank, coll_start(comm, &desc, &large, &rank->error)); /* it is shown, no more */
    if (rank->rank == 1) {
        (void)sem_post(&begun);
        (void)sem_wait(&seen);
        RANK_OK(rank, coll_broadcast(comm, &value, 1, COLL_INT32, 0, &rank->error));
        RANK_OK(rank, coll_request_wait(&large, &rank->error));
        RANK_CHECK(rank, value == 7 && data[COUNT - 1] == 7);
        coll_arena_destroy(arena);
        return;
    }
    (void)sem_wait(&begun);
    desc = (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_BROADCAST,
                          .send = &value,
                          .recv = &value,
                          .count = 1,
                          .type = COLL_INT32};
    bool done = false;
    coll_status status = coll_start(comm, &desc, &small, &rank->error);
    while (status == COLL_OK && !done) {
        status = coll_request_test(&small, &done, &rank->error); /* drops it */
    }
    json_t *json = dump(rank->context, NULL);
    (void)sem_post(&seen);
    const json_t *pending = json_object_get(json, "pending");
    const json_t *completed = json_object_get(json, "completed");
    const json_t *last = json_array_get(completed, json_array_size(completed) - 1);
    RANK_CHECK(rank, status == COLL_OK && done);
    RANK_CHECK(rank, json_array_size(pending) == 1);
    RANK_CHECK(rank, integer(json_array_get(pending, 0), "count") == COUNT);
    RANK_CHECK(rank,
               integer(last, "count") == 1 && strcmp(text(last, "operation"), "broadcast") == 0);
    json_decref(json);
    RANK_OK(rank, coll_request_wait(&large, &rank->error));
    coll_arena_destroy(arena);
}

static void what_is_done_is_not_pending(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, overtaken_body);
}

/* Messages that nobody sends yet, and more operations than the recorder's ring holds: the messages
 * stay pending, the newest of them if they are too many. */
static void old_body(test_rank *rank)
{
    enum { MESSAGES = COLL_FLIGHT_KEPT + 2 };
    int32_t values[MESSAGES] = {0};
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[MESSAGES] = {NULL};
    coll_op_desc desc = {
        .size = sizeof(coll_op_desc), .kind = COLL_RECEIVE, .count = 1, .type = COLL_INT32};
    for (int i = 0; rank->rank == 1 && i < MESSAGES; i++) {
        desc.recv = &values[i];
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    for (int i = 0; i < COLL_FLIGHT_ENTRIES + MESSAGES; i++) {
        RANK_OK(rank, coll_barrier(comm, &rank->error));
    }
    json_t *json = dump(rank->context, NULL);
    const json_t *pending = json_object_get(json, "pending");
    RANK_CHECK(rank, json_array_size(pending) == (rank->rank == 1 ? COLL_FLIGHT_KEPT : 0));
    for (size_t i = 0; i < json_array_size(pending); i++) {
        const json_t *message = json_array_get(pending, i);
        RANK_CHECK(rank, strcmp(text(message, "operation"), "receive") == 0);
        RANK_CHECK(rank, integer(message, "sequence") > MESSAGES - COLL_FLIGHT_KEPT);
        RANK_CHECK(rank, json_object_get(message, "took_us") == NULL);
    }
    json_decref(json);
    RANK_OK(rank, coll_barrier(comm, &rank->error)); /* both have looked before anything is sent */
    for (int i = 0; rank->rank == 0 && i < MESSAGES; i++) {
        RANK_OK(rank, coll_send(comm, &values[0], 1, COLL_INT32, 1, &rank->error));
    }
    RANK_OK(rank, coll_request_wait_all(requests, MESSAGES, &rank->error));
    json = dump(rank->context, NULL);
    RANK_CHECK(rank, json_array_size(json_object_get(json, "pending")) == 0);
    json_decref(json);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void old_operations_stay_pending(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, old_body);
}

/* Uneven ticks are not used: times are the clock's. */
static void uneven_body(test_rank *rank)
{
    const int64_t before_ns = base_now_ns();
    coll_comm *comm = coll_context_world(rank->context);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    const int64_t after_ns = base_now_ns();
    const coll_flight *flight = rank->context->flight;
    const coll_flight_entry *last = &flight->entries[flight->number % COLL_FLIGHT_ENTRIES];
    RANK_CHECK(rank, (int64_t)last->began >= before_ns && last->began <= last->ended);
    RANK_CHECK(rank, (int64_t)last->ended <= after_ns);
    RANK_CHECK(rank, (int64_t)flight->began_ticks <= before_ns);
}

static void uneven_ticks_are_not_used(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    is_uneven = true;
    test_ranks_as_threads(&options, uneven_body);
    test_ranks_as_threads(&options, completed_body);
    is_uneven = false;
}

/* JSON is JSON where the program's numbers have commas. */
static void dumps_know_no_locale(void **state)
{
    (void)state;
    test_directory directory;
    const test_ranks_options options = {.size = 3, .transport = COLL_TRANSPORT_SHM};
    test_directory_make(&directory);
    test_use_comma_locale(&directory);
    test_ranks_as_threads(&options, completed_body);
    assert_non_null(setlocale(LC_ALL, "C"));
    test_directory_remove(&directory);
}

typedef struct watcher {
    coll_context *context;
    atomic_bool over;
    bool broken;
} watcher;

static void *watch(void *user)
{
    watcher *self = user;
    do {
        json_t *json = dump(self->context, "from another thread");
        self->broken = self->broken || json == NULL;
        json_decref(json);
    } while (!atomic_load(&self->over));
    return NULL;
}

static void watched_body(test_rank *rank)
{
    watcher self = {.context = rank->context};
    pthread_t thread;
    coll_comm *comm = coll_context_world(rank->context);
    RANK_CHECK(rank, pthread_create(&thread, NULL, watch, &self) == 0);
    coll_status status = COLL_OK;
    for (int i = 0; i < 3 * ROUNDS && status == COLL_OK; i++) {
        status = coll_barrier(comm, &rank->error);
    }
    atomic_store(&self.over, true);
    (void)pthread_join(thread, NULL);
    RANK_OK(rank, status);
    RANK_CHECK(rank, !self.broken);
}

static void any_thread_may_dump(void **state)
{
    (void)state;
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    test_ranks_as_threads(&options, watched_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completed_operations_are_there),
        cmocka_unit_test(counts_are_told_by_a_digest),
        cmocka_unit_test(root_and_counts_are_both_there),
        cmocka_unit_test(pending_operations_are_there),
        cmocka_unit_test(what_is_done_is_not_pending),
        cmocka_unit_test(old_operations_stay_pending),
        cmocka_unit_test(any_thread_may_dump),
        cmocka_unit_test(uneven_ticks_are_not_used),
        cmocka_unit_test(dumps_know_no_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
