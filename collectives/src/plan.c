#include "plan.h"

/* Which generator runs: an algorithm that has no form of its own for a kind lends it from another.
 */
typedef enum form {
    FORM_RING = 0,
    FORM_TREE,
    FORM_DIRECT,
    FORM_BINOMIAL,
} form;

typedef struct generator {
    int (*track_count)(const coll_plan *plan);
    bool (*step)(const coll_plan *plan, int track, int index, coll_step *step);
} generator;

static const generator generators[] = {
    [FORM_RING] = {coll_ring_track_count, coll_ring_step},
    [FORM_TREE] = {coll_tree_track_count, coll_tree_step},
    [FORM_DIRECT] = {coll_direct_track_count, coll_direct_step},
    [FORM_BINOMIAL] = {coll_binomial_track_count, coll_binomial_step},
};

static form form_of(const coll_plan *plan)
{
    const coll_kind kind = plan->kind;
    const bool rooted = kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
                        kind == COLL_SCATTER;
    switch (plan->algorithm) {
    case COLL_ALGORITHM_RING:
        return kind == COLL_GATHER || kind == COLL_SCATTER || kind == COLL_ALL_TO_ALL ? FORM_DIRECT
                                                                                      : FORM_RING;
    case COLL_ALGORITHM_TREE:
        if (rooted) {
            return FORM_BINOMIAL;
        }
        return kind == COLL_ALL_REDUCE   ? FORM_TREE
               : kind == COLL_ALL_TO_ALL ? FORM_DIRECT
                                         : FORM_RING;
    default:
        return FORM_DIRECT;
    }
}

static const generator *generator_of(const coll_plan *plan)
{
    return &generators[form_of(plan)];
}

int coll_plan_track_count(const coll_plan *plan)
{
    return plan->ranks == 1 ? 0 : generator_of(plan)->track_count(plan);
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
    return generator_of(plan)->step(plan, track, index, step);
}

bool coll_kind_is_by_rank(coll_kind kind)
{
    return kind == COLL_ALL_GATHER || kind == COLL_REDUCE_SCATTER || kind == COLL_GATHER ||
           kind == COLL_SCATTER || kind == COLL_ALL_TO_ALL;
}

int coll_plan_block_count(const coll_plan *plan)
{
    if (coll_kind_is_by_rank(plan->kind)) {
        return plan->ranks;
    }
    switch (form_of(plan)) {
    case FORM_RING:
        return plan->kind == COLL_ALL_REDUCE ? plan->ranks : 1;
    case FORM_DIRECT:
        return plan->kind == COLL_BROADCAST ? 1 : plan->ranks;
    case FORM_TREE:
    case FORM_BINOMIAL:
        break;
    }
    return 1;
}

int coll_plan_scratch(const coll_plan *plan, int *first)
{
    int begin = 0;
    int end = 0;
    const int tracks = coll_plan_track_count(plan);
    for (int track = 0; track < tracks; track++) {
        coll_step step;
        for (int i = 0; coll_plan_step(plan, track, i, &step); i++) {
            const bool writes = step.action != COLL_ACTION_SEND;
            const bool reads = step.action != COLL_ACTION_COPY;
            if (!(writes && step.target == COLL_SPACE_SCRATCH) &&
                !(reads && step.source == COLL_SPACE_SCRATCH) && step.action != COLL_ACTION_MERGE) {
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
    (void)group;
    for (int rank = 0; rank < plan->ranks; rank++) {
        members[rank] = rank;
    }
    return plan->ranks;
}

bool coll_plan_is_canonical(const coll_plan *plan)
{
    if (plan->kind != COLL_ALL_REDUCE && plan->kind != COLL_REDUCE &&
        plan->kind != COLL_REDUCE_SCATTER) {
        return true;
    }
    return form_of(plan) != FORM_RING;
}

coll_space coll_plan_home(const coll_plan *plan, int block, int block_count)
{
    bool here = true;
    switch (plan->kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        here = plan->rank == plan->root;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        here = block == plan->rank && block_count == 1;
        break;
    default:
        break;
    }
    return here ? COLL_SPACE_OUTPUT : COLL_SPACE_SCRATCH;
}
