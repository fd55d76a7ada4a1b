/* Plays the plans of all ranks on symbols, round by round. Called by coll-simulate's main.c. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "ringfence/coll_error.h"

enum { TRACKS_MAX = COLL_PLAN_TRACKS_MAX(TRACE_RANKS_MAX), SPACES = COLL_SPACE_SCRATCH + 1 };

typedef struct track {
    int index; /* of the step that comes next */
    bool loaded;
    bool ended;
    coll_step step;
} track;

typedef struct player {
    coll_plan plan;
    int track_count;
    track tracks[TRACKS_MAX];
    trace_value spaces[SPACES][TRACE_BLOCKS_MAX];
} player;

typedef struct stage {
    trace_result *result;
    int round; /* -1: before the first */
    bool full; /* there was no room for a message */
    player players[TRACE_RANKS_MAX];
} stage;

static void append(trace_value *value, const char *text)
{
    const size_t used = strlen(value->text);
    (void)snprintf(value->text + used, sizeof value->text - used, "%s", text);
}

static void append_operand(trace_value *sum, const trace_value *operand)
{
    const bool is_sum = strchr(operand->text, '+') != NULL;
    append(sum, is_sum ? "(" : "");
    append(sum, operand->text);
    append(sum, is_sum ? ")" : "");
    sum->ranks |= operand->ranks;
}

void trace_add(const trace_value *left, const trace_value *right, trace_value *out)
{
    trace_value sum = {.ranks = 0};
    append_operand(&sum, left);
    append(&sum, "+");
    append_operand(&sum, right);
    *out = sum;
}

void trace_operand(int rank, int block, trace_value *out)
{
    *out = (trace_value){.ranks = 1U << rank};
    (void)snprintf(out->text, sizeof out->text, "%c%d", 'A' + block, rank);
}

/* Neighbours pair up; one that is left over waits for the next level. */
void trace_canonical(trace_value *values, int count, trace_value *out)
{
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i < count / 2; i++) {
            trace_add(&values[2 * i], &values[2 * i + 1], &values[i]);
        }
        if (count % 2 == 1) {
            values[count / 2] = values[count - 1];
        }
    }
    *out = values[0];
}

/* Whether the caller of this rank gives data of the block. */
static bool has_input(const coll_plan *plan, int block)
{
    switch (plan->kind) {
    case COLL_ALL_GATHER:
    case COLL_GATHER:
        return block == plan->rank;
    case COLL_BROADCAST:
    case COLL_SCATTER:
        return plan->rank == plan->root;
    default:
        return true;
    }
}

/* SCRATCH stands for the block where it has all that the buffers have, but for scans. */
static trace_cell cell_of(const player *p, int block)
{
    const trace_value *output = &p->spaces[COLL_SPACE_OUTPUT][block];
    const trace_value *scratch = &p->spaces[COLL_SPACE_SCRATCH][block];
    const trace_value *buffer =
        output->text[0] != '\0' ? output : &p->spaces[COLL_SPACE_INPUT][block];
    trace_cell cell = {.held = *buffer};
    if (coll_kind_is_scan(p->plan.kind)) { /* where it differs from the prefix, the group's total */
        cell.aside = strcmp(scratch->text, buffer->text) != 0 ? *scratch : cell.aside;
    } else if (scratch->text[0] != '\0' && (scratch->ranks & buffer->ranks) == buffer->ranks) {
        cell.held = *scratch;
    } else if ((scratch->ranks & buffer->ranks) == 0) {
        cell.aside = *scratch;
    }
    return cell;
}

/* Loads the track's next step; false past its last one. */
static bool load(player *p, int number)
{
    track *t = &p->tracks[number];
    if (!t->loaded && !t->ended) {
        t->loaded = coll_plan_step(&p->plan, number, t->index, &t->step);
        t->ended = !t->loaded;
    }
    return t->loaded;
}

/* Whether the step that comes before is done. */
static bool is_released(player *p, const coll_step *step)
{
    if (step->after_track < 0) {
        return true;
    }
    (void)load(p, step->after_track);
    const track *before = &p->tracks[step->after_track];
    return before->ended || before->index > step->after_step;
}

static void send(stage *s, const player *p, const coll_step *step)
{
    if (s->result->message_count == TRACE_MESSAGES_MAX) {
        s->full = true;
        return;
    }
    trace_message *message = &s->result->messages[s->result->message_count++];
    *message = (trace_message){.from = p->plan.rank,
                               .to = step->peer,
                               .channel = step->channel,
                               .block = step->block,
                               .block_count = step->block_count,
                               .sent_round = s->round,
                               .taken_round = -1};
    for (int i = 0; i < step->block_count; i++) {
        message->values[i] = p->spaces[step->source][step->block + i];
    }
    message->aside = strcmp(message->values[0].text, cell_of(p, step->block).held.text) != 0;
}

/* The oldest message of the stream that was not taken; NULL: none is there. */
static trace_message *message_of(const stage *s, int from, int to, int channel)
{
    for (int i = 0; i < s->result->message_count; i++) {
        trace_message *message = &s->result->messages[i];
        if (message->from == from && message->to == to && message->channel == channel &&
            message->taken_round < 0) {
            return message;
        }
    }
    return NULL;
}

/* Writes a value that was combined on this rank. */
static void write_sum(stage *s, player *p, const coll_step *step, int block,
                      const trace_value *value)
{
    p->spaces[step->target][block] = *value;
    s->result->computed[p->plan.rank][block] = value->ranks == (1U << p->plan.ranks) - 1;
}

/* COMBINE and MERGE. */
static void combine(stage *s, player *p, const coll_step *step, int block,
                    const trace_value *incoming)
{
    const trace_value *own = &p->spaces[step->source][block];
    trace_value sum;
    trace_add(step->incoming_left ? incoming : own, step->incoming_left ? own : incoming, &sum);
    write_sum(s, p, step, block, &sum);
}

static bool gather(stage *s, player *p, const coll_step *step)
{
    int members[TRACE_RANKS_MAX];
    trace_message *messages[TRACE_RANKS_MAX];
    const int count = coll_plan_members(&p->plan, step->group, members);
    for (int i = 0; i < count; i++) {
        messages[i] = message_of(s, members[i], p->plan.rank, step->channel);
        if (members[i] != p->plan.rank && messages[i] == NULL) {
            return false;
        }
    }
    for (int b = 0; b < step->block_count; b++) {
        trace_value operands[TRACE_RANKS_MAX];
        for (int i = 0; i < count; i++) {
            operands[i] = members[i] == p->plan.rank ? p->spaces[step->source][step->block + b]
                                                     : messages[i]->values[b];
        }
        trace_canonical(operands, count, &operands[0]);
        write_sum(s, p, step, step->block + b, &operands[0]);
    }
    for (int i = 0; i < count; i++) {
        if (members[i] != p->plan.rank) {
            messages[i]->taken_round = s->round;
        }
    }
    return true;
}

static bool receive(stage *s, player *p, const coll_step *step)
{
    trace_message *message = message_of(s, step->peer, p->plan.rank, step->channel);
    if (message == NULL) {
        return false;
    }
    for (int i = 0; i < step->block_count; i++) {
        const int block = step->block + i;
        const trace_value *incoming = &message->values[i];
        if (step->adds_total) {
            trace_add(incoming, &p->spaces[step->total][block],
                      &p->spaces[COLL_SPACE_SCRATCH][block]);
        }
        if (step->action == COLL_ACTION_COPY) {
            p->spaces[step->target][block] = *incoming;
        } else {
            combine(s, p, step, block, incoming);
        }
    }
    message->taken_round = s->round;
    return true;
}

/* MOVE, MERGE and FILL. */
static bool work_alone(stage *s, player *p, const coll_step *step)
{
    for (int block = step->block; block < step->block + step->block_count; block++) {
        if (step->action == COLL_ACTION_FILL) {
            p->spaces[step->target][block] = (trace_value){.text = "0"};
        } else if (step->action == COLL_ACTION_MOVE) {
            p->spaces[step->target][block] = p->spaces[step->source][block];
        } else {
            combine(s, p, step, block, &p->spaces[COLL_SPACE_SCRATCH][block]);
        }
    }
    return true;
}

/* One step; false if it must wait, or belongs to the other half of the round. */
static bool play_step(stage *s, player *p, const coll_step *step, bool sends)
{
    if ((step->action == COLL_ACTION_SEND) != sends || !is_released(p, step)) {
        return false;
    }
    switch (step->action) {
    case COLL_ACTION_SEND:
        send(s, p, step);
        return !s->full;
    case COLL_ACTION_GATHER:
        return gather(s, p, step);
    case COLL_ACTION_COPY:
    case COLL_ACTION_COMBINE:
        return receive(s, p, step);
    default:
        return work_alone(s, p, step);
    }
}

/* Half a round of all ranks: they send, or they take. Whether anything happened. */
static bool play_half(stage *s, bool sends)
{
    bool any = false;
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < s->result->plan.ranks; rank++) {
            player *p = &s->players[rank];
            for (int number = 0; number < p->track_count; number++) {
                track *t = &p->tracks[number];
                while (load(p, number) && play_step(s, p, &t->step, sends)) {
                    t->index++;
                    t->loaded = false;
                    moved = true;
                }
            }
        }
        any = any || moved;
    }
    return any;
}

static void note_cells(stage *s, int row)
{
    for (int rank = 0; rank < s->result->plan.ranks; rank++) {
        for (int block = 0; block < s->result->block_count; block++) {
            s->result->cells[row][rank][block] = cell_of(&s->players[rank], block);
        }
    }
}

static void set_up(stage *s, int rank)
{
    player *p = &s->players[rank];
    p->plan = s->result->plan;
    p->plan.rank = rank;
    p->track_count = coll_plan_track_count(&p->plan);
    for (int block = 0; block < s->result->block_count; block++) {
        if (has_input(&p->plan, block)) {
            trace_operand(rank, block, &p->spaces[COLL_SPACE_INPUT][block]);
        }
    }
}

static coll_status check_ended(stage *s, coll_error *reterr)
{
    for (int rank = 0; rank < s->result->plan.ranks; rank++) {
        player *p = &s->players[rank];
        for (int number = 0; number < p->track_count; number++) {
            if (load(p, number)) {
                return coll_fail(reterr, COLL_ERR_STATE, "track %d of rank %d is stuck at step %d",
                                 number, rank, p->tracks[number].index);
            }
        }
    }
    return COLL_OK;
}

static coll_status play(stage *s, coll_error *reterr)
{
    for (int rank = 0; rank < s->result->plan.ranks; rank++) {
        set_up(s, rank);
    }
    s->round = -1;
    (void)play_half(s, false); /* what is only moved on a rank */
    note_cells(s, 0);
    for (s->round = 0; s->round < TRACE_ROUNDS_MAX; s->round++) {
        const bool sent = play_half(s, true);
        const bool took = play_half(s, false);
        if (!sent && !took) {
            break;
        }
        s->result->round_count = s->round + 1;
        note_cells(s, s->round + 1);
    }
    if (s->full || s->round == TRACE_ROUNDS_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "more than %d rounds or %d messages",
                         TRACE_ROUNDS_MAX, TRACE_MESSAGES_MAX);
    }
    return check_ended(s, reterr);
}

coll_status trace_run(const coll_plan *plan, trace_result *result, coll_error *reterr)
{
    if (plan->ranks < 2 || plan->ranks > TRACE_RANKS_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "a trace is of 2 to %d ranks, not of %d",
                         TRACE_RANKS_MAX, plan->ranks);
    }
    stage *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a trace");
    }
    memset(result, 0, sizeof *result);
    result->plan = *plan;
    result->block_count = coll_plan_block_count(plan);
    s->result = result;
    const coll_status status = play(s, reterr);
    free(s);
    return status;
}
