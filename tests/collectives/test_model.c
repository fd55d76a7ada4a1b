/* The tiny-message protocol of collectives/src/shm_run.c, shm_path.c, shm_copies.c, shm_credit.c
 * and shm.c, model-checked: every interleaving of 2 and 3 ranks' loads and stores is tried, with
 * stores that reach memory late and out of order unless a release or a fence forbids it.
 *
 * The model: an operation is credit, payload, word (release), then for each peer that is needed:
 * its word (acquire) and its payload. At once, or when a word is not there, or else in the end,
 * comes the telling: fence, a look at each peer's sleeper flag (and ringing). Who has told and
 * finds nothing may go to sleep: reads its bell, sets its flag, fence, looks again, and only wakes
 * when the bell was rung. There are two slots, so that reuse comes early; the library has more. A
 * payload that is not the operation's, a line that was overwritten before it was read, and a state
 * in which nobody can do anything are errors.
 *
 * The search proves its worth: each of seven mutations, a fence or an order less, must be found. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum {
    RANKS_MAX = 3,
    SLOTS_MAX = 2,
    BUFFER_MAX = 3, /* stores of a rank on their way to memory */
    OPERATIONS_MAX = 5,
    ALL = 0xff, /* kind: everybody needs everybody; else the root whom the others need */
    TABLE_BITS_MIN = 16,
};

typedef struct protocol {
    int ranks;
    int operations;
    int slots;           /* that there are */
    int credit;          /* that ranks believe there are */
    unsigned sleepers;   /* bit r: rank r may go to sleep; the others only look again */
    bool no_release;     /* the word may overtake the payload */
    bool no_acquire;     /* the payload may be read before the word */
    bool no_fence;       /* nothing between the word and the look at sleepers */
    bool no_second_look; /* a sleeper does not look again after raising its flag */
    bool no_last_word;   /* who need not wait tells nobody */
    uint8_t kinds[OPERATIONS_MAX];
} protocol;

typedef enum place {
    CREDIT = 0,
    PAYLOAD,
    WORD,
    FENCE,
    LOOK,
    WAIT,
    READ,
    SLEEP_BELL,
    SLEEP_FLAG,
    SLEEP_LOOK,
    ASLEEP,
    AWAKE,
    ENDED,
} place;

/* Locations of memory, per rank: a word and a payload for each slot, the flag. */
enum { AT_WORD = 0, AT_PAYLOAD = SLOTS_MAX, AT_FLAG = 2 * SLOTS_MAX, LOCATIONS };

typedef struct store {
    uint8_t location;
    uint8_t value;
    uint8_t release;
} store;

typedef struct actor {
    uint8_t at;
    uint8_t back; /* where a sleeper goes on */
    uint8_t operation;
    uint8_t peer;   /* looked at, or waited for */
    uint8_t untold; /* the word was written, and nobody looked who sleeps */
    uint8_t next;   /* the peer to wait for when that is done */
    uint8_t bell;   /* as it was before going to sleep */
    uint8_t early;
    uint8_t has_early; /* the payload was read before the word */
    uint8_t seen[RANKS_MAX];
    uint8_t buffered;
    store buffer[BUFFER_MAX];
} actor;

typedef struct world {
    actor actors[RANKS_MAX];
    uint8_t memory[RANKS_MAX][LOCATIONS];
    uint8_t rung[RANKS_MAX];
} world;

typedef struct search {
    const protocol *p;
    world *states; /* all that were reached, in order; also the queue */
    size_t count;
    size_t capacity;
    uint32_t *table; /* 1 + index into states; 0 free */
    size_t table_size;
    const char *error;
} search;

static uint64_t hash_of(const world *s)
{
    const uint8_t *bytes = (const uint8_t *)s;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *s; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 31;
}

static void insert(search *x, uint32_t index)
{
    size_t at = hash_of(&x->states[index]) & (x->table_size - 1);
    while (x->table[at] != 0) {
        at = (at + 1) & (x->table_size - 1);
    }
    x->table[at] = index + 1;
}

static void grow(search *x)
{
    x->capacity = x->capacity == 0 ? (size_t)1 << TABLE_BITS_MIN : 2 * x->capacity;
    x->states = realloc(x->states, x->capacity * sizeof *x->states);
    free(x->table);
    x->table_size = 2 * x->capacity;
    x->table = calloc(x->table_size, sizeof *x->table);
    assert_true(x->states != NULL && x->table != NULL);
    for (size_t i = 0; i < x->count; i++) {
        insert(x, (uint32_t)i);
    }
}

static void reach(search *x, const world *s)
{
    if (x->count == x->capacity) {
        grow(x);
    }
    size_t at = hash_of(s) & (x->table_size - 1);
    for (; x->table[at] != 0; at = (at + 1) & (x->table_size - 1)) {
        if (memcmp(&x->states[x->table[at] - 1], s, sizeof *s) == 0) {
            return;
        }
    }
    x->states[x->count] = *s;
    x->table[at] = (uint32_t)++x->count;
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

static uint8_t slot_of(const protocol *p, int operation)
{
    return (uint8_t)(operation % p->slots);
}

static bool needs(const protocol *p, int rank, int peer, int operation)
{
    const uint8_t kind = p->kinds[operation - 1];
    return peer != rank && (kind == ALL || (kind == peer && kind != rank));
}

/* The first peer whose earlier operation may still need what this one overwrites; -1. */
static int lacks_credit(const protocol *p, const actor *a, int rank)
{
    for (int peer = 0; peer < p->ranks; peer++) {
        if (peer != rank && a->operation > p->credit &&
            a->seen[peer] < a->operation - p->credit + 1) {
            return peer;
        }
    }
    return -1;
}

static void begin_operation(const protocol *p, actor *a)
{
    a->operation++;
    a->peer = 0;
    a->at = a->operation > p->operations ? ENDED : CREDIT;
}

static int next_needed(const protocol *p, const actor *a, int rank)
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
    const protocol *p = x->p;
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
static bool go_to_sleep(const protocol *p, actor *a, int rank)
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

/* All states of the protocol, or the first error. */
static const char *check(const protocol *p, size_t *states)
{
    search x = {.p = p};
    world first;
    memset(&first, 0, sizeof first);
    for (int rank = 0; rank < p->ranks; rank++) {
        begin_operation(p, &first.actors[rank]);
    }
    reach(&x, &first);
    for (size_t i = 0; i < x.count && x.error == NULL; i++) {
        const world s = x.states[i];
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
    *states = x.count;
    free(x.states);
    free(x.table);
    return x.error;
}

static protocol correct(int ranks, int operations)
{
    protocol p = {.ranks = ranks, .operations = operations, .slots = 2, .credit = 2, .sleepers = 3};
    memset(p.kinds, ALL, sizeof p.kinds);
    return p;
}

static void holds(const protocol *p)
{
    size_t states = 0;
    const char *error = check(p, &states);
    if (error != NULL) {
        fail_msg("%d ranks: %s", p->ranks, error);
    }
    print_message("%d ranks, %d operations, sleepers %u: %zu states\n", p->ranks, p->operations,
                  p->sleepers, states);
}

/* With three ranks, one at a time may sleep: that is what a ring could miss. */
static void hold_of_three(const protocol *p)
{
    for (unsigned rank = 0; rank <= RANKS_MAX; rank++) {
        protocol one = *p;
        one.sleepers = rank == RANKS_MAX ? 0 : 1u << rank;
        holds(&one);
    }
}

static void test_all_wait_for_all(void **state)
{
    (void)state;
    const protocol two = correct(2, 5);
    const protocol three = correct(3, 3);
    holds(&two);
    hold_of_three(&three);
}

/* A root runs ahead as far as credit lets it; then everybody meets, or the root is another. */
static void test_roots_run_ahead(void **state)
{
    (void)state;
    protocol two = correct(2, 5);
    memcpy(two.kinds, (uint8_t[]){0, 0, 0, 1, ALL}, 5);
    holds(&two);
    memcpy(two.kinds, (uint8_t[]){0, 0, 0, 0, 0}, 5);
    holds(&two);
    protocol three = correct(3, 3);
    memcpy(three.kinds, (uint8_t[]){0, 0, 0}, 3);
    hold_of_three(&three);
    memcpy(three.kinds, (uint8_t[]){0, 1, 2}, 3);
    hold_of_three(&three);
}

static void breaks(const protocol *p, const char *words)
{
    size_t states = 0;
    const char *error = check(p, &states);
    assert_non_null(error);
    assert_string_equal(error, words);
}

static void test_mutations_are_found(void **state)
{
    (void)state;
    protocol p = correct(2, 4);
    p.slots = 1; /* one buffer in the place of two */
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.credit = 3; /* a slot is used again one operation too early */
    memcpy(p.kinds, (uint8_t[]){0, 0, 0, 0}, 4);
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_release = true;
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_acquire = true;
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_fence = true;
    breaks(&p, "nobody can go on");
    p = correct(2, 4);
    p.no_second_look = true;
    breaks(&p, "nobody can go on");
    p = correct(2, 4);
    p.no_last_word = true;
    breaks(&p, "nobody can go on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_wait_for_all),
        cmocka_unit_test(test_roots_run_ahead),
        cmocka_unit_test(test_mutations_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
