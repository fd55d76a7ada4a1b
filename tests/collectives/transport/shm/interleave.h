/* Runs ranks that are threads one at a time, and changes between them at any load or store of
 * collectives/transport/shm, as drawn from a seed. Those sources are compiled into the test with
 * this header before all others: their atomic operations, and their futex, become the functions
 * below.
 *
 * A store is held back, as processors do it, and reaches memory some time later, in order: at the
 * latest with the rank's next fence or read-modify-write, and where it is sequentially consistent,
 * before the rank's next load that is so, too. A rank that sleeps is woken by nothing but its
 * doorbell; time-outs are left out, so a ring that is missed leaves everybody asleep, and is
 * noticed. */
#ifndef TEST_COLL_INTERLEAVE_H
#define TEST_COLL_INTERLEAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { INTERLEAVE_RANKS_MAX = 4 };

/* Mutations: what the protocol must not do without. */
typedef enum interleave_without {
    WITHOUT_NOTHING = 0,
    WITHOUT_FENCES,
    WITHOUT_SECOND_LOOK, /* a rank that goes to sleep does not look again */
    WITHOUT_NOTIFYING,   /* a rank that has published does not look for sleepers */
    WITHOUT_CREDIT,      /* flags and slots are used again at once */
} interleave_without;

/* Before the ranks start. */
void interleave_begin(int ranks, uint64_t seed, interleave_without without);
/* A rank's thread goes on when all have come, and it is its turn. */
void interleave_enter(int rank);
/* The others go on without it. */
void interleave_leave(void);
/* After the ranks have ended: how often all that had not left were asleep. */
int interleave_stuck(void);

uint64_t interleave_load(const volatile void *at, size_t bytes, memory_order order);
void interleave_store(volatile void *at, size_t bytes, uint64_t value, memory_order order);
uint64_t interleave_exchange(volatile void *at, size_t bytes, uint64_t value);
uint64_t interleave_add(volatile void *at, size_t bytes, uint64_t value);
bool interleave_swap(volatile void *at, size_t bytes, uint64_t *expected, uint64_t value);
void interleave_fence(memory_order order);
long interleave_futex(volatile void *at, int operation, uint32_t value, const void *until);

#ifdef TEST_COLL_INTERLEAVED
#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_compare_exchange_strong
#undef atomic_thread_fence
#define atomic_load(at) atomic_load_explicit(at, memory_order_seq_cst)
#define atomic_load_explicit(at, order)                                                            \
    ((__typeof__(*(at) + 0))interleave_load(at, sizeof *(at), order))
#define atomic_store(at, value)                 atomic_store_explicit(at, value, memory_order_seq_cst)
#define atomic_store_explicit(at, value, order) interleave_store(at, sizeof *(at), value, order)
#define atomic_exchange(at, value)              interleave_exchange(at, sizeof *(at), value)
#define atomic_fetch_add(at, value)             interleave_add(at, sizeof *(at), value)
#define atomic_compare_exchange_strong(at, expected, value)                                        \
    interleave_swap(at, sizeof *(at), expected, value)
#define atomic_thread_fence(order) interleave_fence(order)
#define syscall(number, at, operation, value, until, ...)                                          \
    interleave_futex(at, operation, value, until)
#endif

#endif
