/* Measures the memory bandwidth and core-to-core latency of this host. Called by run.c before the
 * ranks, for the ceiling that the table shows. */
#include "roofline.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 32,
    AREA_BYTES = 64 << 20, /* of each thread: beyond its share of the last cache */
    PASSES = 3,
    TRIP_RUNS = 40, /* the quickest counts: others may use the processors */
    ROUND_TRIPS = 500,
};

typedef struct line {
    _Alignas(128) _Atomic uint32_t ball;
} line;

typedef struct shared_state {
    bench_gate gate; /* of threads: bench_gate_prepare says how many */
    line table;
    double read[THREADS_MAX]; /* seconds of the best pass */
    double copy[THREADS_MAX];
    double trips_us;
} shared_state;

typedef struct worker {
    shared_state *shared;
    pthread_t thread;
    int index;
    int count;
} worker;

static uint64_t read_area(const uint64_t *words)
{
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < AREA_BYTES / sizeof words[0]; i += 8) {
        for (int k = 0; k < 8; k++) {
            sums[k] += words[i + (size_t)k];
        }
    }
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

/* The seconds of the quickest pass, all threads at once. */
static void time_memory(worker *self)
{
    shared_state *shared = self->shared;
    volatile uint64_t sink = 0;
    uint8_t *area = aligned_alloc(4096, AREA_BYTES);
    if (area == NULL) {
        bench_gate_fail(&shared->gate);
        return;
    }
    memset(area, 1, AREA_BYTES);
    for (int pass = 0; pass < PASSES; pass++) {
        (void)bench_gate_pass(&shared->gate);
        const uint64_t begin = bench_ticks();
        sink = sink + read_area((const uint64_t *)area);
        const uint64_t middle = bench_ticks();
        (void)bench_gate_pass(&shared->gate);
        const uint64_t again = bench_ticks();
        memcpy(area + AREA_BYTES / 2, area, AREA_BYTES / 2);
        const uint64_t end = bench_ticks();
        const double read_s = (double)(middle - begin) / bench_ticks_per_us() / 1e6;
        const double copy_s = (double)(end - again) / bench_ticks_per_us() / 1e6;
        double *read = &shared->read[self->index];
        double *copy = &shared->copy[self->index];
        *read = pass == 0 || read_s < *read ? read_s : *read;
        *copy = pass == 0 || copy_s < *copy ? copy_s : *copy;
    }
    free(area);
}

/* Two threads throw a line to each other. */
static void time_round_trips(worker *self)
{
    _Atomic uint32_t *ball = &self->shared->table.ball;
    const uint32_t mine = (uint32_t)self->index;
    if (!bench_gate_pass(&self->shared->gate)) {
        return;
    }
    uint64_t best = UINT64_MAX;
    for (uint32_t run = 0; run < TRIP_RUNS; run++) {
        const uint64_t begin = bench_ticks();
        for (uint32_t i = run * ROUND_TRIPS; i < (run + 1) * ROUND_TRIPS; i++) {
            while (atomic_load_explicit(ball, memory_order_acquire) != 2 * i + mine) {
            }
            atomic_store_explicit(ball, 2 * i + mine + 1, memory_order_release);
        }
        const uint64_t elapsed = bench_ticks() - begin;
        best = elapsed < best ? elapsed : best;
    }
    if (mine == 0) {
        self->shared->trips_us = (double)best / bench_ticks_per_us();
    }
}

static void *work(void *argument)
{
    worker *self = argument;
    if (!bench_bind(self->index, self->count)) {
        bench_gate_fail(&self->shared->gate);
        return NULL;
    }
    time_memory(self);
    if (self->count == 2) {
        time_round_trips(self);
    }
    return NULL;
}

/* Sums of the threads' bandwidths, each AREA_BYTES (read) or half of it (copied) in its time. */
static bool measure(int count, double *read, double *copy, double *one_way_ns)
{
    shared_state *shared = aligned_alloc(128, (sizeof *shared + 127) / 128 * 128);
    worker workers[THREADS_MAX];
    int started = 0;
    if (shared == NULL) {
        return false;
    }
    memset(shared, 0, sizeof *shared);
    bench_gate_prepare(count);
    (void)bench_ticks_per_us();
    for (; started < count; started++) {
        workers[started] = (worker){.shared = shared, .index = started, .count = count};
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) {
            bench_gate_fail(&shared->gate);
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    const bool done = started == count && atomic_load(&shared->gate.failed) == 0;
    *read = 0.0;
    *copy = 0.0;
    for (int i = 0; done && i < count; i++) {
        *read += shared->read[i] > 0 ? AREA_BYTES / shared->read[i] / 1e9 : 0;
        *copy += shared->copy[i] > 0 ? AREA_BYTES / 2.0 / shared->copy[i] / 1e9 : 0;
    }
    if (done && count == 2 && one_way_ns != NULL) {
        *one_way_ns = shared->trips_us * 1e3 / ROUND_TRIPS / 2;
    }
    free(shared);
    return done;
}

bench_roofline bench_roofline_measure(int processors_max)
{
    cpu_set_t allowed;
    bench_roofline roofline = {.processors = 1};
    int processors = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    processors = processors > processors_max ? processors_max : processors;
    processors = processors > THREADS_MAX ? THREADS_MAX : processors;
    (void)measure(1, &roofline.read_one, &roofline.copy_one, NULL);
    roofline.read_all = roofline.read_one;
    roofline.copy_all = roofline.copy_one;
    double read = 0.0;
    double copy = 0.0;
    if (processors >= 2 && measure(2, &read, &copy, &roofline.core_to_core_ns)) {
        roofline.processors = 2;
        roofline.read_all = read;
        roofline.copy_all = copy;
    }
    if (processors > 2 && measure(processors, &read, &copy, NULL)) {
        roofline.processors = processors;
        roofline.read_all = read;
        roofline.copy_all = copy;
    }
    return roofline;
}
