/* Every operation against the reference, bit for bit, on all ranks. Without arguments: the pairwise
 * combinations of job size, transport, collective, count, type, operation, root, placement and
 * algorithm; and over shared memory a sample of counts about the sizes at which operations change
 * their way, or come to another window. `--exhaustive TRANSPORT RANKS [plenty]`: their full product
 * for one job; of the longest vectors, roots and placements in turn. `--sample SEED CASES`: as
 * many.
 *
 * Ranks go other ways where each has a processor of its own than where they share some. Jobs of
 * three ranks and more are given the former as well (`plenty`), whatever the machine has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "common/kinds.h"
#include "core/op.h"
#include "grid_case.h"
#include "grid_pairs.h"
#include "processors.h"
#include "random.h"
#include "reference.h"
#include "support.h"

/* Under a sanitizer the longest vectors have a quarter of the elements, still of several windows, and the sample
 * has fewer cases. */
enum {
    LONG_COUNT = (1 << (TEST_HAS_SANITIZER ? 18 : 20)) + 3,
    SAMPLE_CASES = TEST_HAS_SANITIZER ? 4 : 10,
};
enum { LONG_RANKS_MAX = 5, ROWS_MAX = 1000 };

enum {
    FACTOR_RANKS,
    FACTOR_TRANSPORT,
    FACTOR_KIND,
    FACTOR_COUNT,
    FACTOR_TYPE,
    FACTOR_REDUCE,
    FACTOR_ROOT,
    FACTOR_PLACEMENT,
    FACTOR_ALGORITHM,
    FACTOR_PLENTY, /* of processors */
    FACTORS,
};

typedef struct kind_level {
    coll_kind kind;
    bool varies;
} kind_level;

static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};
static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                            COLL_TRANSPORT_TCP};
static const kind_level kinds[] = {
    {COLL_ALL_REDUCE, false},    {COLL_REDUCE_SCATTER, false}, {COLL_REDUCE, false},
    {COLL_REDUCE_SCATTER, true}, {COLL_SCAN, false},           {COLL_EXSCAN, false},
    {COLL_ALL_GATHER, false},    {COLL_ALL_GATHER, true},      {COLL_BROADCAST, false},
    {COLL_GATHER, false},        {COLL_GATHER, true},          {COLL_SCATTER, false},
    {COLL_SCATTER, true},        {COLL_ALL_TO_ALL, false},     {COLL_ALL_TO_ALL, true},
    {COLL_SEND, false},
};
/* Maps of one element of the program's own: 12 bytes, 48, which are to be aligned to 16, and nearly as
 * many as may be. */
static const size_t groups[] = {1, 4, 341};
enum { GROUPS = sizeof groups / sizeof groups[0], TYPE_LEVELS = COLL_TYPE_LAST + GROUPS };
enum { REDUCING_KINDS = 6 }; /* the first of them */
enum { COUNTS = 9 };
static const coll_algorithm algorithms[] = {COLL_ALGORITHM_AUTO,
                                            COLL_ALGORITHM_RING,
                                            COLL_ALGORITHM_TREE,
                                            COLL_ALGORITHM_DIRECT,
                                            COLL_ALGORITHM_TWO_LEVEL,
                                            COLL_ALGORITHM_RECURSIVE_DOUBLING,
                                            COLL_ALGORITHM_HALVING_DOUBLING};
#define LENGTH(list) ((int)(sizeof(list) / sizeof(list)[0]))

static bool plenty;

static void set_plenty(bool on)
{
    plenty = on;
    test_processors_claim(on ? COLL_RANKS_MAX : 0);
}

static size_t count_at(int level, int ranks)
{
    const size_t n = (size_t)ranks;
    const size_t counts[COUNTS] = {0, 1, n - 1, n, n + 1, 100, 1000, 10007, LONG_COUNT};
    return counts[level];
}

/* Types, and groups of maps; of these as many as are about as long. */
static grid_case with_type(grid_case c, int level)
{
    c.group = level < COLL_TYPE_LAST ? 0 : groups[level - COLL_TYPE_LAST];
    c.type = (coll_type)(COLL_FLOAT32 + (level < COLL_TYPE_LAST ? level : COLL_TYPE_LAST));
    c.count = c.group > 1 ? (c.count + c.group - 1) / c.group : c.count;
    return c;
}

static grid_case case_of(const pair_row *row, int ranks)
{
    const int last = ranks - 1;
    const int roots[] = {0, last, ranks / 2};
    const kind_level kind = kinds[row->levels[FACTOR_KIND]];
    return with_type((grid_case){.kind = kind.kind,
                                 .varies = kind.varies,
                                 .count = count_at(row->levels[FACTOR_COUNT], ranks),
                                 .reduce = (coll_reduce_op)(COLL_SUM + row->levels[FACTOR_REDUCE]),
                                 .root = roots[row->levels[FACTOR_ROOT]],
                                 .algorithm = algorithms[row->levels[FACTOR_ALGORITHM]],
                                 .placement = (grid_placement)row->levels[FACTOR_PLACEMENT]},
                     row->levels[FACTOR_TYPE]);
}

/* Scans have no averages, and floats no bits. */
static bool takes(coll_kind kind, coll_reduce_op reduce, coll_type type)
{
    if (type > COLL_TYPE_LAST) {
        return reduce == COLL_SUM && coll_kind_reduces(kind);
    }
    return coll_reduce_op_takes(reduce, type) && coll_kind_takes(kind, reduce);
}

/* A million elements for each of 16 ranks are for the long version. */
static bool is_allowed(const pair_row *row, int factors)
{
    (void)factors;
    const int ranks = row->levels[FACTOR_RANKS];
    const int type = row->levels[FACTOR_TYPE];
    const int reduce = row->levels[FACTOR_REDUCE];
    const int kind = row->levels[FACTOR_KIND];
    if ((reduce >= 0 || type >= COLL_TYPE_LAST) &&
        !takes(kind >= 0 ? kinds[kind].kind : COLL_ALL_REDUCE,
               (coll_reduce_op)(COLL_SUM + (reduce >= 0 ? reduce : 0)),
               type >= 0 ? (coll_type)(COLL_FLOAT32 + type) : COLL_INT32)) {
        return false;
    }
    return row->levels[FACTOR_COUNT] != COUNTS - 1 || ranks < 0 || sizes[ranks] <= LONG_RANKS_MAX;
}

typedef struct pair_job {
    const pair_row *rows;
    size_t row_count;
    int size_level;
    int transport_level;
    int plenty_level;
    size_t run; /* of rank 0 */
} pair_job;

static bool is_of_job(const pair_job *job, const pair_row *row)
{
    return row->levels[FACTOR_RANKS] == job->size_level &&
           row->levels[FACTOR_TRANSPORT] == job->transport_level &&
           row->levels[FACTOR_PLENTY] == job->plenty_level;
}

static void open_rank(grid_rank *g, test_rank *rank, size_t bytes)
{
    *g = (grid_rank){.rank = rank, .comm = coll_context_world(rank->context), .bytes = bytes};
    RANK_CHECK(rank, !plenty || rank->context->spins > 0);
    RANK_OK(rank, coll_arena_create(g->comm, bytes, &g->arena, &rank->error));
    g->memory = malloc(bytes);
    RANK_CHECK(rank, g->memory != NULL);
}

static void close_rank(grid_rank *g)
{
    coll_arena_destroy(g->arena);
    free(g->memory);
}

static void pair_body(test_rank *rank)
{
    pair_job *job = rank->user;
    grid_rank g;
    size_t bytes = 4096;
    for (size_t i = 0; i < job->row_count; i++) {
        const grid_case c = case_of(&job->rows[i], rank->size);
        const size_t needed = grid_case_bytes(&c, rank->size);
        bytes = is_of_job(job, &job->rows[i]) && needed > bytes ? needed : bytes;
    }
    open_rank(&g, rank, bytes);
    bool good = g.memory != NULL;
    for (size_t i = 0; good && i < job->row_count; i++) {
        if (is_of_job(job, &job->rows[i])) {
            const grid_case c = case_of(&job->rows[i], rank->size);
            good = grid_case_run(&g, &c);
            if (rank->rank == 0) {
                job->run++;
            }
        }
    }
    close_rank(&g);
}

static void test_pairs(void **state)
{
    static pair_row rows[ROWS_MAX];
    static const int level_counts[FACTORS] = {
        [FACTOR_RANKS] = LENGTH(sizes),
        [FACTOR_TRANSPORT] = LENGTH(transports),
        [FACTOR_KIND] = LENGTH(kinds),
        [FACTOR_COUNT] = COUNTS,
        [FACTOR_TYPE] = TYPE_LEVELS,
        [FACTOR_REDUCE] = COLL_REDUCE_OP_LAST,
        [FACTOR_ROOT] = 3,
        [FACTOR_PLACEMENT] = GRID_PLACEMENTS,
        [FACTOR_ALGORITHM] = LENGTH(algorithms),
        [FACTOR_PLENTY] = 2,
    };
    size_t run = 0;
    (void)state;
    const size_t row_count = grid_pairs(level_counts, FACTORS, is_allowed, rows, ROWS_MAX);
    assert_in_range(row_count, 1, ROWS_MAX);
    for (int i = 0; i < LENGTH(transports) * LENGTH(sizes) * 2; i++) {
        pair_job job = {.rows = rows,
                        .row_count = row_count,
                        .size_level = i / 2 % LENGTH(sizes),
                        .transport_level = i / 2 / LENGTH(sizes),
                        .plenty_level = i % 2};
        set_plenty(job.plenty_level != 0);
        test_ranks_as_threads(&(test_ranks_options){.size = sizes[job.size_level],
                                                    .transport = transports[job.transport_level],
                                                    .user = &job},
                              pair_body);
        run += job.run;
    }
    assert_int_equal(run, row_count);
    print_message("%zu cases\n", run);
}

/* A count about one of the edges: of slots, windows, and what one piece of work is. */
static size_t sampled_count(uint64_t *state, const grid_case *c, int ranks)
{
    static const size_t edges[] = {56,        2 << 10,        8 << 10,    16 << 10,
                                   64 << 10,  128 << 10,      256 << 10,  512 << 10,
                                   768 << 10, (1 << 20) - 64, 1536 << 10, 3 << 20};
    enum { MOST_BYTES = 4 << 20 };
    const size_t size = reference_size_bytes(c->type) * (c->group > 1 ? c->group : 1);
    const bool parts = c->kind == COLL_REDUCE_SCATTER || c->kind == COLL_ALL_TO_ALL ||
                       c->kind == COLL_SCATTER || c->kind == COLL_ALL_GATHER ||
                       c->kind == COLL_GATHER;
    const size_t n = parts ? (size_t)ranks : 1;
    size_t count = edges[test_random(state) % LENGTH(edges)] / size;
    count = test_random(state) % 2 == 0 ? count : count / n;
    count = count > MOST_BYTES / size / n ? MOST_BYTES / size / n : count;
    const size_t aside = test_random(state) % 3;
    return aside == 0 ? count : aside == 1 ? count + 1 : count - (count > 0);
}

static struct {
    uint64_t seed;
    int cases; /* for each number of ranks */
} sample = {1, SAMPLE_CASES};

static void sample_body(test_rank *rank)
{
    enum { DIRECT_SHARE = 8 }; /* of so many, all but one are direct: the others need no sample */
    grid_rank g;
    uint64_t state = sample.seed;
    const grid_case largest = {.kind = COLL_ALL_TO_ALL, .count = 4 << 20, .type = COLL_INT8};
    open_rank(&g, rank, 2 * grid_case_bytes(&largest, 1) + (1 << 20));
    bool good = g.memory != NULL;
    for (int i = 0; good && i < sample.cases; i++) {
        const kind_level kind = kinds[test_random(&state) % LENGTH(kinds)];
        grid_case c = {
            .kind = kind.kind, .varies = kind.varies, .algorithm = COLL_ALGORITHM_DIRECT};
        c = with_type(c, (int)(test_random(&state) % TYPE_LEVELS));
        c.reduce = (coll_reduce_op)(COLL_SUM + test_random(&state) % COLL_REDUCE_OP_LAST);
        c.reduce =
            takes(c.kind, c.reduce, COLL_INT32) && c.type <= COLL_TYPE_LAST ? c.reduce : COLL_SUM;
        c = takes(c.kind, c.reduce, c.type) ? c : with_type(c, COLL_UINT32 - COLL_FLOAT32);
        c.root = (int)(test_random(&state) % (unsigned)rank->size);
        c.placement = (grid_placement)(test_random(&state) % GRID_PLACEMENTS);
        if (test_random(&state) % DIRECT_SHARE == 0) {
            c.algorithm = algorithms[test_random(&state) % LENGTH(algorithms)];
        }
        c.count = sampled_count(&state, &c, rank->size);
        good = grid_case_bytes(&c, rank->size) > g.bytes || grid_case_run(&g, &c);
    }
    close_rank(&g);
}

static void test_sample(void **state)
{
    static const int ranks[] = {2, 3, 4, 8};
    (void)state;
    for (int s = 0; s < 2 * LENGTH(ranks); s++) {
        set_plenty(s % 2 != 0);
        test_ranks_as_threads(
            &(test_ranks_options){.size = ranks[s / 2], .transport = COLL_TRANSPORT_SHM},
            sample_body);
    }
}

/* The longest: each algorithm with the next root and placement. */
static bool run_long(grid_rank *g, grid_case c)
{
    for (int a = 0; a < LENGTH(algorithms); a++) {
        c.algorithm = algorithms[a];
        c.root = (int)(g->salt % (unsigned)g->rank->size);
        c.placement = (grid_placement)(g->salt % GRID_PLACEMENTS);
        if (!grid_case_run(g, &c)) {
            return false;
        }
    }
    return true;
}

/* All placements, roots and algorithms of one collective, count, type and operation. */
static bool run_block(grid_rank *g, grid_case c)
{
    const bool rooted = c.kind == COLL_BROADCAST || c.kind == COLL_REDUCE ||
                        c.kind == COLL_GATHER || c.kind == COLL_SCATTER;
    if (c.count * (c.group > 1 ? c.group : 1) >= LONG_COUNT) {
        return run_long(g, c);
    }
    for (c.root = 0; c.root < (rooted ? g->rank->size : 1); c.root++) {
        for (int a = 0; a < LENGTH(algorithms); a++) {
            c.algorithm = algorithms[a];
            for (int where = 0; where < GRID_PLACEMENTS; where++) {
                c.placement = (grid_placement)where;
                if (!grid_case_run(g, &c)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool run_types(grid_rank *g, int kind, size_t count)
{
    for (int type = 0; type < TYPE_LEVELS; type++) {
        for (int reduce = COLL_SUM;
             reduce <= (kind < REDUCING_KINDS ? COLL_REDUCE_OP_LAST : COLL_SUM); reduce++) {
            const grid_case c = {.kind = kinds[kind].kind,
                                 .varies = kinds[kind].varies,
                                 .count = count,
                                 .reduce = (coll_reduce_op)reduce};
            if (takes(c.kind, c.reduce, (coll_type)(COLL_FLOAT32 + type)) &&
                !run_block(g, with_type(c, type))) {
                return false;
            }
        }
    }
    return true;
}

static void exhaustive_body(test_rank *rank)
{
    const grid_case largest = {
        .kind = COLL_ALL_TO_ALL, .count = LONG_COUNT + 1000, .type = REFERENCE_MAPS};
    grid_rank g;
    open_rank(&g, rank, grid_case_bytes(&largest, rank->size));
    bool good = g.memory != NULL;
    for (int level = 0; good && level < COUNTS; level++) {
        for (int kind = 0; good && kind < LENGTH(kinds); kind++) {
            good = run_types(&g, kind, count_at(level, rank->size));
            if (rank->rank == 0) {
                print_message("%s%s × %zu\n", coll_kind_name(kinds[kind].kind),
                              kinds[kind].varies ? " (varying)" : "", count_at(level, rank->size));
            }
        }
    }
    close_rank(&g);
}

static test_ranks_options exhaustive_options;

static void test_product(void **state)
{
    (void)state;
    test_ranks_as_threads(&exhaustive_options, exhaustive_body);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest pairs[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_sample)};
    const struct CMUnitTest samples[] = {cmocka_unit_test(test_sample)};
    const struct CMUnitTest product[] = {cmocka_unit_test(test_product)};
    if (argc == 4 && strcmp(argv[1], "--sample") == 0) {
        sample.seed = strtoull(argv[2], NULL, 10);
        sample.cases = (int)strtol(argv[3], NULL, 10);
        return cmocka_run_group_tests(samples, NULL, NULL);
    }
    set_plenty(argc == 5 && strcmp(argv[4], "plenty") == 0);
    if ((argc != 4 && !plenty) || strcmp(argv[1], "--exhaustive") != 0) {
        return argc == 1 ? cmocka_run_group_tests(pairs, NULL, NULL) : 2;
    }
    coll_error error;
    exhaustive_options.size = (int)strtol(argv[3], NULL, 10);
    exhaustive_options.timeout_ns = 600 * BASE_NS_PER_S;
    if (exhaustive_options.size < 1 || exhaustive_options.size > 64 ||
        coll_transport_parse(argv[2], &exhaustive_options.transport, &error) != COLL_OK) {
        return 2;
    }
    return cmocka_run_group_tests(product, NULL, NULL);
}
