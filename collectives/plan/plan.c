/* Dispatches a plan's questions (tracks, steps, blocks, scratch) to its algorithm's generator.
 * Called by exec.c to run a plan, by network.c to simulate it, and by op.c. */
#include "plan/generators.h"

#include <stdint.h>

#include "common/kinds.h"

typedef struct generator {
    int (*track_count)(const coll_plan *plan);
    bool (*step)(const coll_plan *plan, int track, int index, coll_step *step);
} generator;

static const generator generators[] = {
    [COLL_FORM_RING] = {coll_ring_track_count, coll_ring_step},
    [COLL_FORM_TREE] = {coll_tree_track_count, coll_tree_step},
    [COLL_FORM_DIRECT] = {coll_direct_track_count, coll_direct_step},
    [COLL_FORM_DOUBLING] = {coll_doubling_track_count, coll_doubling_step},
    [COLL_FORM_HALVING] = {coll_halving_track_count, coll_halving_step},
    [COLL_FORM_TWO_LEVEL] = {coll_two_level_track_count, coll_two_level_step},
    [COLL_FORM_BINOMIAL] = {coll_binomial_track_count, coll_binomial_step},
    [COLL_FORM_DISSEMINATION] = {coll_dissemination_track_count, coll_dissemination_step},
    [COLL_FORM_SCAN] = {coll_scan_track_count, coll_scan_step},
};

/* An algorithm that has no form of its own for a kind borrows it from another. */
#define FORMS(ring, tree, direct, doubling, halving, two_level)                                    \
    {                                                                                              \
        [COLL_ALGORITHM_RING] = COLL_FORM_##ring, [COLL_ALGORITHM_TREE] = COLL_FORM_##tree,        \
        [COLL_ALGORITHM_DIRECT] = COLL_FORM_##direct,                                              \
        [COLL_ALGORITHM_RECURSIVE_DOUBLING] = COLL_FORM_##doubling,                                \
        [COLL_ALGORITHM_HALVING_DOUBLING] = COLL_FORM_##halving,                                   \
        [COLL_ALGORITHM_TWO_LEVEL] = COLL_FORM_##two_level                                         \
    }

static const uint8_t forms[COLL_KIND_LAST + 1][COLL_ALGORITHM_LAST + 1] = {
    [COLL_ALL_REDUCE] = FORMS(RING, TREE, DIRECT, DOUBLING, HALVING, TWO_LEVEL),
    [COLL_REDUCE] = FORMS(RING, TREE, DIRECT, BINOMIAL, HALVING, TWO_LEVEL),
    [COLL_REDUCE_SCATTER] = FORMS(RING, RING, DIRECT, HALVING, HALVING, HALVING),
    [COLL_ALL_GATHER] = FORMS(RING, RING, DIRECT, DISSEMINATION, DISSEMINATION, DISSEMINATION),
    [COLL_BROADCAST] = FORMS(RING, TREE, DIRECT, BINOMIAL, DISSEMINATION, TWO_LEVEL),
    [COLL_GATHER] = FORMS(DIRECT, BINOMIAL, DIRECT, BINOMIAL, BINOMIAL, BINOMIAL),
    [COLL_SCATTER] = FORMS(DIRECT, BINOMIAL, DIRECT, BINOMIAL, BINOMIAL, BINOMIAL),
    [COLL_ALL_TO_ALL] = FORMS(DIRECT, DIRECT, DIRECT, DIRECT, DIRECT, DIRECT),
    [COLL_SCAN] = FORMS(RING, RING, DIRECT, SCAN, SCAN, SCAN),
    [COLL_EXSCAN] = FORMS(RING, RING, DIRECT, SCAN, SCAN, SCAN),
};

coll_form coll_plan_form(coll_algorithm algorithm, coll_kind kind)
{
    return (coll_form)forms[kind][algorithm];
}

static coll_form form_of(const coll_plan *plan)
{
    return coll_plan_form(plan->algorithm, plan->kind);
}

int coll_plan_track_count(const coll_plan *plan)
{
    return plan->ranks == 1 ? 0 : generators[form_of(plan)].track_count(plan);
}

bool coll_plan_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (plan->ranks == 1) {
        return false;
    }
    *step = (coll_step){.block_count = 1,
                        .source = COLL_SPACE_OUTPUT,
                        .target = COLL_SPACE_OUTPUT,
                        .after_track = -1};
    return generators[form_of(plan)].step(plan, track, index, step);
}

int coll_plan_block_count(const coll_plan *plan)
{
    if (coll_kind_is_by_rank(plan->kind)) {
        return plan->ranks;
    }
    switch (form_of(plan)) {
    case COLL_FORM_RING:
        return plan->kind == COLL_ALL_REDUCE ? plan->ranks : 1;
    case COLL_FORM_DIRECT:
        return plan->kind == COLL_BROADCAST || coll_kind_is_scan(plan->kind) ? 1 : plan->ranks;
    case COLL_FORM_DISSEMINATION:
        return plan->ranks;
    case COLL_FORM_HALVING:
        return coll_plan_top_power(plan->ranks);
    case COLL_FORM_TWO_LEVEL:
        return coll_two_level_block_count(plan);
    case COLL_FORM_TREE:
        return 2;
    case COLL_FORM_DOUBLING:
    case COLL_FORM_BINOMIAL:
    case COLL_FORM_SCAN:
        break;
    }
    return 1;
}

/* Without a walk: where every rank's OUTPUT holds all blocks, only doubling needs more. */
static bool may_use_scratch(const coll_plan *plan)
{
    switch (plan->kind) {
    case COLL_ALL_REDUCE:
        return form_of(plan) == COLL_FORM_DOUBLING;
    case COLL_BROADCAST:
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        return false;
    default:
        return true;
    }
}

bool coll_step_uses_scratch(const coll_step *step)
{
    const bool writes = step->action != COLL_ACTION_SEND;
    const bool reads = step->action != COLL_ACTION_COPY && step->action != COLL_ACTION_FILL;
    return (writes && step->target == COLL_SPACE_SCRATCH) ||
           (reads && step->source == COLL_SPACE_SCRATCH) || step->action == COLL_ACTION_MERGE ||
           step->adds_total;
}

int coll_plan_scratch(const coll_plan *plan, int *first)
{
    int begin = 0;
    int end = 0;
    *first = 0;
    if (!may_use_scratch(plan)) {
        return 0;
    }
    const int tracks = coll_plan_track_count(plan);
    for (int track = 0; track < tracks; track++) {
        coll_step step;
        for (int i = 0; coll_plan_step(plan, track, i, &step); i++) {
            if (!coll_step_uses_scratch(&step)) {
                continue;
            }
            const int step_end = step.block + step.block_count;
            begin = begin == end || step.block < begin ? step.block : begin;
            end = step_end > end ? step_end : end;
        }
    }
    *first = begin;
    return end - begin;
}

int coll_plan_members(const coll_plan *plan, coll_group group, int *members)
{
    if (group != COLL_GROUP_ALL && group != COLL_GROUP_PREFIX) {
        return coll_two_level_members(plan, group, members);
    }
    const int count =
        group == COLL_GROUP_ALL ? plan->ranks : plan->rank + (plan->kind == COLL_SCAN ? 1 : 0);
    for (int rank = 0; rank < count; rank++) {
        members[rank] = rank;
    }
    return count;
}

bool coll_plan_is_canonical(const coll_plan *plan)
{
    if (!coll_kind_reduces(plan->kind)) {
        return true;
    }
    switch (form_of(plan)) {
    case COLL_FORM_RING:
    case COLL_FORM_TREE:
        return plan->ranks == 1;
    case COLL_FORM_TWO_LEVEL:
        return plan->hosts == NULL || coll_hosts_are_aligned(plan->hosts);
    default:
        return true;
    }
}

coll_space coll_plan_home(const coll_plan *plan, int block)
{
    bool here = true;
    switch (plan->kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        here = plan->rank == plan->root;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        here = block == plan->rank;
        break;
    default:
        break;
    }
    return here ? COLL_SPACE_OUTPUT : COLL_SPACE_SCRATCH;
}
