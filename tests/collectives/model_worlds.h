/* A state of the model (model.h), all of it bytes, and the set of those that were reached. */
#ifndef TEST_COLL_MODEL_WORLDS_H
#define TEST_COLL_MODEL_WORLDS_H

#include "model.h"

enum {
    SLOTS_MAX = 2,
    BUFFER_MAX = 3, /* stores of a rank on their way to memory */
};

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
    uint8_t seen[MODEL_RANKS_MAX];
    uint8_t buffered;
    store buffer[BUFFER_MAX];
} actor;

typedef struct world {
    actor actors[MODEL_RANKS_MAX];
    uint8_t memory[MODEL_RANKS_MAX][LOCATIONS];
    uint8_t rung[MODEL_RANKS_MAX];
} world;

typedef struct worlds {
    world *states; /* all that were reached, in order; also the queue */
    size_t count;
    size_t capacity;
    uint32_t *table; /* 1 + index into states; 0 free */
    size_t table_size;
} worlds;

/* Adds a world unless it is there. */
void worlds_reach(worlds *x, const world *s);
void worlds_free(worlds *x);

#endif
