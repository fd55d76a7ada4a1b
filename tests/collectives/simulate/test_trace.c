/* Traces: a schedule as a text that a person reads. What is checked of it: the ring's on three ranks
 * to the letter; and of every algorithm, that each rank ends with the same complete sums, in the
 * canonical order where the algorithm promises it. */
#include "trace_draw.h"

#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "support.h"

static trace_result played;

/* Plays a plan. Whether its order is canonical, as the plan says of itself; test_plan.c tries that. */
static bool run(coll_algorithm algorithm, coll_kind kind, int ranks, int per_host)
{
    static uint16_t host_of[TRACE_RANKS_MAX];
    static uint16_t words[COLL_HOSTS_WORDS(TRACE_RANKS_MAX)];
    static coll_hosts hosts; /* the plan keeps it */
    coll_error error;
    for (int rank = 0; rank < ranks; rank++) {
        host_of[rank] = (uint16_t)(rank / per_host);
    }
    coll_hosts_make(&hosts, host_of, ranks, words);
    const coll_plan plan = {
        .algorithm = algorithm, .kind = kind, .ranks = ranks, .root = ranks / 3, .hosts = &hosts};
    const coll_status status = trace_run(&plan, &played, &error);
    if (status != COLL_OK) {
        fail_msg("%s, %s, %d ranks: %s", coll_algorithm_name(algorithm), coll_kind_name(kind),
                 ranks, error.message);
    }
    return coll_plan_is_canonical(&plan);
}

/* Fails with what was played, and on how many hosts. */
static void fail_end(int per_host, int rank, int block, const char *held, const char *expected)
{
    fail_msg("%s by %s, %d ranks, %d per host: rank %d has '%s' of block %d, not '%s'",
             coll_kind_name(played.plan.kind), coll_algorithm_name(played.plan.algorithm),
             played.plan.ranks, per_host, rank, held, block, expected);
}

/* Whether OUTPUT has the block in the end. */
static bool receives(int rank, int block)
{
    switch (played.plan.kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        return rank == played.plan.root;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        return block == rank;
    default:
        return true;
    }
}

/* Writes tree(n) = tree(p) + tree(n - p), where p is the largest power of two below n. */
static void write_canonical(int first, int count, int block, FILE *out)
{
    int half = 1;
    if (count == 1) {
        (void)fprintf(out, "%c%d", 'A' + block, first);
        return;
    }
    while (2 * half < count) {
        half *= 2;
    }
    (void)fputs(half > 1 ? "(" : "", out);
    write_canonical(first, half, block, out);
    (void)fputs(half > 1 ? ")+" : "+", out);
    (void)fputs(count - half > 1 ? "(" : "", out);
    write_canonical(first + half, count - half, block, out);
    (void)fputs(count - half > 1 ? ")" : "", out);
}

/* Writes ((A0+A1)+A2)+A3. */
static void write_chain(int count, int block, FILE *out)
{
    for (int i = 2; i < count; i++) {
        (void)fputc('(', out);
    }
    for (int i = 0; i < count; i++) {
        (void)fprintf(out, "%s%c%d%s", i == 0 ? "" : "+", 'A' + block, i,
                      i > 0 && i < count - 1 ? ")" : "");
    }
}

/* What a rank must have of the block, where the order is canonical or nothing is combined; empty
 * where the order is the algorithm's own. */
static void expect(bool canonical, int rank, int block, char *text, size_t size_bytes)
{
    FILE *out = fmemopen(text, size_bytes, "w");
    assert_non_null(out);
    switch (played.plan.kind) {
    case COLL_BROADCAST:
    case COLL_SCATTER:
        (void)fprintf(out, "%c%d", 'A' + block, played.plan.root);
        break;
    case COLL_ALL_TO_ALL:
        (void)fprintf(out, "%c%d", 'A' + rank, block);
        break;
    case COLL_ALL_GATHER:
    case COLL_GATHER:
        (void)fprintf(out, "%c%d", 'A' + block, block);
        break;
    case COLL_SCAN:
    case COLL_EXSCAN:
        if (rank == 0 && played.plan.kind == COLL_EXSCAN) {
            (void)fputs("0", out);
        } else if (canonical) {
            write_canonical(0, played.plan.kind == COLL_SCAN ? rank + 1 : rank, block, out);
        } else {
            write_chain(played.plan.kind == COLL_SCAN ? rank + 1 : rank, block, out);
        }
        break;
    default:
        if (canonical) {
            write_canonical(0, played.plan.ranks, block, out);
        }
        break;
    }
    (void)fputc('\0', out);
    assert_int_equal(fclose(out), 0);
}

/* Each rank ends with what it should; the ranks agree on the order of every block. */
static void check_end(bool canonical, int per_host)
{
    const trace_cell(*cells)[TRACE_BLOCKS_MAX] = played.cells[played.round_count];
    for (int block = 0; block < played.block_count; block++) {
        const trace_value *first = NULL;
        for (int rank = 0; rank < played.plan.ranks; rank++) {
            const trace_cell *cell = &cells[rank][block];
            char expected[TRACE_TEXT_BYTES];
            if (!receives(rank, block)) {
                continue;
            }
            expect(canonical, rank, block, expected, sizeof expected);
            first = first == NULL ? &cell->held : first;
            const bool scans = coll_kind_is_scan(played.plan.kind);
            const bool reduces = coll_kind_reduces(played.plan.kind) && !scans;
            const char *wanted = expected[0] != '\0' ? expected : first->text;
            const bool complete = cell->held.ranks == (1U << played.plan.ranks) - 1;
            if (strcmp(cell->held.text, wanted) != 0 || (reduces && !complete)) {
                fail_end(per_host, rank, block, cell->held.text, wanted);
            }
            if (cell->aside.text[0] != '\0' && !scans) {
                fail_end(per_host, rank, block, cell->aside.text, "nothing aside");
            }
        }
    }
    for (int i = 0; i < played.message_count; i++) {
        assert_in_range(played.messages[i].taken_round, played.messages[i].sent_round,
                        played.round_count - 1);
    }
}

static void every_algorithm_ends_complete(void **state)
{
    (void)state;
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_KIND_LAST; kind++) {
        for (int a = COLL_ALGORITHM_RING;
             coll_kind_has_plans((coll_kind)kind) && a <= COLL_ALGORITHM_LAST; a++) {
            for (int ranks = 2; ranks <= TRACE_RANKS_MAX; ranks++) {
                for (int per_host = 1; per_host <= ranks; per_host++) {
                    check_end(run((coll_algorithm)a, (coll_kind)kind, ranks, per_host), per_host);
                }
            }
        }
    }
}

/* Of the algorithms whose pages say so. */
static void rounds_are_as_many_as_promised(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= TRACE_RANKS_MAX; ranks++) {
        (void)run(COLL_ALGORITHM_RING, COLL_ALL_REDUCE, ranks, ranks);
        assert_int_equal(played.round_count, 2 * (ranks - 1));
        (void)run(COLL_ALGORITHM_DIRECT, COLL_ALL_REDUCE, ranks, ranks);
        assert_int_equal(played.round_count, 2);
        int log = 0;
        while (1 << log < ranks) {
            log++;
        }
        if (1 << log == ranks) {
            (void)run(COLL_ALGORITHM_RECURSIVE_DOUBLING, COLL_ALL_REDUCE, ranks, ranks);
            assert_int_equal(played.round_count, log);
            (void)run(COLL_ALGORITHM_HALVING_DOUBLING, COLL_ALL_REDUCE, ranks, ranks);
            assert_int_equal(played.round_count, 2 * log);
        }
    }
}

/* As strstr, of which AddressSanitizer's measures the text byte by byte: most of this test's time. */
static const char *find(const char *text, const char *word)
{
    return memmem(text, strlen(text), word, strlen(word));
}

/* The number behind the next `before`. */
static double attribute(const char **at, const char *before)
{
    char *end = NULL;
    *at = find(*at, before);
    assert_non_null(*at);
    *at += strlen(before);
    const double value = strtod(*at, &end);
    assert_ptr_not_equal(end, *at);
    return value;
}

typedef double box[4]; /* left, top, width, height */

/* Boxes of ranks lie in the picture, and none lies on another. */
static void check_boxes(const char *svg, box boxes[TRACE_RANKS_MAX])
{
    const char *at = find(svg, "<svg");
    const double width = attribute(&at, " width=\"");
    const double height = attribute(&at, " height=\"");
    int count = 0;
    while ((at = find(at, "class=\"box\"")) != NULL) {
        double *own = boxes[count];
        assert_in_range(count, 0, TRACE_RANKS_MAX - 1);
        own[0] = attribute(&at, " x=\"");
        own[1] = attribute(&at, " y=\"");
        own[2] = attribute(&at, " width=\"");
        own[3] = attribute(&at, " height=\"");
        assert_true(own[0] >= 0 && own[0] + own[2] <= width);
        assert_true(own[1] >= 0 && own[1] + own[3] <= height);
        for (int other = 0; other < count; other++) {
            const double *its = boxes[other];
            assert_true(own[0] >= its[0] + its[2] || its[0] >= own[0] + own[2] ||
                        own[1] >= its[1] + its[3] || its[1] >= own[1] + own[3]);
        }
        count++;
    }
    assert_int_equal(count, played.plan.ranks);
}

static bool is_inside(const box *own, double x, double y)
{
    return x > (*own)[0] && x < (*own)[0] + (*own)[2] && y > (*own)[1] && y < (*own)[1] + (*own)[3];
}

/* No box hides an end of a wire, nor the head of its arrow. */
static void check_wires(const char *svg, const box boxes[TRACE_RANKS_MAX])
{
    for (const char *at = svg; (at = find(at, "url(#to)")) != NULL;) {
        double ends[4];
        ends[0] = attribute(&at, " d=\"M");
        ends[1] = attribute(&at, " ");
        ends[2] = attribute(&at, "L");
        ends[3] = attribute(&at, " ");
        for (int rank = 0; rank < played.plan.ranks; rank++) {
            /* what is drawn has a digit behind the point */
            const box inner = {boxes[rank][0] + 0.2, boxes[rank][1] + 0.2, boxes[rank][2] - 0.4,
                               boxes[rank][3] - 0.4};
            assert_false(is_inside(&inner, ends[0], ends[1]));
            assert_false(is_inside(&boxes[rank], ends[2], ends[3]));
        }
    }
}

/* A message's label does not leave the picture on its way. */
static void check_labels(const char *svg)
{
    const char *at = find(svg, "<svg");
    const double width = attribute(&at, " width=\"");
    while ((at = find(at, "<animateTransform")) != NULL) {
        const double from = attribute(&at, "values=\"");
        (void)attribute(&at, ";");
        const double to = attribute(&at, ";");
        const double half = -attribute(&at, "class=\"token\" x=\"") - 0.1;
        assert_true(from >= half && from <= width - half);
        assert_true(to >= half && to <= width - half);
    }
}

/* Messages of one pair of ranks and one round count once. */
static int count_moves(void)
{
    int count = 0;
    for (int i = 0; i < played.message_count; i++) {
        const trace_message *own = &played.messages[i];
        bool known = false;
        for (int j = 0; j < i; j++) {
            const trace_message *other = &played.messages[j];
            known = known || (other->from == own->from && other->to == own->to &&
                              other->sent_round == own->sent_round);
        }
        count += !known;
    }
    return count;
}

static void check_drawn(void)
{
    base_buffer text = {0};
    box boxes[TRACE_RANKS_MAX] = {{0}};
    trace_draw(&played, NULL, &text);
    assert_false(text.failed);
    check_boxes(text.data, boxes);
    check_wires(text.data, boxes);
    check_labels(text.data);
    assert_int_equal(test_count(text.data, "<animateTransform"), count_moves());
    assert_int_equal(test_count(text.data, "<g "), test_count(text.data, "</g>"));
    assert_int_equal(test_count(text.data, ">start</text>"), 1);
    assert_int_equal(test_count(text.data, ">round "), played.round_count);
    base_buffer_fini(&text);
}

static void every_trace_is_drawn(void **state)
{
    (void)state;
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_KIND_LAST; kind++) {
        for (int a = COLL_ALGORITHM_RING;
             coll_kind_has_plans((coll_kind)kind) && a <= COLL_ALGORITHM_LAST; a++) {
            for (int ranks = 2; ranks <= TRACE_RANKS_MAX; ranks++) {
                (void)run((coll_algorithm)a, (coll_kind)kind, ranks, ranks);
                check_drawn();
                (void)run((coll_algorithm)a, (coll_kind)kind, ranks, 2);
                check_drawn();
                (void)run((coll_algorithm)a, (coll_kind)kind, ranks, 1);
                check_drawn();
            }
        }
    }
}

/* Of two ranks: who has what at the end of the start and of each round, and when it gets it. */
static void a_ring_of_two_is_drawn(void **state)
{
    (void)state;
    base_buffer text = {0};
    (void)run(COLL_ALGORITHM_RING, COLL_ALL_REDUCE, 2, 2);
    trace_draw(&played, NULL, &text);
    assert_false(text.failed);
    /* start, round 0, round 1, of 2 s each and 2 s more */
    assert_has(text.data, "values=\"visible;hidden\" keyTimes=\"0;0.25000\" dur=\"8s\"");
    assert_has(text.data,
               "values=\"hidden;visible;hidden\" keyTimes=\"0;0.25000;0.50000\" dur=\"8s\"");
    assert_has(text.data, "values=\"hidden;visible\" keyTimes=\"0;0.50000\" dur=\"8s\"");
    /* in the end four complete sums; in round 0 and before round 1's messages come, two of them */
    assert_int_equal(test_count(text.data, "class=\"whole\""), 2 + 2 + 2);
    assert_int_equal(test_count(text.data, "class=\"letters\""), 4);
    base_buffer_fini(&text);
}

static void assert_printed(const char *expected)
{
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    assert_non_null(out);
    trace_print(&played, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void the_ring_on_three_ranks(void **state)
{
    (void)state;
    (void)run(COLL_ALGORITHM_RING, COLL_ALL_REDUCE, 3, 3);
    assert_printed(
        "all_reduce by ring: 3 ranks, 3 blocks, 4 rounds\n"
        "A0 is what rank 0 has of block A in the beginning, A alone the sum of all ranks,\n"
        "\"C to 1\" means that what it holds in column C goes to rank 1.\n"
        "\n"
        "           sends    receives   A       B       C\n"
        "start\n"
        "  rank 0                       A0      B0      C0\n"
        "  rank 1                       A1      B1      C1\n"
        "  rank 2                       A2      B2      C2\n"
        "round 0\n"
        "  rank 0   C to 1   B from 2   A0      B2+B0   C0\n"
        "  rank 1   A to 2   C from 0   A1      B1      C0+C1\n"
        "  rank 2   B to 0   A from 1   A1+A2   B2      C2\n"
        "round 1\n"
        "  rank 0   B to 1   A from 2   A       B2+B0   C0\n"
        "  rank 1   C to 2   B from 0   A1      B       C0+C1\n"
        "  rank 2   A to 0   C from 1   A1+A2   B2      C\n"
        "round 2\n"
        "  rank 0   A to 1   C from 2   A       B2+B0   C\n"
        "  rank 1   B to 2   A from 0   A       B       C0+C1\n"
        "  rank 2   C to 0   B from 1   A1+A2   B       C\n"
        "round 3\n"
        "  rank 0   C to 1   B from 2   A       B       C\n"
        "  rank 1   A to 2   C from 0   A       B       C\n"
        "  rank 2   B to 0   A from 1   A       B       C\n"
        "\n"
        "how each block was added up\n"
        "  A = (A1+A2)+A0   computed on rank 0, copied to ranks 1 2\n"
        "  B = (B2+B0)+B1   computed on rank 1, copied to ranks 0 2\n"
        "  C = (C0+C1)+C2   computed on rank 2, copied to ranks 0 1\n"
        "The canonical order is another one: A = (A0+A1)+A2\n");
}

/* A value that a rank passes on is shown in brackets, beside its own and where it is sent. */
static void a_value_aside_is_in_brackets(void **state)
{
    (void)state;
    (void)run(COLL_ALGORITHM_RECURSIVE_DOUBLING, COLL_ALL_REDUCE, 5, 5);
    assert_printed(
        "all_reduce by recursive_doubling: 5 ranks, 1 block, 3 rounds\n"
        "A0 is what rank 0 has of block A in the beginning, A alone the sum of all ranks,\n"
        "\"C to 1\" means that what it holds in column C goes to rank 1,\n"
        "[A0] a value that is added later.\n"
        "\n"
        "           sends                 receives                A\n"
        "start\n"
        "  rank 0                                                 A0\n"
        "  rank 1                                                 A1\n"
        "  rank 2                                                 A2\n"
        "  rank 3                                                 A3\n"
        "  rank 4                                                 A4\n"
        "round 0\n"
        "  rank 0   A to 1                A from 1 4              A0+A1 [A4]\n"
        "  rank 1   A to 0                A from 0                A0+A1\n"
        "  rank 2   A to 3                A from 3                A2+A3\n"
        "  rank 3   A to 2                A from 2                A2+A3\n"
        "  rank 4   A to 0                                        A4\n"
        "round 1\n"
        "  rank 0   A to 2, [A4] to 1 2   A from 2                (A0+A1)+(A2+A3) [A4]\n"
        "  rank 1   A to 3                [A4] from 0, A from 3   A\n"
        "  rank 2   A to 0                A from 0, [A4] from 0   A\n"
        "  rank 3   A to 1                A from 1                (A0+A1)+(A2+A3)\n"
        "  rank 4                                                 A4\n"
        "round 2\n"
        "  rank 0   A to 4                                        A\n"
        "  rank 1   [A4] to 3                                     A\n"
        "  rank 2                                                 A\n"
        "  rank 3                         [A4] from 1             A\n"
        "  rank 4                         A from 0                A\n"
        "\n"
        "how each block was added up\n"
        "  A = ((A0+A1)+(A2+A3))+A4   computed on ranks 0 1 2 3 4\n"
        "This is the canonical order.\n");
}

static void too_many_ranks_are_refused(void **state)
{
    (void)state;
    coll_error error;
    coll_plan plan = {
        .algorithm = COLL_ALGORITHM_RING, .kind = COLL_ALL_REDUCE, .ranks = TRACE_RANKS_MAX + 1};
    assert_int_equal(trace_run(&plan, &played, &error), COLL_ERR_LIMIT);
    assert_string_equal(error.message, "a trace is of 2 to 8 ranks, not of 9");
    plan.ranks = 1;
    assert_int_equal(trace_run(&plan, &played, &error), COLL_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_ends_complete),
        cmocka_unit_test(every_trace_is_drawn),
        cmocka_unit_test(a_ring_of_two_is_drawn),
        cmocka_unit_test(rounds_are_as_many_as_promised),
        cmocka_unit_test(the_ring_on_three_ranks),
        cmocka_unit_test(a_value_aside_is_in_brackets),
        cmocka_unit_test(too_many_ranks_are_refused),
    };
    return cmocka_run_group_tests_name("coll-simulate-trace", tests, NULL, NULL);
}
