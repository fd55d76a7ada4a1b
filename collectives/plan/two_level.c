/* Two levels: first inside each host, where bytes are cheap, then between hosts, where they are
 * not; each byte leaves a host as seldom as it can.
 * Called through the table of plan.c.
 *
 *     2 hosts × 2 ranks, vector in slices P Q, slices in halves for the hosts: P = P0 P1, Q = Q0 Q1
 *
 *     host 0: ranks 0 1     inside:   rank 0 combines P of 0 and 1, rank 1 combines Q
 *     host 1: ranks 2 3               rank 2 combines P of 2 and 3, rank 3 combines Q
 *                           between:  0⇄2 and 1⇄3: rank 0 completes P0, rank 2 P1, and so on
 *                           inside:   each gives its host's other ranks what it has completed
 *
 * Slice j is the business of the ranks with local rank j on every host (a rank's index in its
 * host; there are as many slices as the smallest host has ranks). Both levels are `direct`: whoever
 * owns a part combines all operands at once in canonical order. Between hosts that makes one
 * combination per host and block, and 2 (h-1)/h of the vector leaves a host of h hosts, on as many
 * connections as there are slices.
 *
 * Where every host has the next 2^k ranks, this is the canonical order over all ranks; where ranks
 * are strewn over the hosts it is canonical inside each host, then over the hosts: fixed, and the
 * same on every rank, but not the canonical order over all.
 *
 * Reduce: each host combines at its leader (the root, or local rank 0), the root combines the
 * leaders' values. Broadcast: root, leaders, their hosts. */
#include "plan/generators.h"

/* Where this rank is. */
typedef struct position {
    int hosts;
    int host;
    int locals; /* ranks of the own host */
    int slices;
    int local_rank;
} position;

static position position_of(const coll_plan *plan)
{
    const coll_hosts *hosts = plan->hosts;
    if (hosts == NULL) {
        return (position){
            .hosts = 1, .locals = plan->ranks, .slices = plan->ranks, .local_rank = plan->rank};
    }
    const int host = hosts->host[plan->rank];
    return (position){.hosts = hosts->count,
                      .host = host,
                      .locals = hosts->begin[host + 1] - hosts->begin[host],
                      .slices = hosts->local_ranks_min,
                      .local_rank = hosts->local_rank[plan->rank]};
}

/* The rank with a local rank on a host. */
static int rank_in(const coll_plan *plan, int host, int local_rank)
{
    return plan->hosts == NULL ? local_rank
                               : plan->hosts->members[plan->hosts->begin[host] + local_rank];
}

static int leader_of(const coll_plan *plan, int host)
{
    const int root_host = plan->hosts == NULL ? 0 : plan->hosts->host[plan->root];
    return host == root_host ? plan->root : rank_in(plan, host, 0);
}

int coll_two_level_members(const coll_plan *plan, coll_group group, int *members)
{
    const position at = position_of(plan);
    if (group == COLL_GROUP_HOST) {
        for (int local_rank = 0; local_rank < at.locals; local_rank++) {
            members[local_rank] = rank_in(plan, at.host, local_rank);
        }
        return at.locals;
    }
    for (int host = 0; host < at.hosts; host++) {
        members[host] = group == COLL_GROUP_LOCAL_RANK ? rank_in(plan, host, at.local_rank)
                                                       : leader_of(plan, host);
    }
    return at.hosts;
}

int coll_two_level_block_count(const coll_plan *plan)
{
    const position at = position_of(plan);
    return plan->kind == COLL_ALL_REDUCE ? at.slices * at.hosts : 1;
}

/* Tracks of an all-reduce, one group of them after the other. */
typedef struct layout {
    int combine;        /* after the sends to the own host's owners */
    int spread;         /* to the other hosts' owners of this slice, before combining: (hosts) */
    int complete;       /* this host's block of the slice */
    int send_across;    /* the other hosts' owners: (hosts) */
    int receive_across; /* their blocks: (hosts) */
    int give;           /* to the own host: (locals) */
    int receive;        /* from the own host's owners: (slices) */
    int end;
} layout;

static layout layout_of(const position *at)
{
    const bool owner = at->local_rank < at->slices;
    const int across = owner && at->hosts > 1 ? at->hosts : 0;
    layout tracks = {.combine = at->slices};
    tracks.spread = tracks.combine + (owner ? 1 : 0);
    tracks.complete = tracks.spread + across;
    tracks.send_across = tracks.complete + (across > 0 ? 1 : 0);
    tracks.receive_across = tracks.send_across + across;
    tracks.give = tracks.receive_across + across;
    tracks.receive = tracks.give + (owner ? at->locals : 0);
    tracks.end = tracks.receive + at->slices;
    return tracks;
}

int coll_two_level_track_count(const coll_plan *plan)
{
    const position at = position_of(plan);
    if (plan->kind == COLL_ALL_REDUCE) {
        return layout_of(&at).end;
    }
    return plan->kind == COLL_REDUCE ? 3 : 2 + at.locals + at.hosts;
}

/* Inside the host, before: slices to their owners, who combine them. */
static bool gather_step(const coll_plan *plan, const position *at, int track, coll_step *step)
{
    const bool combines = track == at->slices;
    const int slice = combines ? at->local_rank : track;
    step->block = slice * at->hosts;
    step->block_count = at->hosts;
    step->source = COLL_SPACE_INPUT;
    if (combines) {
        step->action = COLL_ACTION_GATHER;
        step->group = COLL_GROUP_HOST;
        step->final = at->hosts == 1;
        return true;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = rank_in(plan, at->host, slice);
    return slice != at->local_rank;
}

/* Between the hosts: each completes one block of the slice and sends it to the others. */
static bool across_step(const coll_plan *plan, const position *at, int track, coll_step *step)
{
    const layout tracks = layout_of(at);
    const int first = at->local_rank * at->hosts; /* block of this slice */
    step->block = first + at->host;
    if (track == tracks.complete) {
        step->action = COLL_ACTION_GATHER;
        step->group = COLL_GROUP_LOCAL_RANK;
        step->final = true;
        step->after_track = tracks.combine;
        return true;
    }
    const bool sends = track >= tracks.send_across && track < tracks.receive_across;
    const bool receives = track >= tracks.receive_across;
    const int host = track - (receives ? tracks.receive_across
                              : sends  ? tracks.send_across
                                       : tracks.spread);
    step->action = receives ? COLL_ACTION_COPY : COLL_ACTION_SEND;
    step->peer = rank_in(plan, host, at->local_rank);
    step->channel = sends || receives ? 1 : 0;
    step->block = sends ? step->block : first + host;
    step->after_track = receives ? -1 : sends ? tracks.complete : tracks.combine;
    return host != at->host;
}

/* Inside the host, after: the slice's blocks one by one, the own host's first. */
static bool scatter_step(const coll_plan *plan, const position *at, int track, int index,
                         coll_step *step)
{
    const layout tracks = layout_of(at);
    const bool gives = track < tracks.receive;
    const int local_rank = track - (gives ? tracks.give : tracks.receive);
    const int slice = gives ? at->local_rank : local_rank;
    const int host = (at->host + index) % at->hosts;
    step->action = gives ? COLL_ACTION_SEND : COLL_ACTION_COPY;
    step->peer = rank_in(plan, at->host, local_rank);
    step->channel = 1;
    step->block = slice * at->hosts + host;
    if (gives) {
        step->after_track = at->hosts == 1 ? tracks.combine
                            : index == 0   ? tracks.complete
                                           : tracks.receive_across + host;
    }
    return index < at->hosts && local_rank != at->local_rank;
}

static bool all_reduce_step(const coll_plan *plan, const position *at, int track, int index,
                            coll_step *step)
{
    const layout tracks = layout_of(at);
    if (track >= tracks.give) {
        return scatter_step(plan, at, track, index, step);
    }
    if (index > 0) {
        return false;
    }
    return track < tracks.spread ? gather_step(plan, at, track, step)
                                 : across_step(plan, at, track, step);
}

/* Track 0 combines a host at its leader, or sends there; 1 goes to the root; 2 is the root's. */
static bool reduce_step(const coll_plan *plan, const position *at, int track, coll_step *step)
{
    const int leader = leader_of(plan, at->host);
    const bool leads = plan->rank == leader;
    const bool root = plan->rank == plan->root;
    if (track == 0) {
        step->action = leads ? COLL_ACTION_GATHER : COLL_ACTION_SEND;
        step->group = COLL_GROUP_HOST;
        step->peer = leader;
        step->source = COLL_SPACE_INPUT;
        step->target = coll_plan_home(plan, 0);
        step->final = leads && at->hosts == 1;
        return true;
    }
    step->channel = 1;
    step->after_track = 0;
    step->source = coll_plan_home(plan, 0);
    if (track == 1) {
        step->action = COLL_ACTION_SEND;
        step->peer = plan->root;
        return leads && !root;
    }
    step->action = COLL_ACTION_GATHER;
    step->group = COLL_GROUP_LEADERS;
    step->final = true;
    return root && at->hosts > 1;
}

/* Track 0 receives, 1 is the root's own copy; then one to each local rank and one to each
 * leader. */
static bool broadcast_step(const coll_plan *plan, const position *at, int track, coll_step *step)
{
    const bool root = plan->rank == plan->root;
    const int leader = leader_of(plan, at->host);
    step->source = root ? COLL_SPACE_INPUT : COLL_SPACE_OUTPUT;
    if (track <= 1) {
        step->action = track == 0 ? COLL_ACTION_COPY : COLL_ACTION_MOVE;
        step->peer = plan->rank == leader ? plan->root : leader;
        return root == (track == 1);
    }
    const int local = track - 2;
    const int host = local - at->locals;
    step->action = COLL_ACTION_SEND;
    step->after_track = root ? -1 : 0;
    if (host < 0) {
        step->peer = rank_in(plan, at->host, local);
        return plan->rank == leader && step->peer != plan->rank;
    }
    step->peer = leader_of(plan, host);
    return root && host != at->host;
}

bool coll_two_level_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const position at = position_of(plan);
    if (plan->kind == COLL_ALL_REDUCE) {
        return all_reduce_step(plan, &at, track, index, step);
    }
    if (index > 0) {
        return false;
    }
    return plan->kind == COLL_REDUCE ? reduce_step(plan, &at, track, step)
                                     : broadcast_step(plan, &at, track, step);
}
