/* A barrier before what is timed, and the clock that times it. Independent of the library
 * that is measured (tests/peers measures others with it), so the same for all.
 *
 * A gate lies in memory that all ranks share, zeroed. It opens when the last rank comes. If one has
 * failed, bench_gate_fail lets the others go. Ranks spin where each has a processor, and yield
 * where not. */
#ifndef COLL_BENCH_GATE_H
#define COLL_BENCH_GATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_gate {
    _Alignas(128) _Atomic uint32_t arrived;
    _Alignas(128) _Atomic uint32_t generation;
    _Alignas(128) _Atomic uint32_t failed;
} bench_gate;

/* How many ranks pass gates from now on; before bench_bind. */
void bench_gate_prepare(int count);

/* False: a rank has failed, and there is nothing to wait for. */
bool bench_gate_pass(bench_gate *gate);
void bench_gate_fail(bench_gate *gate);

/* A clock that all processors share, cheap to read; and how many of its ticks are a microsecond
 * (measured the first time: 10 ms). */
uint64_t bench_ticks(void);
double bench_ticks_per_us(void);

/* What reading the clock twice adds to whatever stands between: taken off every time. */
uint64_t bench_ticks_cost(void);

/* This process on the index-th of the processors it may use; false, and nothing done, where these
 * are fewer than `count`. */
bool bench_bind(int index, int count);

#endif
