/* Runs one operation on all ranks between guard bytes, and compares every byte with the reference.
 * Used by the tests that walk the grid. */
#include "grid_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "proto/digest.h"
#include "reference.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5, WHOLE_CHECK_COUNT = 3000, PIECE_COUNT = 64 };

static size_t part_count(const grid_view *v, int rank)
{
    const grid_case *c = v->c;
    const size_t varied = rank % 3 == 1 ? 0 : c->count / (size_t)(rank + 1) + (size_t)(rank % 2);
    return c->varies ? varied - varied % v->group : c->count;
}

static void measure(grid_view *v)
{
    const grid_case *c = v->c;
    const bool root = v->rank == c->root;
    const bool pairs = c->kind == COLL_ALL_TO_ALL && c->varies;
    for (int r = 0; r < v->ranks; r++) {
        v->counts[r] = pairs ? grid_pair_count(c, v->rank, r) : part_count(v, r);
        v->given[r] = v->counts[r] / v->group;
        v->recv_counts[r] = pairs ? grid_pair_count(c, r, v->rank) : v->counts[r];
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

static bool is_in_place(const grid_view *v)
{
    return grid_may_be_in_place(v->c) && v->send_count > 0 && v->recv_count > 0 &&
           v->c->kind != COLL_SEND;
}

static void place(grid_view *v, const grid_rank *g)
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

static void guard(const grid_view *v)
{
    memset(v->send - GUARD_BYTES, GUARD, GUARD_BYTES);
    memset(v->send + v->send_count * v->size, GUARD, GUARD_BYTES);
    if (!is_in_place(v) || v->recv_count > v->send_count) {
        memset(v->recv - GUARD_BYTES, GUARD, GUARD_BYTES);
        memset(v->recv, GUARD, v->recv_count * v->size + GUARD_BYTES);
    }
}

/* Written here, where ThreadSanitizer looks: whoever still reads the last operation's input is seen. */
static void fill(const grid_view *v)
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

static bool guards_hold(const grid_view *v)
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

static bool check(const grid_view *v, const char **what, size_t *at)
{
    /* Of long vectors each rank looks at its share; all are compared with each other below. */
    const size_t step = v->recv_count > WHOLE_CHECK_COUNT ? (size_t)v->ranks : 1;
    uint8_t element[REFERENCE_BYTES_MAX];
    *what = "wrong result";
    for (*at = step == 1 ? 0 : (size_t)v->rank; *at < v->recv_count; *at += step) {
        grid_expect(v, *at, element);
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
static bool compare(const grid_view *v, grid_rank *g)
{
    uint8_t digests[GRID_RANKS_MAX][PROTO_DIGEST_BYTES];
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
static bool gives_unused(const grid_view *v)
{
    const bool asks_for_none = v->c->kind == COLL_BROADCAST && v->rank == v->c->root;
    return v->c->count == 0 || (!asks_for_none && (v->salt + (unsigned)v->rank) % 2 == 0);
}

static coll_op_desc describe(const grid_view *v)
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

/* A message is two operations. */
static coll_status start(const grid_view *v, grid_rank *g, coll_request *requests[2])
{
    coll_op_desc desc = describe(v);
    coll_error *error = &g->rank->error;
    const bool message = v->c->kind == COLL_SEND;
    desc.root = message ? (v->rank + 1) % v->ranks : desc.root;
    coll_status status = coll_start(g->comm, &desc, &requests[0], error);
    if (status == COLL_OK && message) {
        desc.kind = COLL_RECEIVE;
        desc.root = (v->rank + v->ranks - 1) % v->ranks;
        status = coll_start(g->comm, &desc, &requests[1], error);
    }
    return status;
}

/* In one of the ways that there are; peers may take another. */
static coll_status run(const grid_view *v, grid_rank *g)
{
    const coll_op_desc desc = describe(v);
    coll_request *requests[2] = {NULL};
    bool done = false;
    coll_error *error = &g->rank->error;
    const unsigned way = (g->salt + (unsigned)v->rank) % 3;
    if (v->c->kind != COLL_SEND && way == 0) {
        return coll_run(g->comm, &desc, error);
    }
    coll_status status = start(v, g, requests);
    if (status == COLL_OK && way == 1) {
        status = coll_request_test(&requests[0], &done, error);
    }
    const coll_status waited = coll_request_wait_all(requests, 2, status == COLL_OK ? error : NULL);
    return status == COLL_OK ? waited : status;
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

static void make_reduction(grid_view *v)
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

struct grid_flight {
    grid_case in_maps;
    grid_view v;
    coll_request *requests[2];
};

/* Fills the buffers of a case. False: they are too small. */
static bool begin(grid_flight *f, grid_rank *g, const grid_case *c)
{
    grid_view *v = &f->v;
    f->in_maps = *c;
    *v = (grid_view){.c = &f->in_maps,
                     .rank = coll_comm_rank(g->comm),
                     .ranks = coll_comm_size(g->comm),
                     .size = reference_size_bytes(c->type),
                     .group = c->group > 1 ? c->group : 1};
    f->in_maps.count *= v->group;
    if (c->type == REFERENCE_MAPS) {
        make_reduction(v);
    }
    measure(v);
    place(v, g);
    v->salt = grid_salt(v, ++g->salt & 0xff);
    g->rank->error.message[0] = '\0';
    if (grid_case_bytes(c, v->ranks) > g->bytes) {
        return false;
    }
    guard(v);
    fill(v);
    return true;
}

static void report(const grid_flight *f, const grid_rank *g, const char *what, size_t at)
{
    const grid_case *c = &f->in_maps;
    test_rank_fail(g->rank, "%s: %s%s %s %s (%zu) × %zu root %d %s placement %d: element %zu", what,
                   coll_kind_name(c->kind), c->varies ? " (varying)" : "",
                   coll_reduce_op_name(c->reduce), coll_type_name(c->type), f->v.group,
                   c->count / f->v.group, c->root, coll_algorithm_name(c->algorithm),
                   (int)c->placement, at);
}

bool grid_case_run(grid_rank *g, const grid_case *c)
{
    grid_flight f = {.requests = {NULL}};
    const char *what = "too large for its buffers";
    size_t at = 0;
    bool good = begin(&f, g, c);
    if (good) {
        good = run(&f.v, g) == COLL_OK;
        what = g->rank->error.message;
    }
    good = good && check(&f.v, &what, &at);
    if (good && !compare(&f.v, g)) {
        what = "ranks differ";
        good = false;
    }
    if (!good) {
        report(&f, g, what, at);
    }
    return good;
}

grid_flight *grid_case_start(grid_rank *g, const grid_case *c)
{
    grid_flight *f = calloc(1, sizeof *f);
    if (f == NULL || !begin(f, g, c) || start(&f->v, g, f->requests) != COLL_OK) {
        test_rank_fail(g->rank, "cannot start %s: %s", coll_kind_name(c->kind),
                       g->rank->error.message);
        free(f);
        return NULL;
    }
    return f;
}

bool grid_case_end(grid_rank *g, grid_flight *f)
{
    const char *what = g->rank->error.message;
    size_t at = 0;
    const bool good = coll_request_wait_all(f->requests, 2, &g->rank->error) == COLL_OK &&
                      check(&f->v, &what, &at);
    if (!good) {
        report(f, g, what, at);
    }
    free(f);
    return good;
}
