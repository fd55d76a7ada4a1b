#include "model.h"

#include <string.h>

#include "model_worlds.h"

typedef struct search {
    const model_protocol *p;
    worlds reached;
    const char *error;
} search;

static void reach(search *x, const world *s)
{
    worlds_reach(&x->reached, s);
}

static void wrong(search *x, const char *what)
{
    x->error = x->error == NULL ? what : x->error;
}

static bool push(actor *a, uint8_t location, uint8_t value, bool release)
{
    if (a->buffered == BUFFER_MAX) {
        return false;
    }
    a->buffer[a->buffered++] = (store){location, value, release};
    return true;
}

/* Every store that may reach memory next does. */
static bool commit_all(search *x, const world *from, int rank)
{
    const actor *a = &from->actors[rank];
    for (int i = 0; i < a->buffered; i++) {
        bool may = !a->buffer[i].release || i == 0;
        for (int j = 0; j < i; j++) {
            may = may && a->buffer[j].location != a->buffer[i].location;
        }
        if (!may) {
            continue;
        }
        world s = *from;
        actor *b = &s.actors[rank];
        s.memory[rank][b->buffer[i].location] = b->buffer[i].value;
        memmove(&b->buffer[i], &b->buffer[i + 1], sizeof(store) * (size_t)(b->buffered - i - 1));
        b->buffer[--b->buffered] = (store){0, 0, 0};
        reach(x, &s);
    }
    return a->buffered > 0;
}

static uint8_t slot_of(const model_protocol *p, int operation)
{
    return (uint8_t)(operation % p->slots);
}

static bool needs(const model_protocol *p, int rank, int peer, int operation)
{
    const uint8_t kind = p->kinds[operation - 1];
    return peer != rank && (kind == MODEL_ALL || (kind == peer && kind != rank));
}

/* The first peer whose earlier operation may still need what this one overwrites; -1. */
static int lacks_credit(const model_protocol *p, const actor *a, int rank)
{
    for (int peer = 0; peer < p->ranks; peer++) {
        if (peer != rank && a->operation > p->credit &&
            a->seen[peer] < a->operation - p->credit + 1) {
            return peer;
        }
    }
    return -1;
}

static void begin_operation(const model_protocol *p, actor *a)
{
    a->operation++;
    a->peer = 0;
    a->at = a->operation > p->operations ? ENDED : CREDIT;
}

static int next_needed(const model_protocol *p, const actor *a, int rank)
{
    int peer = a->peer;
    while (peer < p->ranks && !needs(p, rank, peer, a->operation)) {
        peer++;
    }
    return peer;
}

/* What a rank that finds nothing waits for: the peer's word, and the least that it must be. */
static bool is_there(const search *x, const world *s, int rank)
{
    const model_protocol *p = x->p;
    const actor *a = &s->actors[rank];
    const place at = a->at >= SLEEP_BELL ? a->back : a->at;
    if (at == CREDIT) {
        const int peer = lacks_credit(p, a, rank);
        const int next = a->seen[peer] + 1;
        return s->memory[peer][AT_WORD + slot_of(p, next)] >= next;
    }
    const int peer = next_needed(p, a, rank);
    return s->memory[peer][AT_WORD + slot_of(p, a->operation)] >= a->operation;
}

/* False if it may not, so has nothing to do but look again. */
static bool go_to_sleep(const model_protocol *p, actor *a, int rank)
{
    if ((p->sleepers & 1u << rank) == 0) {
        return false;
    }
    a->back = a->at;
    a->at = SLEEP_BELL;
    return true;
}

static bool step_credit(search *x, world *s, int rank)
{
    actor *a = &s->actors[rank];
    const int peer = lacks_credit(x->p, a, rank);
    if (peer < 0) {
        a->at = PAYLOAD;
    } else if (is_there(x, s, rank)) {
        a->seen[peer]++;
    } else if (!go_to_sleep(x->p, a, rank)) {
        return false;
    }
    reach(x, s);
    return true;
}

static void begin_telling(actor *a)
{
    a->untold = 0;
    a->next = a->peer;
    a->at = FENCE;
}

static bool step_wait(search *x, world *s, int rank)
{
    actor *a = &s->actors[rank];
    const int peer = next_needed(x->p, a, rank);
    a->peer = (uint8_t)peer;
    if (peer == x->p->ranks) {
        if (a->untold && !x->p->no_last_word) {
            begin_telling(a);
        } else {
            a->untold = 0;
            begin_operation(x->p, a);
        }
        reach(x, s);
        return true;
    }
    const uint8_t slot = slot_of(x->p, a->operation);
    if (x->p->no_acquire && !a->has_early) {
        a->early = s->memory[peer][AT_PAYLOAD + slot];
        a->has_early = 1;
        reach(x, s);
        return true;
    }
    const uint8_t word = s->memory[peer][AT_WORD + slot];
    if (word > a->operation) {
        wrong(x, "a line was overwritten before it was read");
        return true;
    }
    if (word == a->operation) {
        a->at = READ;
    } else {
        const bool again = a->has_early != 0;
        a->has_early = 0;
        a->early = 0;
        if (a->untold) {
            begin_telling(a);
        } else if (!go_to_sleep(x->p, a, rank) && !again) {
            return false;
        }
    }
    reach(x, s);
    return true;
}

static void step_read(search *x, world *s, int rank)
{
    actor *a = &s->actors[rank];
    const uint8_t slot = slot_of(x->p, a->operation);
    const uint8_t payload = a->has_early ? a->early : s->memory[a->peer][AT_PAYLOAD + slot];
    if (payload != a->operation) {
        wrong(x, "a payload is not the operation's");
        return;
    }
    a->seen[a->peer] = a->operation > a->seen[a->peer] ? a->operation : a->seen[a->peer];
    a->has_early = 0;
    a->early = 0;
    a->peer++;
    a->at = WAIT;
    reach(x, s);
}

/* One peer's flag; ringing is an atomic addition, which is a fence as well. False: blocked. */
static bool step_look(search *x, world *s, int rank)
{
    actor *a = &s->actors[rank];
    if (a->peer == x->p->ranks) {
        a->peer = a->next;
        a->next = 0;
        a->at = WAIT;
    } else if (a->peer != rank && s->memory[a->peer][AT_FLAG] != 0) {
        if (a->buffered > 0) {
            return false;
        }
        s->rung[a->peer]++;
        a->peer++;
    } else {
        a->peer++;
    }
    reach(x, s);
    return true;
}

/* False where the rank has to wait for something. */
static bool step_sleeper(search *x, world *s, int rank)
{
    actor *a = &s->actors[rank];
    switch ((place)a->at) {
    case SLEEP_BELL:
        a->bell = s->rung[rank];
        a->at = SLEEP_FLAG;
        break;
    case SLEEP_FLAG:
        if (!push(a, AT_FLAG, 1, false)) {
            return false;
        }
        a->at = SLEEP_LOOK;
        break;
    case SLEEP_LOOK:
        if (a->buffered > 0 && !x->p->no_fence) {
            return false;
        }
        a->at = !x->p->no_second_look && is_there(x, s, rank) ? AWAKE : ASLEEP;
        break;
    case ASLEEP:
        if (s->rung[rank] == a->bell) {
            return false;
        }
        a->at = AWAKE;
        break;
    default:
        if (!push(a, AT_FLAG, 0, false)) {
            return false;
        }
        a->bell = 0;
        a->at = a->back;
        a->back = 0;
        break;
    }
    reach(x, s);
    return true;
}

static bool step(search *x, const world *from, int rank)
{
    world s = *from;
    actor *a = &s.actors[rank];
    const uint8_t slot = slot_of(x->p, a->operation);
    switch ((place)a->at) {
    case CREDIT:
        return step_credit(x, &s, rank);
    case PAYLOAD:
    case WORD: {
        const bool word = a->at == WORD;
        if (!push(a, (uint8_t)((word ? AT_WORD : AT_PAYLOAD) + slot), a->operation,
                  word && !x->p->no_release)) {
            return false;
        }
        a->at++;
        reach(x, &s);
        if (word) { /* or first a look at who is there */
            a->at = WAIT;
            a->untold = 1;
            reach(x, &s);
        }
        return true;
    }
    case FENCE:
        if (a->buffered > 0 && !x->p->no_fence) {
            return false;
        }
        a->peer = 0;
        a->at = LOOK;
        reach(x, &s);
        return true;
    case LOOK:
        return step_look(x, &s, rank);
    case WAIT:
        return step_wait(x, &s, rank);
    case READ:
        step_read(x, &s, rank);
        return true;
    case ENDED:
        return false;
    default:
        return step_sleeper(x, &s, rank);
    }
}

const char *model_check(const model_protocol *p, size_t *states)
{
    search x = {.p = p};
    world first;
    memset(&first, 0, sizeof first);
    for (int rank = 0; rank < p->ranks; rank++) {
        begin_operation(p, &first.actors[rank]);
    }
    reach(&x, &first);
    for (size_t i = 0; i < x.reached.count && x.error == NULL; i++) {
        const world s = x.reached.states[i];
        bool moved = false;
        bool ended = true;
        for (int rank = 0; rank < p->ranks && x.error == NULL; rank++) {
            moved = commit_all(&x, &s, rank) || moved;
            moved = step(&x, &s, rank) || moved;
            ended = ended && s.actors[rank].at == ENDED;
        }
        if (!moved && !ended && x.error == NULL) {
            wrong(&x, "nobody can go on");
        }
    }
    *states = x.reached.count;
    worlds_free(&x.reached);
    return x.error;
}
