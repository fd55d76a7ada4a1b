/* What must come out of a case of the grid. Called by grid_case.c. */
#include "common/kinds.h"
#include "grid_view.h"
#include "plan/plan.h"
#include "reference.h"

bool grid_may_be_in_place(const grid_case *c)
{
    return c->placement == GRID_IN_PLACE || c->placement == GRID_MISALIGNED_IN_PLACE ||
           c->placement == GRID_ARENA_IN_PLACE;
}

size_t grid_pair_count(const grid_case *c, int from, int to)
{
    const bool turn = grid_may_be_in_place(c) && from > to;
    const int a = turn ? to : from;
    const int b = turn ? from : to;
    return (3 * a + b) % 4 == 1 ? 0 : c->count / (size_t)(b + 1) + (size_t)(a % 2);
}

static bool has_own_order(const grid_case *c)
{
    return c->algorithm == COLL_ALGORITHM_RING || c->algorithm == COLL_ALGORITHM_TREE;
}

/* Element `index` of a prefix of `count` ranks. */
static void expect_prefix(const grid_view *v, int count, size_t index, uint8_t *element)
{
    const grid_case *c = v->c;
    const bool doubles = !has_own_order(c) && c->algorithm > COLL_ALGORITHM_DIRECT;
    const reference_reduction reduction = {.type = c->type,
                                           .reduce = c->reduce,
                                           .algorithm = doubles ? COLL_ALGORITHM_RECURSIVE_DOUBLING
                                                                : COLL_ALGORITHM_DIRECT,
                                           .ranks = count,
                                           .salt = v->salt};
    if (count == 0) {
        reference_neutral(element, c->type, c->reduce);
    } else if (!has_own_order(c)) {
        reference_all_reduce(&reduction, index, element);
    } else {
        reference_input(element, c->type, 0, index, v->salt);
    }
    for (int r = 1; r < count && has_own_order(c); r++) { /* from the left */
        uint8_t next[REFERENCE_BYTES_MAX];
        reference_input(next, c->type, r, index, v->salt);
        reference_combine(element, c->type, c->reduce, element, next);
    }
}

/* Whether the reference knows the order, and the roundings, of this algorithm's sums. */
static bool is_ordered(const grid_view *v)
{
    const grid_case *c = v->c;
    const bool half = c->type == COLL_FLOAT16 || c->type == COLL_BFLOAT16;
    const coll_plan plan = {.algorithm = c->algorithm,
                            .kind = c->kind,
                            .ranks = v->ranks,
                            .rank = v->rank,
                            .root = c->root};
    if (!coll_kind_reduces(c->kind) || c->algorithm == COLL_ALGORITHM_AUTO ||
        c->type == REFERENCE_MAPS) {
        return true;
    }
    if (has_own_order(c)) {
        return coll_kind_reduces_to_all(c->kind);
    }
    return coll_plan_is_canonical(&plan) &&
           !(half && c->algorithm == COLL_ALGORITHM_TWO_LEVEL && c->kind != COLL_ALL_REDUCE);
}

unsigned grid_salt(const grid_view *v, unsigned salt)
{
    if (is_ordered(v)) {
        return salt;
    }
    return salt | (v->c->reduce == COLL_PRODUCT ? REFERENCE_EXACT_PRODUCTS : REFERENCE_EXACT_SUMS);
}

/* Where in a rank's send the block for this rank begins in an all-to-all, in elements. */
static size_t begin_at(const grid_view *v, int rank)
{
    size_t begin = 0;
    for (int to = 0; to < v->rank; to++) {
        begin += v->c->varies ? grid_pair_count(v->c, rank, to) : v->c->count;
    }
    return begin;
}

void grid_expect(const grid_view *v, size_t index, uint8_t *element)
{
    const grid_case *c = v->c;
    const coll_algorithm algorithm = c->algorithm == COLL_ALGORITHM_AUTO ||
                                             c->type == REFERENCE_MAPS ||
                                             (has_own_order(c) && c->kind != COLL_ALL_REDUCE)
                                         ? COLL_ALGORITHM_DIRECT
                                         : c->algorithm;
    reference_reduction reduction = {.type = c->type,
                                     .reduce = c->reduce,
                                     .algorithm = algorithm,
                                     .ranks = v->ranks,
                                     .count = c->count,
                                     .salt = v->salt};
    int part = 0;
    switch (c->kind) {
    case COLL_ALL_REDUCE:
    case COLL_REDUCE:
        reference_all_reduce(&reduction, index, element);
        return;
    case COLL_SCAN:
    case COLL_EXSCAN:
        expect_prefix(v, v->rank + (c->kind == COLL_SCAN ? 1 : 0), index, element);
        return;
    case COLL_REDUCE_SCATTER:
        reduction.count = v->begins[v->ranks];
        reference_all_reduce(&reduction, v->begins[v->rank] + index, element);
        return;
    case COLL_BROADCAST:
        reference_input(element, c->type, c->root, index, v->salt);
        return;
    case COLL_SCATTER:
        reference_input(element, c->type, c->root, v->begins[v->rank] + index, v->salt);
        return;
    case COLL_SEND:
        reference_input(element, c->type, (v->rank + v->ranks - 1) % v->ranks, index, v->salt);
        return;
    default:
        break;
    }
    while (index >= v->recv_begins[part + 1]) {
        part++;
    }
    const size_t within = index - v->recv_begins[part];
    reference_input(element, c->type, part,
                    c->kind == COLL_ALL_TO_ALL ? begin_at(v, part) + within : within, v->salt);
}
