/* The cost model and its choice, the file that keeps its figures, and the ways to force an
 * algorithm. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "calibrate/tune_file.h"
#include "common/kinds.h"
#include "ranks.h"
#include "support.h"

static const coll_costs fast_links = {
    .inside = {20, 5, 1}, .between = {20, 5, 1}, .reduce_byte_ns = 0.02, .start_us = 50};
static const coll_costs slow_between = {
    .inside = {1, 0.5, 0.1}, .between = {50, 10, 8}, .reduce_byte_ns = 0.02, .start_us = 100};

static coll_layout one_host(int ranks)
{
    return (coll_layout){.ranks = ranks,
                         .hosts = 1,
                         .host_ranks_max = ranks,
                         .host_ranks_min = ranks,
                         .contiguous = true,
                         .aligned = true};
}

static coll_layout even_hosts(int hosts, int ranks_each)
{
    return (coll_layout){.ranks = hosts * ranks_each,
                         .hosts = hosts,
                         .host_ranks_max = ranks_each,
                         .host_ranks_min = ranks_each,
                         .contiguous = true,
                         .aligned = (ranks_each & (ranks_each - 1)) == 0};
}

static bool is_close(double a, double b)
{
    return a > b - 1e-6 * b && a < b + 1e-6 * b;
}

/* The formulas of docs/COLLECTIVES.md, written out for 8 ranks and a megabyte. */
static void test_formulas(void **state)
{
    (void)state;
    const coll_layout eight = one_host(8);
    const double start = 50;
    const double a = 20;
    const double o = 5;
    const double s = 1e6 / 1000; /* µs per ns and byte */
    const double b = 1;
    const double g = 0.02;
    const double part = 7.0 / 8.0 * s;
    const coll_costs *c = &fast_links;
    const coll_kind kind = COLL_ALL_REDUCE;
    assert_true(is_close(coll_cost_us(c, &eight, kind, COLL_ALGORITHM_RING, 1000000),
                         start + 14 * a + part * (2 * b + g)));
    assert_true(is_close(coll_cost_us(c, &eight, kind, COLL_ALGORITHM_DIRECT, 1000000),
                         start + 2 * (a + 6 * o) + part * (2 * b + g)));
    assert_true(is_close(coll_cost_us(c, &eight, kind, COLL_ALGORITHM_RECURSIVE_DOUBLING, 1000000),
                         start + 3 * (a + s * (b + g))));
    assert_true(is_close(coll_cost_us(c, &eight, kind, COLL_ALGORITHM_HALVING_DOUBLING, 1000000),
                         start + 6 * a + part * (2 * b + g)));
    assert_true(is_close(coll_cost_us(c, &eight, kind, COLL_ALGORITHM_TREE, 1000000),
                         start + 6 * a + s * (2 * b + g) + 6 * 32.768 * b));
    const coll_layout alone = one_host(1);
    assert_true(coll_cost_us(c, &alone, kind, COLL_ALGORITHM_RING, 1000) == 0.0);
}

/* More bytes never cost less, and no price is negative. */
static void test_prices_rise(void **state)
{
    (void)state;
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_KIND_LAST; kind++) {
        for (int algorithm = COLL_ALGORITHM_RING; algorithm <= COLL_ALGORITHM_LAST; algorithm++) {
            for (int ranks = 2; ranks <= 64; ranks++) {
                const coll_layout layouts[] = {one_host(ranks), even_hosts(ranks, 1),
                                               even_hosts(ranks, 3)};
                for (int i = 0; i < 3 && coll_kind_has_plans((coll_kind)kind); i++) {
                    double before = 0;
                    for (size_t bytes = 1; bytes < (size_t)1 << 32; bytes *= 8) {
                        const double cost =
                            coll_cost_us(&slow_between, &layouts[i], (coll_kind)kind,
                                         (coll_algorithm)algorithm, bytes);
                        assert_true(cost >= before && cost > 100);
                        before = cost;
                    }
                }
            }
        }
    }
}

/* Few rounds for short vectors, few bytes for long ones, two levels between slow hosts where halving would need more
 * rounds; and only what has the canonical order. */
static void test_choice(void **state)
{
    (void)state;
    const coll_layout sixteen = one_host(16);
    const coll_layout hosts = even_hosts(4, 8);
    const coll_layout threes = even_hosts(4, 3);
    const coll_kind kind = COLL_ALL_REDUCE;
    assert_int_equal(coll_cost_choose(&fast_links, &sixteen, kind, 64),
                     COLL_ALGORITHM_RECURSIVE_DOUBLING);
    assert_int_equal(coll_cost_choose(&fast_links, &sixteen, kind, 1 << 26),
                     COLL_ALGORITHM_HALVING_DOUBLING);
    assert_int_equal(coll_cost_choose(&slow_between, &hosts, kind, 1 << 20),
                     COLL_ALGORITHM_HALVING_DOUBLING);
    const coll_layout three_hosts = even_hosts(3, 2);
    assert_int_equal(coll_cost_choose(&slow_between, &three_hosts, kind, 1 << 20),
                     COLL_ALGORITHM_TWO_LEVEL);
    assert_int_not_equal(coll_cost_choose(&slow_between, &threes, kind, 1 << 20),
                         COLL_ALGORITHM_TWO_LEVEL);
    assert_false(coll_cost_is_eligible(&sixteen, kind, COLL_ALGORITHM_RING));
    assert_false(coll_cost_is_eligible(&sixteen, COLL_REDUCE, COLL_ALGORITHM_TREE));
    assert_false(coll_cost_is_eligible(&threes, kind, COLL_ALGORITHM_TWO_LEVEL));
    assert_true(coll_cost_is_eligible(&hosts, kind, COLL_ALGORITHM_TWO_LEVEL));
    assert_false(coll_cost_is_eligible(&sixteen, kind, COLL_ALGORITHM_AUTO));
    assert_false(coll_cost_is_eligible(&sixteen, kind, COLL_ALGORITHM_NATIVE));
    assert_true(coll_cost_is_eligible(&sixteen, COLL_ALL_GATHER, COLL_ALGORITHM_RING));
    for (size_t bytes = 1; bytes < (size_t)1 << 32; bytes *= 2) {
        for (int ranks = 2; ranks <= 64; ranks++) {
            const coll_layout layout = one_host(ranks);
            const coll_algorithm best = coll_cost_choose(&fast_links, &layout, kind, bytes);
            assert_true(coll_cost_is_eligible(&layout, kind, best));
            assert_true(coll_cost_us(&fast_links, &layout, kind, best, bytes) ==
                        coll_cost_us(&fast_links, &layout, kind, COLL_ALGORITHM_AUTO, bytes));
        }
    }
}

static void test_file_text(void **state)
{
    (void)state;
    static const char good[] =
        "# libcoll costs 1\nkey k\ninside_latency_us 1\ninside_message_us 2\n"
        "inside_byte_ns 3\nbetween_latency_us 4.5\nbetween_message_us 5\n"
        "between_byte_ns 6\nreduce_byte_ns 7\nstart_us 8e1\n";
    coll_costs costs;
    bool found = false;
    coll_error error;
    assert_ok(coll_tune_file_parse(good, "k", &costs, &found, &error), &error);
    assert_true(found && costs.inside.byte_ns == 3.0 && costs.between.latency_us == 4.5 &&
                costs.start_us == 80.0);
    assert_ok(coll_tune_file_parse(good, "another", &costs, &found, &error), &error);
    assert_false(found);
    assert_ok(coll_tune_file_parse(good, "", &costs, &found, &error), &error);
    assert_false(found);
    assert_status(coll_tune_file_parse("[section]\n", "k", &costs, &found, &error),
                  COLL_ERR_INVALID);
    for (size_t cut = strlen("# libcoll costs 1\nkey k\n"); cut < sizeof good - 1; cut++) {
        char text[sizeof good] = "";
        memcpy(text, good, cut);
        assert_status(coll_tune_file_parse(text, "k", &costs, &found, &error), COLL_ERR_INVALID);
        assert_false(found);
    }
    static const char *const wrong[] = {"nan", "inf", "-1", "1e13", "", "7 7", "0x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[sizeof good + 8];
        (void)snprintf(text, sizeof text, "%.*s %s\nstart_us 8\n",
                       (int)(strstr(good, "reduce_byte_ns") - good) + 14, good, wrong[i]);
        assert_status(coll_tune_file_parse(text, "k", &costs, &found, &error), COLL_ERR_INVALID);
    }
}

/* Programs of all languages may share a file. */
static void test_file_has_points(void **state)
{
    (void)state;
    test_directory directory;
    coll_error error;
    base_error failure;
    coll_costs costs;
    bool found = false;
    void *text = NULL;
    size_t size_bytes = 0;
    test_directory_make(&directory);
    test_use_comma_locale(&directory);
    const char *path = test_directory_path(&directory, "costs");
    assert_ok(coll_tune_file_write(path, "k", &slow_between, &error), &error);
    assert_ok(coll_tune_file_read(path, "k", &costs, &found, &error), &error);
    assert_non_null(setlocale(LC_ALL, "C"));
    assert_true(found && memcmp(&costs, &slow_between, sizeof costs) == 0);
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &failure), &failure);
    assert_non_null(strstr(text, "inside_message_us 0.5\n"));
    free(text);
    test_directory_remove(&directory);
}

typedef struct cached {
    const char *path;
    coll_status status;
    double start_us;
    coll_algorithm algorithm; /* of the options */
    coll_tcp_auth tcp_auth;
    const char *interface;
    coll_algorithm in_use;
} cached;

static void cached_body(test_rank *rank)
{
    cached *c = rank->user;
    coll_context *context = NULL;
    coll_context_options options = test_rank_options(rank);
    options.tune_path = rank->rank == 0 ? c->path : NULL;
    options.algorithm = c->algorithm;
    options.tcp_auth = c->tcp_auth;
    options.interface = c->interface;
    const coll_status status = coll_context_create(&options, &context, &rank->error);
    RANK_CHECK(rank, status == c->status || (status != COLL_OK && c->status != COLL_OK));
    if (status == COLL_OK) {
        const coll_costs *costs = coll_tune_costs(context);
        RANK_CHECK(rank, c->start_us == 0 || (costs != NULL && costs->start_us == c->start_us));
        RANK_CHECK(rank, coll_context_algorithm(context) == c->in_use);
        coll_context_destroy(context);
    }
}

static void create_contexts(cached c, coll_transport transport)
{
    test_ranks_as_threads(
        &(test_ranks_options){.size = 3, .transport = transport, .user = &c, .bare = true},
        cached_body);
}

/* Another time to start in a file of costs. */
static void change_start(const char *path, int start_us)
{
    base_error failure;
    void *text = NULL;
    size_t size_bytes = 0;
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &failure), &failure);
    char *last = strstr(text, "start_us ");
    assert_non_null(last);
    char changed[4096];
    const int used = snprintf(changed, sizeof changed, "%.*sstart_us %d\n",
                              (int)(last - (char *)text), (char *)text, start_us);
    assert_ok(base_file_write(path, changed, (size_t)used, &failure), &failure);
    free(text);
}

static void assert_start(const char *path, int start_us, bool is_there)
{
    base_error failure;
    void *text = NULL;
    size_t size_bytes = 0;
    char line[32];
    (void)snprintf(line, sizeof line, "start_us %d\n", start_us);
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &failure), &failure);
    assert_int_equal(strstr(text, line) != NULL, is_there);
    free(text);
}

/* Figures are measured anew where frames carry something else, or go another way. */
static void test_file_is_for_one_wire(void **state)
{
    (void)state;
    static const cached others[] = {{.tcp_auth = COLL_TCP_AUTH_OFF},
                                    {.tcp_auth = COLL_TCP_AUTH_ENCRYPT},
                                    {.interface = "127.0.0.1"}};
    test_directory directory;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "costs");
    for (int i = 0; i < 3; i++) {
        cached other = others[i];
        other.path = path;
        create_contexts((cached){.path = path}, COLL_TRANSPORT_TCP);
        change_start(path, 4321);
        create_contexts((cached){.path = path, .start_us = 4321}, COLL_TRANSPORT_TCP);
        assert_start(path, 4321, true);
        create_contexts(other, COLL_TRANSPORT_TCP);
        assert_start(path, 4321, false);
    }
    test_directory_remove(&directory);
}

/* Measured once and kept; the second time the file's figures are taken, which the test changes to
 * see it. Somebody else's file is left alone. */
static void test_file_is_used(void **state)
{
    (void)state;
    test_directory directory;
    base_error failure;
    void *text = NULL;
    size_t size_bytes = 0;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "costs");
    create_contexts((cached){.path = path}, COLL_TRANSPORT_ZMQ);
    change_start(path, 4321);
    create_contexts((cached){.path = path, .start_us = 4321}, COLL_TRANSPORT_ZMQ);
    assert_ok(base_file_write(path, "mine\n", 5, &failure), &failure);
    create_contexts((cached){.path = path, .status = COLL_ERR_INVALID}, COLL_TRANSPORT_ZMQ);
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &failure), &failure);
    assert_string_equal(text, "mine\n");
    free(text);
    const char *pipe = test_directory_path(&directory, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0); /* nobody writes to it */
    create_contexts((cached){.path = pipe, .status = COLL_ERR_INVALID}, COLL_TRANSPORT_ZMQ);
    create_contexts((cached){.path = test_directory_path(&directory, "no/such/directory"),
                             .status = COLL_ERR_IO},
                    COLL_TRANSPORT_ZMQ);
    test_directory_remove(&directory);
}

/* The environment names a file where the program does not; an empty name is none. What cannot be
 * read or written is no error then. */
static void test_environment_names_file(void **state)
{
    (void)state;
    static const char variable[] = "RINGFENCE_COLL_TUNE_FILE";
    test_directory directory;
    base_error failure;
    void *text = NULL;
    size_t size_bytes = 0;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "costs");
    const char *other = test_directory_path(&directory, "other");
    assert_int_equal(setenv(variable, path, 1), 0);
    create_contexts((cached){.path = other}, COLL_TRANSPORT_ZMQ);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    create_contexts((cached){.path = NULL}, COLL_TRANSPORT_ZMQ);
    assert_int_equal(access(path, F_OK), 0);
    change_start(path, 4321);
    create_contexts((cached){.start_us = 4321}, COLL_TRANSPORT_ZMQ);
    assert_ok(base_file_write(path, "mine\n", 5, &failure), &failure);
    create_contexts((cached){.path = NULL}, COLL_TRANSPORT_ZMQ);
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &failure), &failure);
    assert_string_equal(text, "mine\n"); /* neither an error nor written over */
    free(text);
    assert_int_equal(setenv(variable, test_directory_path(&directory, "no/such"), 1), 0);
    create_contexts((cached){.path = NULL}, COLL_TRANSPORT_ZMQ);
    assert_int_equal(setenv(variable, "", 1), 0);
    create_contexts((cached){.path = NULL}, COLL_TRANSPORT_ZMQ);
    assert_int_equal(unsetenv(variable), 0);
    test_directory_remove(&directory);
}

/* A disk that takes no more: reported, and half a file is not left for the next job. */
static void test_full_disk(void **state)
{
    (void)state;
    test_directory directory;
    struct rlimit before;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "costs");
    const char *half = test_directory_path(&directory, "costs.tmp");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 20, .rlim_max = before.rlim_max};
    void (*const on_excess)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    create_contexts((cached){.path = path, .status = COLL_ERR_IO}, COLL_TRANSPORT_TCP);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, on_excess);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(half, F_OK), 0);
    create_contexts((cached){.path = path}, COLL_TRANSPORT_TCP);
    assert_int_equal(access(path, F_OK), 0);
    test_directory_remove(&directory);
}

static coll_status exchange_alone(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, coll_error *reterr)
{
    (void)user, (void)deadline_ns, (void)reterr;
    memcpy(all, mine, size_bytes);
    return COLL_OK;
}

/* The environment decides where the program does not; an unknown name lists the known ones. */
static void test_environment(void **state)
{
    (void)state;
    static const char variable[] = "RINGFENCE_COLL_ALGORITHM";
    coll_context *context = NULL;
    coll_error error;
    assert_int_equal(setenv(variable, "halving_doubling", 1), 0);
    create_contexts((cached){.in_use = COLL_ALGORITHM_HALVING_DOUBLING}, COLL_TRANSPORT_ZMQ);
    create_contexts((cached){.in_use = COLL_ALGORITHM_HALVING_DOUBLING}, COLL_TRANSPORT_SHM);
    create_contexts((cached){.algorithm = COLL_ALGORITHM_RING, .in_use = COLL_ALGORITHM_RING},
                    COLL_TRANSPORT_SHM);
    assert_int_equal(setenv(variable, "fastest", 1), 0);
    const coll_context_options options = {
        .size = sizeof(coll_context_options), .world_size = 1, .exchange = exchange_alone};
    assert_status(coll_context_create(&options, &context, &error), COLL_ERR_INVALID);
    assert_non_null(strstr(error.message, variable));
    assert_non_null(strstr(error.message, "fastest"));
    assert_non_null(strstr(error.message, "halving_doubling, two_level"));
    assert_int_equal(unsetenv(variable), 0);
    create_contexts((cached){.in_use = COLL_ALGORITHM_DIRECT}, COLL_TRANSPORT_SHM);
}

static void disagree_body(test_rank *rank)
{
    coll_context *context = NULL;
    coll_context_options options = test_rank_options(rank);
    options.algorithm = rank->rank == 1 ? COLL_ALGORITHM_RING : COLL_ALGORITHM_AUTO;
    RANK_CHECK(rank, coll_context_create(&options, &context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, "ring") != NULL &&
                         strstr(rank->error.message, "auto") != NULL);
}

static void test_ranks_disagree(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, disagree_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_prices_rise),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_file_text),
        cmocka_unit_test(test_file_is_used),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_ranks_disagree),
        cmocka_unit_test(test_file_has_points),
        cmocka_unit_test(test_environment_names_file),
        cmocka_unit_test(test_file_is_for_one_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
