/* The generators behind coll_plan_step, one in each file. plan.c alone calls them. */
#ifndef COLL_SRC_GENERATORS_H
#define COLL_SRC_GENERATORS_H

#include "plan/plan.h"

int coll_ring_track_count(const coll_plan *plan);
bool coll_ring_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_tree_track_count(const coll_plan *plan);
bool coll_tree_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_direct_track_count(const coll_plan *plan);
bool coll_direct_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_doubling_track_count(const coll_plan *plan);
bool coll_doubling_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_halving_track_count(const coll_plan *plan);
bool coll_halving_step(const coll_plan *plan, int track, int index, coll_step *step);
/* The largest power of two that is at most `ranks`. */
int coll_plan_top_power(int ranks);
int coll_two_level_track_count(const coll_plan *plan);
bool coll_two_level_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_two_level_block_count(const coll_plan *plan);
int coll_two_level_members(const coll_plan *plan, coll_group group, int *members);
int coll_binomial_track_count(const coll_plan *plan);
bool coll_binomial_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_dissemination_track_count(const coll_plan *plan);
bool coll_dissemination_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_scan_track_count(const coll_plan *plan);
bool coll_scan_step(const coll_plan *plan, int track, int index, coll_step *step);

/* plan.c: OUTPUT if this rank's recv buffer holds the block, else SCRATCH. */
coll_space coll_plan_home(const coll_plan *plan, int block);

#endif
