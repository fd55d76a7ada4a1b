/* A model of the tiny-message protocol of collectives/src/shm_run.c, shm_path.c, shm_copies.c,
 * shm_credit.c and shm.c: an operation is credit, payload, word (release), then for each peer that
 * is needed: its word (acquire) and its payload. At once, or when a word is not there, or else in
 * the end, comes the telling: fence, a look at each peer's sleeper flag (and ringing). Who has told
 * and finds nothing may go to sleep: reads its bell, sets its flag, fence, looks again, and only
 * wakes when the bell was rung. There are two slots, so that reuse comes early; the library has
 * more.
 *
 * Stores reach memory late and out of order unless a release or a fence forbids it. A payload that
 * is not the operation's, a line that was overwritten before it was read, and a state in which
 * nobody can do anything are errors. */
#ifndef TEST_COLL_MODEL_H
#define TEST_COLL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_RANKS_MAX = 3,
    MODEL_OPERATIONS_MAX = 5,
    MODEL_ALL = 0xff, /* kind: everybody needs everybody; else the root whom the others need */
};

typedef struct model_protocol {
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
    uint8_t kinds[MODEL_OPERATIONS_MAX];
} model_protocol;

/* Tries every interleaving: the words of the first error found, or NULL. *states: how many states
 * were reached. */
const char *model_check(const model_protocol *p, size_t *states);

#endif
