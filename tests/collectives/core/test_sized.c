/* Structs that begin with their size: programs compiled with an older or a newer header than this
 * library's, and programs that set no size. */
#include "common/limits.h"
#include "common/sized.h"
#include "ranks.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

/* ---- the reading alone ---- */

typedef struct version1 {
    size_t size;
    int64_t a;
} version1;

typedef struct version2 {
    size_t size;
    int64_t a;
    int64_t b;
} version2;

static void an_older_struct_lacks_what_is_zero(void **state)
{
    (void)state;
    coll_error error;
    version2 known = {.b = 3};
    const version2 given = {.size = sizeof(version1), .a = 5, .b = 7 /* not the caller's */};
    assert_ok(coll_sized_read(&known, sizeof known, sizeof(version1), &given, "v", &error), &error);
    assert_int_equal(known.size, sizeof known);
    assert_int_equal(known.a, 5);
    assert_int_equal(known.b, 0);
}

static void a_newer_struct_may_say_nothing_new(void **state)
{
    (void)state;
    coll_error error;
    version1 known = {.a = 0};
    version2 given = {.size = sizeof given, .a = 5};
    assert_ok(coll_sized_read(&known, sizeof known, sizeof known, &given, "v", &error), &error);
    assert_int_equal(known.size, sizeof known);
    assert_int_equal(known.a, 5);
    for (size_t i = sizeof known; i < sizeof given; i++) { /* each byte counts */
        given.b = 0;
        ((uint8_t *)&given)[i] = 1;
        assert_status(coll_sized_read(&known, sizeof known, sizeof known, &given, "v", &error),
                      COLL_ERR_UNSUPPORTED);
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "v has a member, at byte %zu,", i);
        assert_non_null(strstr(error.message, wanted));
    }
}

static void a_size_that_cannot_be_is_refused(void **state)
{
    (void)state;
    coll_error error;
    version1 known = {.a = 0};
    union {
        version1 v;
        uint8_t bytes[COLL_SIZED_BYTES_MAX + 1];
    } given = {.bytes = {0}};
    static const size_t wrong[] = {0, 1, sizeof(version1) - 1, COLL_SIZED_BYTES_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        given.v.size = wrong[i];
        assert_status(coll_sized_read(&known, sizeof known, sizeof known, &given, "v", &error),
                      COLL_ERR_INVALID);
        assert_non_null(strstr(error.message, "set it to sizeof(v)"));
    }
    given.v.size = COLL_SIZED_BYTES_MAX;
    assert_ok(coll_sized_read(&known, sizeof known, sizeof known, &given, "v", &error), &error);
}

/* ---- the structs of coll.h ---- */

/* As a header of later says them. */
typedef struct later_options {
    coll_context_options known;
    int64_t added;
} later_options;

typedef struct later_desc {
    coll_op_desc known;
    int64_t added;
} later_desc;

static bool says(const test_rank *rank, const char *words)
{
    return strstr(rank->error.message, words) != NULL;
}

static void context_body(test_rank *rank)
{
    coll_context *context = NULL;
    later_options options = {.known = test_rank_options(rank)};
    options.known.size = 0;
    RANK_CHECK(rank,
               coll_context_create(&options.known, &context, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, says(rank, "coll_context_options.size is 0"));
    options.known.size = sizeof options;
    options.added = 1;
    RANK_CHECK(rank,
               coll_context_create(&options.known, &context, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, says(rank, "coll_context_options has a member"));
    RANK_CHECK(rank, context == NULL);
    options.added = 0;
    RANK_OK(rank, coll_context_create(&options.known, &context, &rank->error));
    coll_context_destroy(context);
}

static void options_carry_their_size(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, context_body);
}

/* A blocking call keeps its operation ready for the next that is like it: a struct of another size
 * is never like it. */
static void desc_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const int32_t mine = rank->rank + 1;
    int32_t sum = 0;
    coll_op *op = NULL;
    coll_request *request = NULL;
    later_desc desc = {.known = {.size = sizeof(coll_op_desc),
                                 .kind = COLL_ALL_REDUCE,
                                 .send = &mine,
                                 .recv = &sum,
                                 .count = 1,
                                 .type = COLL_INT32,
                                 .reduce = COLL_SUM}};
    RANK_OK(rank, coll_run(comm, &desc.known, &rank->error));
    RANK_CHECK(rank, sum == 3);
    desc.known.size = sizeof desc;
    RANK_OK(rank, coll_run(comm, &desc.known, &rank->error));
    RANK_OK(rank, coll_run(comm, &desc.known, &rank->error));
    desc.added = 1;
    RANK_CHECK(rank, coll_run(comm, &desc.known, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, says(rank, "coll_op_desc has a member"));
    RANK_CHECK(rank, coll_op_create(comm, &desc.known, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    desc.known.size = 0;
    RANK_CHECK(rank, coll_run(comm, &desc.known, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, says(rank, "coll_op_desc.size is 0"));
    RANK_CHECK(rank, coll_start(comm, &desc.known, &request, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, op == NULL && request == NULL);
    desc.known.size = sizeof(coll_op_desc); /* what is refused fails nobody's communicator */
    RANK_OK(rank, coll_run(comm, &desc.known, &rank->error));
}

static void operations_carry_their_size(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transports[t]},
                              desc_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_struct_lacks_what_is_zero),
        cmocka_unit_test(a_newer_struct_may_say_nothing_new),
        cmocka_unit_test(a_size_that_cannot_be_is_refused),
        cmocka_unit_test(options_carry_their_size),
        cmocka_unit_test(operations_carry_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
