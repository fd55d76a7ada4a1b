/* What the parts of budget-bench share. */
#ifndef BUDGET_SERVICE_BENCH_H
#define BUDGET_SERVICE_BENCH_H

#include <pthread.h>
#include <sys/types.h>

#include "budget/client.h"

typedef struct bench_service {
    char dir[BASE_PATH_BYTES];
    budget_keyring keyring;
    pid_t pid; /* of the service */
} bench_service;

/* Says what failed, and ends. */
_Noreturn void bench_die(const char *what, const base_error *error);

double bench_percentile_us(double *samples_ns, int count, int percent);
budget_client *bench_client(const bench_service *bench, const char *name);
extern const budget_claims bench_claims; /* that a job asks for, without a label */
void bench_authorize(budget_client *client, const char *label, budget_grant *grant);
double bench_one_client_us(const bench_service *bench, const char *prefix, int samples,
                           double *p99_us);
double bench_rss_mib(const bench_service *bench);

/* ---- floor.c: what bounds every guard from below */

struct proto_zap;

typedef struct bench_floor {
    void *contexts[2];
    void *sockets[2];
    struct proto_zap *zap;
    pthread_t thread;
    int fd;
    char path[BASE_PATH_BYTES + 16];
} bench_floor;

void bench_floor_open(bench_floor *floor, const bench_service *bench);
void bench_floor_close(bench_floor *floor);

/* One CURVE round trip; one append of 4 KiB with fdatasync. */
int64_t bench_echo_ns(bench_floor *floor);
int64_t bench_append_ns(bench_floor *floor);

/* ---- fixture.c: a service with accounts "bench" and "bench/lab" */

void bench_make(bench_service *bench, const char *parent);
const unsigned char *bench_secret(void); /* its signing key */
void bench_start(bench_service *bench);
void bench_remove(bench_service *bench);

/* ---- rows.c: a ledger of many rows */

void bench_fill(const bench_service *bench, long rows);
void bench_long(const bench_service *bench);

#endif
