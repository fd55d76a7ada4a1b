/* Runs ranks one at a time and switches between them at any load or store of transport/shm. Used by
 * test_interleave.c. */
#include "interleave.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>

#include "base/clock.h"
#include "core/op.h"
#include "random.h"
#include "support.h"
#include "transport/shm/layout.h"

enum { HELD_MAX = 8 };

typedef struct held_store {
    volatile void *at;
    size_t bytes;
    uint64_t value;
    bool consistent; /* sequentially */
} held_store;

typedef enum rank_state { RANK_RUNS = 0, RANK_SLEEPS, RANK_LEFT } rank_state;

typedef struct actor {
    rank_state state;
    sem_t turn;
    held_store held[HELD_MAX];
    int held_count;
    const volatile uint32_t *doorbell; /* where it sleeps, */
    uint32_t doorbell_value;           /* and what stood there */
    bool fenced;                       /* its last step was a fence */
} actor;

/* Only whose turn it is touches this; a turn is given by a semaphore. */
static struct {
    actor actors[INTERLEAVE_RANKS_MAX];
    int ranks;
    int entered;
    uint64_t random;
    interleave_without without;
    unsigned steps; /* until the next change */
    int stuck;
    int64_t now_ns;
} play;

static _Thread_local actor *me;

static uint64_t read_memory(const volatile void *at, size_t bytes)
{
    return bytes == sizeof(uint32_t)
               ? __atomic_load_n((const volatile uint32_t *)at, __ATOMIC_SEQ_CST)
               : __atomic_load_n((const volatile uint64_t *)at, __ATOMIC_SEQ_CST);
}

static void write_memory(volatile void *at, size_t bytes, uint64_t value)
{
    if (bytes == sizeof(uint32_t)) {
        __atomic_store_n((volatile uint32_t *)at, (uint32_t)value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((volatile uint64_t *)at, value, __ATOMIC_SEQ_CST);
    }
}

/* The oldest `count` of the rank's stores reach memory. */
static void release_held(actor *a, int count)
{
    for (int i = 0; i < count; i++) {
        write_memory(a->held[i].at, a->held[i].bytes, a->held[i].value);
    }
    for (int i = count; i < a->held_count; i++) {
        a->held[i - count] = a->held[i];
    }
    a->held_count -= count;
}

static actor *choose(void)
{
    actor *able[INTERLEAVE_RANKS_MAX];
    int count = 0;
    for (int i = 0; i < play.ranks; i++) {
        if (play.actors[i].state == RANK_RUNS) {
            able[count++] = &play.actors[i];
        }
    }
    return count > 0 ? able[test_random_below(&play.random, (uint32_t)count)] : NULL;
}

/* Gives the turn to whoever may have it. Short turns are likelier, but some are as long as a rank
 * looks before it goes to sleep. */
static void change(void)
{
    actor *next = choose();
    play.steps = 1 + test_random_below(&play.random, 1U << test_random_below(&play.random, 14));
    if (next == NULL) { /* asleep, or left; a sleeper looks again when it is woken by mistake */
        for (int i = 0; i < play.ranks; i++) {
            if (play.actors[i].state == RANK_SLEEPS) {
                play.actors[i].state = RANK_RUNS;
                next = &play.actors[i];
            }
        }
        if (next == NULL) {
            return;
        }
        play.stuck++;
    }
    if (next != me) {
        actor *self = me;
        (void)sem_post(&next->turn);
        if (self->state != RANK_LEFT) {
            (void)sem_wait(&self->turn);
        }
    }
}

/* Before each operation of the rank. */
static void step(void)
{
    me->fenced = false;
    if (play.steps > 0) {
        play.steps--;
        return;
    }
    for (int i = 0; i < play.ranks; i++) {
        actor *a = &play.actors[i];
        release_held(a, (int)test_random_below(&play.random, (uint32_t)a->held_count + 1));
    }
    change();
}

void interleave_begin(int ranks, uint64_t seed, interleave_without without)
{
    play.ranks = ranks;
    play.entered = 0;
    play.random = seed;
    play.without = without;
    play.steps = 0;
    play.stuck = 0;
    play.now_ns = base_now_ns();
    for (int i = 0; i < ranks; i++) {
        play.actors[i] = (actor){.state = RANK_RUNS};
        (void)sem_init(&play.actors[i].turn, 0, 0);
    }
}

void interleave_enter(int rank)
{
    actor *self = &play.actors[rank];
    const bool last = __atomic_add_fetch(&play.entered, 1, __ATOMIC_SEQ_CST) == play.ranks;
    if (last) {
        (void)sem_post(&self->turn);
    }
    (void)sem_wait(&self->turn);
    me = self;
}

void interleave_leave(void)
{
    release_held(me, me->held_count);
    me->state = RANK_LEFT;
    change();
    me = NULL;
}

int interleave_stuck(void)
{
    for (int i = 0; i < play.ranks; i++) {
        (void)sem_destroy(&play.actors[i].turn);
    }
    return play.stuck;
}

uint64_t interleave_load(const volatile void *at, size_t bytes, memory_order order)
{
    if (me == NULL) {
        return read_memory(at, bytes);
    }
    step();
    for (int i = me->held_count; order == memory_order_seq_cst && i > 0; i--) {
        if (me->held[i - 1].consistent) {
            release_held(me, i);
            break;
        }
    }
    for (int i = me->held_count; i > 0; i--) {
        if (me->held[i - 1].at == at) {
            return me->held[i - 1].value;
        }
    }
    return read_memory(at, bytes);
}

void interleave_store(volatile void *at, size_t bytes, uint64_t value, memory_order order)
{
    if (me == NULL) {
        write_memory(at, bytes, value);
        return;
    }
    step();
    if (me->held_count == HELD_MAX) {
        release_held(me, 1);
    }
    me->held[me->held_count++] =
        (held_store){at, bytes, value, .consistent = order == memory_order_seq_cst};
}

/* Of a read-modify-write: all that was stored before is in memory. */
static void begin_modify(void)
{
    if (me != NULL) {
        step();
        release_held(me, me->held_count);
    }
}

uint64_t interleave_exchange(volatile void *at, size_t bytes, uint64_t value)
{
    begin_modify();
    const uint64_t before = read_memory(at, bytes);
    write_memory(at, bytes, value);
    return before;
}

uint64_t interleave_add(volatile void *at, size_t bytes, uint64_t value)
{
    begin_modify();
    const uint64_t before = read_memory(at, bytes);
    write_memory(at, bytes, before + value);
    return before;
}

bool interleave_swap(volatile void *at, size_t bytes, uint64_t *expected, uint64_t value)
{
    begin_modify();
    const uint64_t before = read_memory(at, bytes);
    if (before != *expected) {
        *expected = before;
        return false;
    }
    write_memory(at, bytes, value);
    return true;
}

void interleave_fence(memory_order order)
{
    if (order == memory_order_acquire) {
        return; /* loads are in order here anyway */
    }
    if (me == NULL) {
        static uint32_t nothing; /* ThreadSanitizer knows no fences */
        (void)__atomic_fetch_add(&nothing, 1, __ATOMIC_SEQ_CST);
        return;
    }
    step();
    if (play.without != WITHOUT_FENCES) {
        release_held(me, me->held_count);
    }
    me->fenced = true;
}

long interleave_futex(volatile void *at, int operation, uint32_t value, const void *until)
{
    if (me == NULL) {
        return syscall(SYS_futex, at, operation, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    step();
    release_held(me, me->held_count);
    if (operation == FUTEX_WAKE) {
        for (int i = 0; i < play.ranks; i++) {
            actor *a = &play.actors[i];
            if (a->state == RANK_SLEEPS &&
                read_memory(a->doorbell, sizeof *a->doorbell) != a->doorbell_value) {
                a->state = RANK_RUNS;
            }
        }
        return 0;
    }
    if (read_memory(at, sizeof value) != value) {
        errno = EAGAIN;
        return -1;
    }
    me->doorbell = at;
    me->doorbell_value = value;
    me->state = RANK_SLEEPS;
    change();
    return 0;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int64_t __real_base_now_ns(void);
int64_t __wrap_base_now_ns(void);
bool __real_coll_progress(coll_context *context);
bool __wrap_coll_progress(coll_context *context);
void __real_coll_shm_notify(coll_comm *comm);
void __wrap_coll_shm_notify(coll_comm *comm);
bool __real_coll_shm_may_post(const coll_op *op);
bool __wrap_coll_shm_may_post(const coll_op *op);

int __wrap_sched_yield(void)
{
    if (me == NULL) {
        return __real_sched_yield();
    }
    play.steps = 0;
    step();
    return 0;
}

/* Time passes with the looks at the clock, so that nobody spins for long. */
int64_t __wrap_base_now_ns(void)
{
    enum { LOOK_NS = 20 * 1000 };
    return me == NULL ? __real_base_now_ns() : (play.now_ns += LOOK_NS);
}

bool __wrap_coll_progress(coll_context *context)
{
    const bool again =
        me != NULL && me->fenced; /* the sleeper's: just after its flag and a fence */
    return !(again && play.without == WITHOUT_SECOND_LOOK) && __real_coll_progress(context);
}

void __wrap_coll_shm_notify(coll_comm *comm)
{
    if (me == NULL || play.without != WITHOUT_NOTIFYING) {
        __real_coll_shm_notify(comm);
    }
}

bool __wrap_coll_shm_may_post(const coll_op *op)
{
    return (me != NULL && play.without == WITHOUT_CREDIT) || __real_coll_shm_may_post(op);
}
