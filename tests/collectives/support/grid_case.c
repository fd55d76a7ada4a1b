/* Runs one operation on all ranks between guard bytes, and compares every byte with the reference.
 * Used by the tests that walk the grid. */
#include "grid_case.h"

#include <string.h>

#include "common/kinds.h"
#include "plan/plan.h"
#include "proto/digest.h"
#include "reference.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5, RANKS_MAX = 64, WHOLE_CHECK_COUNT = 3000, PIECE_COUNT = 64 };

/* A case as one rank sees it. */
typedef struct view {
    const grid_case *c; /* `count` is that of maps */
    int rank;
    int ranks;
    size_t size;  /* of an element, or a map, */
    size_t group; /* of which an element has so many */
    size_t counts[RANKS_MAX];
    size_t given[RANKS_MAX]; /* the same in elements */
    size_t recv_counts[RANKS_MAX];
    size_t begins[RANKS_MAX + 1];      /* of the parts, in elements */
    size_t recv_begins[RANKS_MAX + 1]; /* the same, unless every pair of ranks has a count */
    size_t send_count;                 /* in this rank's buffers */
    size_t recv_count;
    size_t own_offset; /* of this rank's part, in the larger buffer of the two, in elements */
    uint8_t *send;
    uint8_t *recv;
    unsigned salt;
    coll_reduction own; /* of maps; else 0 */
    uint8_t neutral[COLL_ELEMENT_BYTES_MAX];
} view;

static bool may_be_in_place(const grid_case *c)
{
    return c->placement == GRID_IN_PLACE || c->placement == GRID_MISALIGNED_IN_PLACE ||
           c->placement == GRID_ARENA_IN_PLACE;
}

/* Elements that one rank sends to another in an all-to-all with counts; in place as many as it gets
 * from that one. */
static size_t pair_count(const grid_case *c, int from, int to)
{
    const bool turn = may_be_in_place(c) && from > to;
    const int a = turn ? to : from;
    const int b = turn ? from : to;
    return (3 * a + b) % 4 == 1 ? 0 : c->count / (size_t)(b + 1) + (size_t)(a % 2);
}

static size_t part_count(const view *v, int rank)
{
    const grid_case *c = v->c;
    const size_t varied = rank % 3 == 1 ? 0 : c->count / (size_t)(rank + 1) + (size_t)(rank % 2);
    return c->varies ? varied - varied % v->group : c->count;
}

static void measure(view *v)
{
    const grid_case *c = v->c;
    const bool root = v->rank == c->root;
    const bool pairs = c->kind == COLL_ALL_TO_ALL && c->varies;
    for (int r = 0; r < v->ranks; r++) {
        v->counts[r] = pairs ? pair_count(c, v->rank, r) : part_count(v, r);
        v->given[r] = v->counts[r] / v->group;
        v->recv_counts[r] = pairs ? pair_count(c, r, v->rank) : v->counts[r];
        v->begins[r + 1] = v->begins[r] + v->counts[r];
        v->recv_begins[r + 1] = v->recv_begins[r] + v->recv_counts[r];
    }
    const size_t part = v->counts[v->rank];
    const size_t whole = v->begins[v->ranks];
    v->send_count = part;
    v->recv_count = part;
    switch (c->kind) {
    case COLL_REDUCE:
        v->recv_count = root ? c->count : 0;
        break;
    case COLL_BROADCAST:
        v->send_count = root ? c->count : 0;
        if (root && (c->placement == GRID_MISALIGNED || c->placement == GRID_ARENA_SEND)) {
            v->recv_count = 0; /* the root may do without */
        }
        break;
    case COLL_ALL_GATHER:
        v->recv_count = whole;
        break;
    case COLL_GATHER:
        v->recv_count = root ? whole : 0;
        break;
    case COLL_REDUCE_SCATTER:
        v->send_count = whole;
        break;
    case COLL_SCATTER:
        v->send_count = root ? whole : 0;
        break;
    case COLL_ALL_TO_ALL:
        v->send_count = whole;
        v->recv_count = v->recv_begins[v->ranks];
        break;
    default:
        break;
    }
    v->own_offset = c->kind == COLL_ALL_GATHER || c->kind == COLL_GATHER ||
                            c->kind == COLL_REDUCE_SCATTER || c->kind == COLL_SCATTER
                        ? v->begins[v->rank]
                        : 0;
}

static bool is_in_place(const view *v)
{
    return may_be_in_place(v->c) && v->send_count > 0 && v->recv_count > 0 &&
           v->c->kind != COLL_SEND;
}

static void place(view *v, const grid_rank *g)
{
    const grid_placement where = v->c->placement;
    const bool odd = where == GRID_MISALIGNED || where == GRID_MISALIGNED_IN_PLACE ||
                     where == GRID_ARENA_MISALIGNED;
    const bool arena = where >= GRID_ARENA;
    uint8_t *shared = coll_arena_data(g->arena);
    uint8_t *base = (arena ? shared : g->memory) + GUARD_BYTES + (odd ? 1 : 0);
    const size_t send_bytes = v->send_count * v->size;
    const size_t recv_bytes = v->recv_count * v->size;
    if (is_in_place(v)) {
        const size_t offset = v->own_offset * v->size;
        v->send = base + (send_bytes < recv_bytes ? offset : 0);
        v->recv = base + (send_bytes < recv_bytes ? 0 : offset);
        return;
    }
    v->send = base;
    v->recv =
        where == GRID_ARENA_SEND ? g->memory + GUARD_BYTES : base + send_bytes + 2 * GUARD_BYTES;
}

static void guard(const view *v)
{
    memset(v->send - GUARD_BYTES, GUARD, GUARD_BYTES);
    memset(v->send + v->send_count * v->size, GUARD, GUARD_BYTES);
    if (!is_in_place(v) || v->recv_count > v->send_count) {
        memset(v->recv - GUARD_BYTES, GUARD, GUARD_BYTES);
        memset(v->recv, GUARD, v->recv_count * v->size + GUARD_BYTES);
    }
}

/* Written here, where ThreadSanitizer looks: whoever still reads the last operation's input is seen. */
static void fill(const view *v)
{
    uint8_t piece[PIECE_COUNT * REFERENCE_BYTES_MAX];
    for (size_t i = 0; i < v->send_count; i += PIECE_COUNT) {
        const size_t count = v->send_count - i < PIECE_COUNT ? v->send_count - i : PIECE_COUNT;
        for (size_t k = 0; k < count; k++) {
            reference_input(piece + k * v->size, v->c->type, v->rank, i + k, v->salt);
        }
        memcpy(v->send + i * v->size, piece, count * v->size);
    }
}

static bool is_guarded(const uint8_t *begin)
{
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (begin[i] != GUARD) {
            return false;
        }
    }
    return true;
}

static bool guards_hold(const view *v)
{
    const uint8_t *send_end = v->send + v->send_count * v->size;
    const uint8_t *recv_end = v->recv + v->recv_count * v->size;
    if (!is_in_place(v)) {
        return is_guarded(v->send - GUARD_BYTES) && is_guarded(send_end) &&
               is_guarded(v->recv - GUARD_BYTES) && is_guarded(recv_end);
    }
    const bool wide = v->send_count > v->recv_count;
    return is_guarded((wide ? v->send : v->recv) - GUARD_BYTES) &&
           is_guarded(wide ? send_end : recv_end);
}

static bool has_own_order(const grid_case *c)
{
    return c->algorithm == COLL_ALGORITHM_RING || c->algorithm == COLL_ALGORITHM_TREE;
}

/* Element `index` of a prefix of `count` ranks. */
static void expect_prefix(const view *v, int count, size_t index, uint8_t *element)
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
static bool is_ordered(const view *v)
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

static unsigned salt_for(const view *v, unsigned salt)
{
    if (is_ordered(v)) {
        return salt;
    }
    return salt | (v->c->reduce == COLL_PRODUCT ? REFERENCE_EXACT_PRODUCTS : REFERENCE_EXACT_SUMS);
}

/* Where in a rank's send the block for this rank begins in an all-to-all, in elements. */
static size_t begin_at(const view *v, int rank)
{
    size_t begin = 0;
    for (int to = 0; to < v->rank; to++) {
        begin += v->c->varies ? pair_count(v->c, rank, to) : v->c->count;
    }
    return begin;
}

/* What element `index` of this rank's recv buffer must be. */
static void expect(const view *v, size_t index, uint8_t *element)
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

static bool check(const view *v, test_rank *rank, const char **what, size_t *at)
{
    /* Of long vectors each rank looks at its share; all are compared with each other below. */
    const size_t step = v->recv_count > WHOLE_CHECK_COUNT ? (size_t)v->ranks : 1;
    uint8_t element[REFERENCE_BYTES_MAX];
    (void)rank;
    *what = "wrong result";
    for (*at = step == 1 ? 0 : (size_t)v->rank; *at < v->recv_count; *at += step) {
        expect(v, *at, element);
        if (memcmp(element, v->recv + *at * v->size, v->size) != 0) {
            return false;
        }
    }
    *what = "input changed";
    for (*at = 0; *at < v->send_count; *at += step) {
        const uint8_t *sent = v->send + *at * v->size;
        const bool result = sent >= v->recv && sent < v->recv + v->recv_count * v->size;
        reference_input(element, v->c->type, v->rank, *at, v->salt);
        if (!result && memcmp(element, sent, v->size) != 0) {
            return false;
        }
    }
    *what = "guard bytes written";
    return guards_hold(v);
}

/* Where all ranks must have the same bytes, their digests are compared. */
static bool compare(const view *v, grid_rank *g)
{
    uint8_t digests[RANKS_MAX][PROTO_DIGEST_BYTES];
    uint8_t own[PROTO_DIGEST_BYTES];
    const bool same_everywhere = v->c->kind == COLL_ALL_REDUCE || v->c->kind == COLL_ALL_GATHER ||
                                 v->c->kind == COLL_BROADCAST;
    if (!same_everywhere) {
        return true;
    }
    if (v->recv_count > 0) {
        proto_sha256(v->recv, v->recv_count * v->size, own);
    } else {
        proto_sha256(v->send, v->send_count * v->size, own);
    }
    bool same =
        coll_all_gather(g->comm, own, digests, sizeof own, COLL_UINT8, &g->rank->error) == COLL_OK;
    for (int r = 0; same && r < v->ranks; r++) {
        same = memcmp(digests[r], own, sizeof own) == 0;
    }
    return same;
}

/* Whether the caller gives a buffer that this rank does not use. It is guard bytes altogether, so
 * whatever is written to it shows; half of the cases give none. The root of a broadcast is asked
 * for no recv by giving none. */
static bool gives_unused(const view *v)
{
    const bool asks_for_none = v->c->kind == COLL_BROADCAST && v->rank == v->c->root;
    return v->c->count == 0 || (!asks_for_none && (v->salt + (unsigned)v->rank) % 2 == 0);
}

static coll_op_desc describe(const view *v)
{
    const grid_case *c = v->c;
    const bool unused = gives_unused(v);
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = c->kind,
                          .send = v->send_count > 0 || unused ? v->send : NULL,
                          .recv = v->recv_count > 0 || unused ? v->recv : NULL,
                          .count = c->count / v->group,
                          .counts = c->varies ? v->given : NULL,
                          .recv_counts =
                              c->varies && c->kind == COLL_ALL_TO_ALL ? v->recv_counts : NULL,
                          .type = v->own.size != 0 ? 0 : c->type,
                          .reduce = v->own.size != 0 ? 0 : c->reduce,
                          .reduction = v->own.size != 0 ? &v->own : NULL,
                          .root = c->root,
                          .algorithm = c->algorithm};
}

static coll_status exchange_messages(const view *v, grid_rank *g)
{
    coll_request *requests[2] = {NULL};
    coll_op_desc desc = describe(v);
    coll_error *error = &g->rank->error;
    desc.root = (v->rank + 1) % v->ranks;
    coll_status status = coll_start(g->comm, &desc, &requests[0], error);
    if (status == COLL_OK) {
        desc.kind = COLL_RECEIVE;
        desc.root = (v->rank + v->ranks - 1) % v->ranks;
        status = coll_start(g->comm, &desc, &requests[1], error);
    }
    const coll_status waited = coll_request_wait_all(requests, 2, status == COLL_OK ? error : NULL);
    return status == COLL_OK ? waited : status;
}

/* In one of the ways that there are; peers may take another. */
static coll_status run(const view *v, grid_rank *g)
{
    const coll_op_desc desc = describe(v);
    coll_error *error = &g->rank->error;
    if (v->c->kind == COLL_SEND) {
        return exchange_messages(v, g);
    }
    if ((g->salt + (unsigned)v->rank) % 3 == 0) {
        return coll_run(g->comm, &desc, error);
    }
    coll_request *request = NULL;
    bool done = false;
    coll_status status = coll_start(g->comm, &desc, &request, error);
    if (status == COLL_OK && (g->salt + (unsigned)v->rank) % 3 == 1) {
        status = coll_request_test(&request, &done, error);
    }
    return status == COLL_OK ? coll_request_wait(&request, error) : status;
}

/* Maps are combined where they are aligned as promised: elsewhere they come to nothing. */
static void combine_maps(void *left, const void *right, size_t count, void *user)
{
    const size_t group = *(const size_t *)user;
    const size_t bytes = group * REFERENCE_BYTES_MAX;
    const size_t align = (bytes & -bytes) < 16 ? bytes & -bytes : 16;
    if ((uintptr_t)left % align != 0 || (uintptr_t)right % align != 0) {
        memset(left, 0, count * bytes);
    }
    for (size_t at = 0; at < count * bytes; at += REFERENCE_BYTES_MAX) {
        uint8_t *element = (uint8_t *)left + at;
        reference_combine(element, REFERENCE_MAPS, COLL_SUM, element, (const uint8_t *)right + at);
    }
}

static void make_reduction(view *v)
{
    for (size_t i = 0; i < v->group; i++) {
        reference_neutral(v->neutral + i * v->size, REFERENCE_MAPS, COLL_SUM);
    }
    v->own = (coll_reduction){.size = sizeof(coll_reduction),
                              .name = "maps",
                              .element_bytes = v->group * v->size,
                              .combine = combine_maps,
                              .user = &v->group,
                              .neutral = v->neutral};
}

size_t grid_case_bytes(const grid_case *c, int ranks)
{
    const bool by_rank = coll_kind_is_by_rank(c->kind);
    const size_t size = reference_size_bytes(c->type) * (c->group > 1 ? c->group : 1);
    return 2 * (c->count + 2) * (by_rank ? (size_t)ranks : 1) * size + 6 * (size_t)GUARD_BYTES;
}

bool grid_case_run(grid_rank *g, const grid_case *c)
{
    grid_case in_maps = *c;
    view v = {.c = &in_maps,
              .rank = g->rank->rank,
              .ranks = g->rank->size,
              .size = reference_size_bytes(c->type),
              .group = c->group > 1 ? c->group : 1};
    const char *what = "too large for its buffers";
    size_t at = 0;
    in_maps.count *= v.group;
    if (c->type == REFERENCE_MAPS) {
        make_reduction(&v);
    }
    measure(&v);
    place(&v, g);
    v.salt = salt_for(&v, ++g->salt & 0xff);
    bool good = grid_case_bytes(c, v.ranks) <= g->bytes;
    if (good) {
        guard(&v);
        fill(&v);
        g->rank->error.message[0] = '\0';
        good = run(&v, g) == COLL_OK;
        what = g->rank->error.message;
    }
    good = good && check(&v, g->rank, &what, &at);
    if (good && !compare(&v, g)) {
        what = "ranks differ";
        good = false;
    }
    if (!good) {
        test_rank_fail(g->rank, "%s: %s%s %s %s (%zu) × %zu root %d %s placement %d: element %zu",
                       what, coll_kind_name(c->kind), c->varies ? " (varying)" : "",
                       coll_reduce_op_name(c->reduce), coll_type_name(c->type), v.group, c->count,
                       c->root, coll_algorithm_name(c->algorithm), (int)c->placement, at);
    }
    return good;
}
