/* A spinning barrier in shared memory, CPU binding and the time-stamp counter. Called by the
 * benchmark's ranks before each timed batch, and by tests/peers for other libraries. */
#include "gate.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { SPINS_MAX = 20000, COST_TRIALS = 1000 };

static int ranks;
static bool crowded; /* more ranks than processors */

void bench_gate_prepare(int count)
{
    cpu_set_t allowed;
    ranks = count;
    crowded = sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < count;
}

bool bench_gate_pass(bench_gate *gate)
{
    const uint32_t generation = atomic_load_explicit(&gate->generation, memory_order_acquire);
    if (atomic_fetch_add(&gate->arrived, 1) + 1 == (uint32_t)ranks) {
        atomic_store(&gate->arrived, 0);
        atomic_store(&gate->generation, generation + 1);
        return atomic_load(&gate->failed) == 0;
    }
    for (unsigned spins = 0;
         atomic_load_explicit(&gate->generation, memory_order_acquire) == generation; spins++) {
        if (atomic_load_explicit(&gate->failed, memory_order_relaxed) != 0) {
            return false;
        }
        if (crowded || spins > SPINS_MAX) {
            (void)sched_yield();
        }
    }
    return atomic_load(&gate->failed) == 0;
}

void bench_gate_fail(bench_gate *gate)
{
    atomic_store(&gate->failed, 1);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
uint64_t bench_ticks(void)
{
    unsigned processor = 0;
    return __rdtscp(&processor);
}
#else
uint64_t bench_ticks(void)
{
    return clock_ns();
}
#endif

double bench_ticks_per_us(void)
{
    static double ticks_per_us;
    if (ticks_per_us == 0.0) {
        const uint64_t begin_ns = clock_ns();
        const uint64_t begin = bench_ticks();
        uint64_t now_ns = begin_ns;
        while (now_ns - begin_ns < 10000000U) {
            now_ns = clock_ns();
        }
        ticks_per_us = (double)(bench_ticks() - begin) * 1e3 / (double)(now_ns - begin_ns);
    }
    return ticks_per_us;
}

uint64_t bench_ticks_cost(void)
{
    static uint64_t known;
    if (known == 0) {
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < COST_TRIALS; i++) {
            const uint64_t begin = bench_ticks();
            const uint64_t end = bench_ticks();
            least = end - begin < least ? end - begin : least;
        }
        known = least;
    }
    return known;
}

bool bench_bind(int index, int count)
{
    cpu_set_t allowed;
    cpu_set_t own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < count) {
        return false;
    }
    for (int cpu = 0, place = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place++ == index) {
            CPU_SET(cpu, &own);
        }
    }
    return sched_setaffinity(0, sizeof own, &own) == 0;
}
