/* Simulates the plans of all ranks on a modelled network, event by event. Called by sweep.c. */
#include "network.h"

#include <stdlib.h>

#include "network_store.h"
#include "ringfence/coll_error.h"

enum { CHUNK_BYTES = 32 * 1024 };

typedef struct track {
    span last; /* of the step done last */
    span need; /* of the step that the current one comes after */
    int32_t index;
    int32_t waiter; /* the first track that waits for this one; NONE */
    int32_t next;   /* the next waiter */
    uint16_t rank;
    uint16_t seen; /* GATHER: members whose message is there */
    bool ended;
} track;

typedef struct link_end {
    float in_free;
    float out_free;
} link_end;

typedef struct network {
    coll_plan plan;
    coll_costs costs;
    double block_bytes;
    int32_t *first; /* (ranks + 1) each rank's first track */
    track *tracks;
    int64_t ended;
    link_end *ranks;
    link_end *hosts;
    network_store store;
    int members[SIMULATE_RANKS_MAX];
    simulate_result *result;
} network;

static float later(float a, float b)
{
    return a > b ? a : b;
}

static coll_plan plan_of(const network *net, int rank)
{
    coll_plan plan = net->plan;
    plan.rank = rank;
    return plan;
}

static int host_of(const network *net, int rank)
{
    return net->plan.hosts == NULL ? 0 : net->plan.hosts->host[rank];
}

static const coll_link_cost *link_between(const network *net, int a, int b)
{
    return host_of(net, a) == host_of(net, b) ? &net->costs.inside : &net->costs.between;
}

static double bytes_of(const network *net, const coll_step *step)
{
    return net->block_bytes * step->block_count;
}

static void schedule(network *net, int32_t number);

static void wake_waiters(network *net, int32_t number)
{
    int32_t waiter = net->tracks[number].waiter;
    net->tracks[number].waiter = NONE;
    while (waiter != NONE) {
        const int32_t next = net->tracks[waiter].next;
        schedule(net, waiter);
        waiter = next;
    }
}

/* Whether the step that comes before is done; if not, the track is put to wait. */
static bool needs_are_met(network *net, int32_t number, const coll_step *step)
{
    track *t = &net->tracks[number];
    t->need = (span){0, 0};
    if (step->after_track < 0) {
        return true;
    }
    track *before = &net->tracks[net->first[t->rank] + step->after_track];
    if (before->ended || before->index > step->after_step) {
        t->need = before->last;
        return true;
    }
    t->next = before->waiter;
    before->waiter = number;
    return false;
}

/* Whether the messages of a GATHER are there; *at is when the last begins to be. */
static bool members_are_there(network *net, int32_t number, const coll_step *step, float *at)
{
    track *t = &net->tracks[number];
    const coll_plan plan = plan_of(net, t->rank);
    const int count = coll_plan_members(&plan, step->group, net->members);
    for (; t->seen < count; t->seen++) {
        const int member = net->members[t->seen];
        stream *s = member == t->rank
                        ? NULL
                        : network_stream_of(&net->store, member, t->rank, step->channel);
        if (s != NULL && s->head == NONE) {
            s->waiting = number;
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (net->members[i] != t->rank) {
            const stream *s =
                network_stream_of(&net->store, net->members[i], t->rank, step->channel);
            *at = later(*at, net->store.messages[s->head].times.begin);
        }
    }
    return true;
}

/* Puts the track's next step among the events, or the track to wait for what the step needs. */
static void schedule(network *net, int32_t number)
{
    track *t = &net->tracks[number];
    const coll_plan plan = plan_of(net, t->rank);
    coll_step step;
    if (net->store.no_memory) {
        return;
    }
    if (!coll_plan_step(&plan, number - net->first[t->rank], t->index, &step)) {
        t->ended = true;
        net->ended++;
        wake_waiters(net, number);
        return;
    }
    if (!needs_are_met(net, number, &step)) {
        return;
    }
    float at = later(t->last.end, t->need.begin);
    if (step.action == COLL_ACTION_GATHER) {
        if (!members_are_there(net, number, &step, &at)) {
            return;
        }
    } else if (step.action == COLL_ACTION_COPY || step.action == COLL_ACTION_COMBINE) {
        stream *s = network_stream_of(&net->store, step.peer, t->rank, step.channel);
        if (s->head == NONE) {
            s->waiting = number;
            return;
        }
        at = later(at, net->store.messages[s->head].times.begin);
    }
    network_push_event(&net->store, at, number);
}

static span take_message(network *net, int from, int to, int channel)
{
    stream *s = network_stream_of(&net->store, from, to, channel);
    const int32_t number = s->head;
    const span times = net->store.messages[number].times;
    s->head = net->store.messages[number].next;
    s->tail = s->head == NONE ? NONE : s->tail;
    net->store.messages[number].next = net->store.message_free;
    net->store.message_free = number;
    return times;
}

static void put_message(network *net, int from, const coll_step *step, span times)
{
    const int32_t number = network_new_message(&net->store);
    if (number == NONE) {
        return;
    }
    stream *s = network_stream_of(&net->store, from, step->peer, step->channel);
    net->store.messages[number] = (message){.times = times, .next = NONE};
    if (s->tail == NONE) {
        s->head = number;
    } else {
        net->store.messages[s->tail].next = number;
    }
    s->tail = number;
    net->result->messages++;
    net->result->bytes += bytes_of(net, step);
    const int32_t waiting = s->waiting;
    s->waiting = NONE;
    if (waiting != NONE) {
        schedule(net, waiting);
    }
}

/* Takes a link for so long from `from` on at the earliest; when it begins. */
static float occupy(float *free_at, float from, float duration)
{
    const float begin = later(*free_at, from);
    *free_at = begin + duration;
    return begin;
}

static span play_send(network *net, const track *t, const coll_step *step, span *arrives)
{
    const coll_link_cost *link = link_between(net, t->rank, step->peer);
    const double bytes = bytes_of(net, step);
    const float whole = (float)(bytes * link->byte_ns / 1000);
    const float chunk = bytes > CHUNK_BYTES ? (float)(CHUNK_BYTES * link->byte_ns / 1000) : whole;
    const float busy = later(whole, (float)link->message_us);
    const float from = later(t->last.end, t->need.begin);
    span times = {.begin = occupy(&net->ranks[t->rank].out_free, from, busy)};
    if (link == &net->costs.between) {
        times.begin = occupy(&net->hosts[host_of(net, t->rank)].out_free, times.begin, whole);
    }
    times.end = later(times.begin + whole, t->need.end + chunk);
    *arrives = (span){times.begin + (float)link->latency_us, times.end + (float)link->latency_us};
    return times;
}

static span play_receive(network *net, const track *t, const coll_step *step, span arrives)
{
    const coll_link_cost *link = link_between(net, t->rank, step->peer);
    const double bytes = bytes_of(net, step);
    const bool combines = step->action == COLL_ACTION_COMBINE;
    const int combinations = (combines ? 1 : 0) + (step->adds_total ? 1 : 0);
    const double byte_ns = link->byte_ns + combinations * net->costs.reduce_byte_ns;
    const float whole = (float)(bytes * byte_ns / 1000);
    const float busy = later(whole, (float)link->message_us);
    const float from = later(later(t->last.end, t->need.begin), arrives.begin);
    span times = {.begin = occupy(&net->ranks[t->rank].in_free, from, busy)};
    if (link == &net->costs.between) {
        times.begin = occupy(&net->hosts[host_of(net, t->rank)].in_free, times.begin, whole);
    }
    times.end = later(later(times.begin + whole, arrives.end), t->need.end);
    return times;
}

/* All members' messages, one after the other on the incoming link. */
static span play_gather(network *net, const track *t, const coll_step *step)
{
    const coll_plan plan = plan_of(net, t->rank);
    const int count = coll_plan_members(&plan, step->group, net->members);
    track at = *t;
    for (int i = 0; i < count; i++) {
        coll_step one = *step;
        one.action = COLL_ACTION_COMBINE;
        one.peer = net->members[i];
        if (one.peer != t->rank) {
            const span arrives = take_message(net, one.peer, t->rank, step->channel);
            const span times = play_receive(net, t, &one, arrives);
            at.last.end = later(at.last.end, times.end);
        }
    }
    return (span){at.last.end, later(at.last.end, t->need.end)};
}

static void play(network *net, int32_t number)
{
    track *t = &net->tracks[number];
    const coll_plan plan = plan_of(net, t->rank);
    coll_step step;
    span arrives = {0, 0};
    if (!coll_plan_step(&plan, number - net->first[t->rank], t->index, &step)) {
        return;
    }
    switch (step.action) {
    case COLL_ACTION_SEND:
        t->last = play_send(net, t, &step, &arrives);
        break;
    case COLL_ACTION_COPY:
    case COLL_ACTION_COMBINE:
        arrives = take_message(net, step.peer, t->rank, step.channel);
        t->last = play_receive(net, t, &step, arrives);
        break;
    case COLL_ACTION_GATHER:
        t->last = play_gather(net, t, &step);
        break;
    case COLL_ACTION_MOVE:
    case COLL_ACTION_FILL:
        t->last = (span){later(t->last.end, t->need.begin), later(t->last.end, t->need.end)};
        break;
    case COLL_ACTION_MERGE:
        t->last.begin = later(t->last.end, t->need.begin);
        t->last.end = later(t->last.end, t->need.end) +
                      (float)(bytes_of(net, &step) * net->costs.reduce_byte_ns / 1000);
        break;
    }
    t->index++;
    t->seen = 0;
    net->result->time_us = later((float)net->result->time_us, t->last.end);
    wake_waiters(net, number);
    if (step.action == COLL_ACTION_SEND) {
        put_message(net, t->rank, &step, arrives);
    }
    schedule(net, number);
}

static bool make(network *net)
{
    const int ranks = net->plan.ranks;
    const int hosts = net->plan.hosts == NULL ? 1 : net->plan.hosts->count;
    net->first = calloc((size_t)ranks + 1, sizeof *net->first);
    net->ranks = calloc((size_t)ranks, sizeof *net->ranks);
    net->hosts = calloc((size_t)hosts, sizeof *net->hosts);
    if (net->first == NULL || net->ranks == NULL || net->hosts == NULL ||
        !network_store_make(&net->store)) {
        return false;
    }
    for (int rank = 0; rank < ranks; rank++) {
        const coll_plan plan = plan_of(net, rank);
        net->first[rank + 1] = net->first[rank] + coll_plan_track_count(&plan);
    }
    net->tracks = calloc((size_t)net->first[ranks] + 1, sizeof *net->tracks);
    if (net->tracks == NULL) {
        return false;
    }
    for (int rank = 0; rank < ranks; rank++) {
        for (int32_t i = net->first[rank]; i < net->first[rank + 1]; i++) {
            net->tracks[i] = (track){.rank = (uint16_t)rank, .waiter = NONE, .next = NONE};
        }
    }
    return true;
}

static void discard(network *net)
{
    free(net->first);
    free(net->tracks);
    free(net->ranks);
    free(net->hosts);
    network_store_free(&net->store);
    free(net);
}

static coll_status play_all(network *net, coll_error *reterr)
{
    const int32_t total = net->first[net->plan.ranks];
    for (int32_t i = 0; i < total; i++) {
        schedule(net, i);
    }
    while (net->store.event_count > 0 && !net->store.no_memory) {
        play(net, network_pop_event(&net->store));
    }
    for (int32_t i = 0; i < total && !net->store.no_memory; i++) {
        if (!net->tracks[i].ended) {
            return coll_fail(reterr, COLL_ERR_STATE, "track %d of rank %d is stuck at step %d",
                             (int)(i - net->first[net->tracks[i].rank]), net->tracks[i].rank,
                             (int)net->tracks[i].index);
        }
    }
    for (uint64_t i = 0; i < net->store.stream_slots && !net->store.no_memory; i++) {
        if (net->store.streams[i].key != 0 && net->store.streams[i].head != NONE) {
            return coll_fail(reterr, COLL_ERR_STATE, "a message is left behind");
        }
    }
    return COLL_OK;
}

coll_status simulate_run(const coll_plan *plan, const coll_costs *costs, size_t whole_bytes,
                         simulate_result *result, coll_error *reterr)
{
    network *net = calloc(1, sizeof *net);
    coll_status status = COLL_OK;
    if (net == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a network");
    }
    *result = (simulate_result){.time_us = 0};
    net->plan = *plan;
    net->costs = *costs;
    net->result = result;
    net->block_bytes = (double)whole_bytes / coll_plan_block_count(plan);
    if (!make(net)) {
        net->store.no_memory = true;
    } else {
        status = play_all(net, reterr);
    }
    if (net->store.no_memory) {
        status =
            coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a network of %d ranks", plan->ranks);
    }
    result->time_us += plan->ranks > 1 ? costs->start_us : 0;
    discard(net);
    return status;
}
