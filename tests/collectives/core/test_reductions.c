/* Reductions of the program's own: what is refused, what one that is called again may have changed,
 * and vectors of many pieces. The grid has all kinds, algorithms and transports. Ranks are threads. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ranks.h"
#include "support.h"

/* The largest value, and whose it is; of equal ones the first. */
typedef struct best {
    double value;
    int32_t rank;
} best;

static void argmax(void *left, const void *right, size_t count, void *user)
{
    best *l = left;
    const best *r = right;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        l[i] = r[i].value > l[i].value ? r[i] : l[i];
    }
}

static void first(void *left, const void *right, size_t count, void *user)
{
    (void)left;
    (void)right;
    *(size_t *)user += count;
}

static void over_all(int size, test_rank_body body)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (int i = 0; i < 3; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = transports[i]},
                              body);
    }
}

static void refuse(test_rank *rank, const coll_op_desc *desc, const char *message)
{
    coll_comm *comm = coll_context_world(rank->context);
    RANK_CHECK(rank, coll_run(comm, desc, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, strstr(rank->error.message, message) != NULL);
}

/* Nothing that is refused fails the communicator. */
static void refused_body(test_rank *rank)
{
    best mine = {.value = rank->rank};
    best all;
    coll_reduction own = {
        .size = sizeof own, .name = "argmax", .element_bytes = sizeof(best), .combine = argmax};
    coll_op_desc desc = {.size = sizeof desc,
                         .kind = COLL_EXSCAN,
                         .send = &mine,
                         .recv = &all,
                         .count = 1,
                         .reduction = &own};
    refuse(rank, &desc, "reduction argmax has no neutral element");
    desc.kind = COLL_ALL_GATHER;
    refuse(rank, &desc, "not all_gather");
    desc.kind = COLL_ALL_REDUCE;
    desc.reduce = COLL_SUM;
    refuse(rank, &desc, "type and reduce, or a reduction of its own");
    desc.reduce = 0;
    static const char *const names[] = {NULL, "", "sixteen_letters_", "a b", "\"", "größte"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        own.name = names[i];
        refuse(rank, &desc, "the name of a reduction has 1 to 15 letters");
    }
    own.name = "fifteen_letters";
    own.element_bytes = COLL_ELEMENT_BYTES_MAX + 1;
    refuse(rank, &desc, "elements of 4097 bytes: 1 to 4096 can be");
    own.element_bytes = 0;
    refuse(rank, &desc, "elements of 0 bytes");
    own.element_bytes = sizeof(best);
    own.combine = NULL;
    refuse(rank, &desc, "fifteen_letters has no combine");
    own.combine = argmax;
    own.size = 0;
    refuse(rank, &desc, "coll_reduction.size is 0");
    own.size = sizeof own;
    RANK_OK(rank, coll_run(coll_context_world(rank->context), &desc, &rank->error));
    RANK_CHECK(rank, all.value == rank->size - 1);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    over_all(2, refused_body);
}

/* The struct is read at each call, also where the operation is recalled. */
static void changed_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    best mine = {.value = rank->rank, .rank = rank->rank};
    best all;
    size_t calls = 0;
    char name[] = "argmax";
    coll_reduction own = {
        .size = sizeof own, .name = name, .element_bytes = sizeof(best), .combine = argmax};
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = &mine,
                               .recv = &all,
                               .count = 1,
                               .reduction = &own};
    for (int round = 0; round < 6; round++) {
        const bool takes_first = round % 2 != 0;
        own.combine = takes_first ? first : argmax;
        own.user = takes_first ? &calls : NULL;
        memcpy(name, takes_first ? "first_" : "argmax", sizeof name - 1);
        RANK_OK(rank, coll_run(comm, &desc, &rank->error));
        RANK_CHECK(rank, all.rank == (takes_first ? 0 : rank->size - 1));
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void a_changed_reduction_is_another(void **state)
{
    (void)state;
    over_all(3, changed_body);
}

/* Rank 0 gets the neutral element, also where it is alone, and in place. */
static void neutral_body(test_rank *rank)
{
    const best none = {.value = -1, .rank = -1};
    const coll_reduction own = {.size = sizeof own,
                                .name = "argmax",
                                .element_bytes = sizeof(best),
                                .combine = argmax,
                                .neutral = &none};
    for (int in_place = 0; in_place < 2; in_place++) {
        best mine[2] = {{.value = rank->rank, .rank = rank->rank},
                        {.value = rank->size - rank->rank, .rank = rank->rank}};
        best before[2];
        best *recv = in_place == 1 ? mine : before;
        RANK_OK(rank, coll_run(coll_context_world(rank->context),
                               &(coll_op_desc){.size = sizeof(coll_op_desc),
                                               .kind = COLL_EXSCAN,
                                               .send = mine,
                                               .recv = recv,
                                               .count = 2,
                                               .reduction = &own},
                               &rank->error));
        RANK_CHECK(rank, recv[0].rank == rank->rank - 1);
        RANK_CHECK(rank, recv[1].rank == (rank->rank == 0 ? -1 : 0));
    }
}

static void rank_0_gets_the_neutral_element(void **state)
{
    (void)state;
    over_all(1, neutral_body);
    over_all(3, neutral_body);
}

/* Slices and parts longer than a piece of work, which no element may straddle. */
static void long_body(test_rank *rank)
{
    enum { COUNT = 100003 };
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    typedef struct triple {
        int32_t of[3];
    } triple;
    const coll_reduction own = {.size = sizeof own,
                                .name = "first",
                                .element_bytes = sizeof(triple),
                                .combine = first,
                                .user = &(size_t){0}};
    const size_t bytes = sizeof(triple) * COUNT;
    RANK_OK(rank, coll_arena_create(comm, bytes, &arena, &rank->error));
    triple *data = coll_arena_data(arena);
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_SCAN};
    for (size_t k = 0; k < 3; k++) {
        const bool parts = kinds[k] == COLL_REDUCE_SCATTER;
        const size_t count = parts ? COUNT / (size_t)rank->size : COUNT;
        triple *recv = parts ? data + count * (size_t)rank->rank : data;
        for (int i = 0; i < COUNT; i++) {
            data[i] = (triple){{i, -i, rank->rank}};
        }
        RANK_OK(rank, coll_run(comm,
                               &(coll_op_desc){.size = sizeof(coll_op_desc),
                                               .kind = kinds[k],
                                               .send = data,
                                               .recv = recv,
                                               .count = count,
                                               .reduction = &own},
                               &rank->error));
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++) {
            const int32_t index = (int32_t)(i + (size_t)(recv - data));
            wrong += recv[i].of[0] != index || recv[i].of[1] != -index || recv[i].of[2] != 0;
        }
        RANK_CHECK(rank, wrong == 0);
    }
    coll_arena_destroy(arena);
}

static void elements_stay_whole(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          long_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_changed_reduction_is_another),
        cmocka_unit_test(rank_0_gets_the_neutral_element),
        cmocka_unit_test(elements_stay_whole),
    };
    return cmocka_run_group_tests_name("coll-reductions", tests, NULL, NULL);
}
