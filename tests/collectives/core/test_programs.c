/* Random programs against the reference: each makes and ends communicators of some of the ranks, and
 * has operations under way on several of them at a time, of all kinds, types, reductions, algorithms,
 * lengths and placements, messages among them. Every rank does the same steps, and waits in an order of
 * its own. Ranks are threads.
 *
 * `--programs N`: so many over each transport; `--seed S` begins with another one. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "common/kinds.h"
#include "core/op.h"
#include "grid_case.h"
#include "processors.h"
#include "random.h"
#include "reference.h"
#include "support.h"

enum {
    RANKS_MAX = 9,
    TEAMS = 4, /* the first one is of all ranks, and stays */
    SLOTS = 3, /* of a team: operations under way */
    STEPS = TEST_HAS_SANITIZER ? 40 : 120,
    BYTES = 300 * 1000, /* of a slot, and as many in an arena */
    PROGRAMS = TEST_HAS_SANITIZER ? 2 : 4,
};

typedef struct slot {
    grid_rank g;
    grid_flight *flight; /* NULL: none, or this rank has waited for it */
} slot;

typedef struct team {
    coll_comm *comm; /* NULL: this rank is not in it */
    bool exists;
    int size;
    slot slots[SLOTS];
} team;

typedef struct program {
    test_rank *rank;
    uint64_t common; /* random numbers that all ranks draw alike, */
    uint64_t own;    /* and of this one */
    team teams[TEAMS];
} program;

static uint64_t first_seed = 1;
static int programs = PROGRAMS;

static bool end_flight(slot *s)
{
    grid_flight *flight = s->flight;
    s->flight = NULL;
    return flight == NULL || grid_case_end(&s->g, flight);
}

static bool open_slots(program *p, team *t)
{
    bool good = true;
    for (int i = 0; i < SLOTS; i++) {
        grid_rank *g = &t->slots[i].g;
        *g = (grid_rank){.rank = p->rank,
                         .comm = t->comm,
                         .memory = malloc(BYTES),
                         .bytes = BYTES,
                         .salt = (unsigned)test_random_below(&p->common, 256)};
        good = good && g->memory != NULL &&
               coll_arena_create(t->comm, BYTES, &g->arena, &p->rank->error) == COLL_OK;
    }
    return good;
}

static bool close_team(team *t)
{
    bool good = true;
    for (int i = 0; t->comm != NULL && i < SLOTS; i++) {
        good = end_flight(&t->slots[i]) && good;
        coll_arena_destroy(t->slots[i].g.arena);
        free(t->slots[i].g.memory);
    }
    return good;
}

/* Of some of the ranks, in any order. */
static bool make_team(program *p, team *t)
{
    int ranks[RANKS_MAX];
    const int all = p->rank->size;
    bool member = false;
    for (int i = 0; i < all; i++) {
        const int at = (int)test_random_below(&p->common, (uint32_t)i + 1);
        ranks[i] = ranks[at];
        ranks[at] = i;
    }
    *t = (team){.exists = true, .size = 1 + (int)test_random_below(&p->common, (uint32_t)all)};
    for (int i = 0; i < t->size; i++) {
        member = member || ranks[i] == p->rank->rank;
    }
    const uint64_t salts = p->common;
    if (member &&
        coll_comm_create(p->rank->context, ranks, t->size, &t->comm, &p->rank->error) != COLL_OK) {
        return false;
    }
    const bool good = !member || open_slots(p, t);
    p->common = salts + SLOTS;
    return good;
}

static bool takes(coll_kind kind, coll_reduce_op reduce, coll_type type)
{
    return type == REFERENCE_MAPS
               ? coll_kind_reduces(kind)
               : coll_reduce_op_takes(reduce, type) && coll_kind_takes(kind, reduce);
}

static grid_case draw(uint64_t *state, int ranks)
{
    grid_case c = {.kind = (coll_kind)(COLL_ALL_REDUCE + test_random_below(state, COLL_KIND_LAST))};
    c.kind = c.kind == COLL_BARRIER || c.kind == COLL_RECEIVE ? COLL_SEND : c.kind;
    c.varies = coll_kind_is_by_rank(c.kind) && test_random_below(state, 2) == 0;
    do {
        c.type = (coll_type)(COLL_FLOAT32 + test_random_below(state, COLL_TYPE_LAST + 1));
        c.reduce = (coll_reduce_op)(COLL_SUM + test_random_below(state, COLL_REDUCE_OP_LAST));
    } while (coll_kind_reduces(c.kind) ? !takes(c.kind, c.reduce, c.type)
                                       : c.type == REFERENCE_MAPS);
    c.root = (int)test_random_below(state, (uint32_t)ranks);
    c.algorithm = (coll_algorithm)test_random_below(state, COLL_ALGORITHM_LAST + 1);
    c.placement = (grid_placement)test_random_below(state, GRID_PLACEMENTS);
    c.count = test_random(state) >> (14 + test_random_below(state, 18));
    while (grid_case_bytes(&c, ranks) > BYTES) {
        c.count /= 3;
    }
    return c;
}

static bool start_one(program *p, team *t)
{
    slot *s = &t->slots[test_random_below(&p->common, SLOTS)];
    const bool blocks = test_random_below(&p->common, 4) == 0;
    const grid_case c = draw(&p->common, t->size);
    if (t->comm == NULL) {
        return true;
    }
    if (!end_flight(s)) {
        return false;
    }
    if (blocks) {
        return grid_case_run(&s->g, &c);
    }
    s->flight = grid_case_start(&s->g, &c);
    return s->flight != NULL;
}

/* What this rank does for itself between two steps. */
static bool idle(program *p)
{
    team *t = &p->teams[test_random_below(&p->own, TEAMS)];
    slot *s = &t->slots[test_random_below(&p->own, SLOTS)];
    switch (test_random_below(&p->own, 4)) {
    case 0:
        return t->comm == NULL || end_flight(s);
    case 1:
        return coll_context_progress(p->rank->context, &p->rank->error) == COLL_OK;
    default:
        return true;
    }
}

static bool step(program *p)
{
    team *t = &p->teams[test_random_below(&p->common, TEAMS)];
    const bool renews = t != &p->teams[0] && test_random_below(&p->common, 8) == 0;
    if (renews && t->exists) {
        const bool good = close_team(t);
        coll_comm_destroy(t->comm);
        *t = (team){.exists = false};
        return good;
    }
    if (!t->exists) {
        return make_team(p, t);
    }
    return start_one(p, t);
}

static void body(test_rank *rank)
{
    const uint64_t *seed = rank->user;
    program p = {.rank = rank, .common = *seed, .own = *seed * 64 + (uint64_t)rank->rank + 1};
    p.teams[0] =
        (team){.exists = true, .comm = coll_context_world(rank->context), .size = rank->size};
    bool good = open_slots(&p, &p.teams[0]);
    for (int i = 0; good && i < STEPS; i++) {
        good = step(&p) && idle(&p);
    }
    for (int i = 0; i < TEAMS; i++) {
        good = close_team(&p.teams[i]) && good;
        if (i > 0) {
            coll_comm_destroy(p.teams[i].comm);
        }
    }
    if (!good) {
        test_rank_fail(rank, "program %llu: %s", (unsigned long long)*seed, rank->error.message);
    }
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
}

static void run_programs(void **state)
{
    const coll_transport *transport = *state;
    for (int i = 0; i < programs; i++) {
        uint64_t seed = first_seed + (uint64_t)i;
        uint64_t draws = seed + ((uint64_t)*transport << 32);
        test_processors_claim(test_random_below(&draws, 2) == 0 ? COLL_RANKS_MAX : 0);
        test_ranks_as_threads(
            &(test_ranks_options){.size = 1 + (int)test_random_below(&draws, RANKS_MAX),
                                  .transport = *transport,
                                  .tcp_auth = (coll_tcp_auth)test_random_below(&draws, 3),
                                  .timeout_ns = 60 * BASE_NS_PER_S,
                                  .user = &seed},
            body);
    }
}

int main(int argc, char **argv)
{
    static coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                          COLL_TRANSPORT_ZMQ};
    const struct CMUnitTest tests[] = {
        {"shm", run_programs, NULL, NULL, &transports[0]},
        {"tcp", run_programs, NULL, NULL, &transports[1]},
        {"zmq", run_programs, NULL, NULL, &transports[2]},
    };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--programs") == 0) {
            programs = (int)strtol(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            first_seed = strtoull(argv[i + 1], NULL, 10);
        } else {
            return 2;
        }
    }
    return cmocka_run_group_tests_name("coll-programs", tests, NULL, NULL);
}
