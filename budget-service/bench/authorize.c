/* Authorizations, durable and end to end, and beside them, in the same run, what no guard could be
 * faster than: a CURVE echo and one durable append. The service runs as a process of its own, in a
 * directory of its own in the current one (/tmp may be memory). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "base/percentile.h"
#include "bench.h"
#include "service_bench.h"

enum {
    WARMUP = 50,
    SAMPLES = 1000,
    CLIENTS = 24, /* below what the service lets one key have */
    CLIENT_SAMPLES = 60,
    MILLION = 1000 * 1000,
    TIMEOUT_MS = 300 * 1000, /* an audit of a million rows takes a minute */
};

double bench_percentile_us(double *samples_ns, int count, int percent)
{
    base_sort(samples_ns, (size_t)count);
    return base_percentile(samples_ns, (size_t)count, percent / 100.0) / (double)BASE_NS_PER_US;
}

void bench_die(const char *what, const base_error *error)
{
    base_log(BASE_LOG_ERROR, "%s: %s", what, error->message);
    exit(BASE_EXIT_ERROR);
}

budget_client *bench_client(const bench_service *bench, const char *name)
{
    base_error error = {0};
    budget_client *client = NULL;
    char seen[BASE_PATH_BYTES + 64];
    static _Atomic int count;
    (void)snprintf(seen, sizeof seen, "%s/clients/bench-%d.seen", bench->dir, count++);
    const budget_client_options options = {
        .dir = bench->dir, .key_name = name, .seen_file = seen, .timeout_ms = TIMEOUT_MS};
    if (budget_client_open(&options, &client, &error) != BASE_OK) {
        bench_die("cannot open a client", &error);
    }
    return client;
}

const budget_claims bench_claims = {
    .account = "bench/lab",
    .max_usd_micro = 1000,
    .mode = "ddp-nccl",
    .world_size = 4,
    .vendor = "runpod",
    .instance_type = "H100",
    .instances = 1,
    .gpus = 4,
    .tier = "spot",
    .max_price_usd_micro_per_hour = 1,
    .max_seconds = 3600,
    .max_attempts = 3,
};

void bench_authorize(budget_client *client, const char *label, budget_grant *grant)
{
    base_error why = {0};
    budget_claims ask = bench_claims;
    (void)snprintf(ask.label, sizeof ask.label, "%s", label);
    if (budget_authorize(client, &ask, grant, &why) != BUDGET_GRANTED) {
        bench_die("authorize", &why);
    }
}

double bench_one_client_us(const bench_service *bench, const char *prefix, int samples,
                           double *p99_us)
{
    static double taken_ns[SAMPLES];
    budget_grant grant;
    budget_client *client = bench_client(bench, "request");
    for (int i = -WARMUP; i < samples; i++) {
        char label[64];
        (void)snprintf(label, sizeof label, "%s-%d", prefix, i);
        const int64_t begun_ns = base_now_ns();
        bench_authorize(client, label, &grant);
        if (i >= 0) {
            taken_ns[i] = (double)(base_now_ns() - begun_ns);
        }
    }
    budget_client_close(client);
    const double p50_us = bench_percentile_us(taken_ns, samples, 50);
    *p99_us = bench_percentile_us(taken_ns, samples, 99);
    return p50_us;
}

typedef struct many {
    pthread_t thread;
    const bench_service *bench;
    int index;
    pthread_barrier_t *barrier;
} many;

static void *ask_many(void *user)
{
    const many *mine = user;
    budget_grant grant;
    char label[64];
    budget_client *client = bench_client(mine->bench, "request");
    (void)snprintf(label, sizeof label, "many-%d-warm", mine->index);
    bench_authorize(client, label, &grant);
    (void)pthread_barrier_wait(mine->barrier);
    for (int i = 0; i < CLIENT_SAMPLES; i++) {
        (void)snprintf(label, sizeof label, "many-%d-%d", mine->index, i);
        bench_authorize(client, label, &grant);
    }
    (void)pthread_barrier_wait(mine->barrier);
    budget_client_close(client);
    return NULL;
}

/* Authorizations per second of all clients together. */
static double many_clients(const bench_service *bench)
{
    static many clients[CLIENTS];
    pthread_barrier_t barrier;
    (void)pthread_barrier_init(&barrier, NULL, CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (many){.bench = bench, .index = i, .barrier = &barrier};
        (void)pthread_create(&clients[i].thread, NULL, ask_many, &clients[i]);
    }
    (void)pthread_barrier_wait(&barrier);
    const int64_t begun_ns = base_now_ns();
    (void)pthread_barrier_wait(&barrier);
    const int64_t taken_ns = base_now_ns() - begun_ns;
    for (int i = 0; i < CLIENTS; i++) {
        (void)pthread_join(clients[i].thread, NULL);
    }
    return (double)CLIENTS * CLIENT_SAMPLES * (double)BASE_NS_PER_S / (double)taken_ns;
}

static void print_row(const char *what, double value, const char *unit, const char *target)
{
    printf("%-58s %12.2f %-6s %s\n", what, value, unit, target);
    (void)fflush(stdout);
}

/* An echo, an append, an authorization, and again:
 * what else the machine does falls on all alike. */
static void in_turns(const bench_service *bench, double *echo_ns, double *append_ns,
                     double *authorize_ns)
{
    bench_floor floor;
    budget_grant grant;
    budget_client *client = bench_client(bench, "request");
    bench_floor_open(&floor, bench);
    for (int i = -WARMUP; i < SAMPLES; i++) {
        const int at = i < 0 ? 0 : i;
        char label[64];
        (void)snprintf(label, sizeof label, "turn-%d", i);
        echo_ns[at] = (double)bench_echo_ns(&floor);
        append_ns[at] = (double)bench_append_ns(&floor);
        const int64_t begun_ns = base_now_ns();
        bench_authorize(client, label, &grant);
        authorize_ns[at] = (double)(base_now_ns() - begun_ns);
    }
    bench_floor_close(&floor);
    budget_client_close(client);
}

static void run_short(const bench_service *bench)
{
    static double echo_ns[SAMPLES];
    static double append_ns[SAMPLES];
    static double authorize_ns[SAMPLES];
    double p99_us = 0;
    in_turns(bench, echo_ns, append_ns, authorize_ns);
    const double echo_us = bench_percentile_us(echo_ns, SAMPLES, 50);
    const double append_us = bench_percentile_us(append_ns, SAMPLES, 50);
    const double turn_us = bench_percentile_us(authorize_ns, SAMPLES, 50);
    const double one_us = bench_one_client_us(bench, "one", SAMPLES, &p99_us);
    const double rate = many_clients(bench);
    print_row("CURVE echo, p50", echo_us, "us", "");
    print_row("4 KiB append with fdatasync, p50", append_us, "us", "");
    print_row("authorize, p50, in turns with those", turn_us, "us", "");
    print_row("  as a multiple of echo and append", turn_us / (echo_us + append_us), "x",
              "target: at most 1.5");
    print_row("authorize, one client without a break, p50", one_us, "us", "");
    print_row("authorize, one client without a break, p99", p99_us, "us", "");
    print_row("authorize, 24 clients", rate, "1/s", "");
    print_row("  as a multiple of one client's rate", rate * one_us / 1e6, "x",
              "target: at least 4");
    print_row("resident memory of the service, at most", bench_rss_mib(bench), "MiB",
              "target: below 100");
}

int bench_authorizations(void)
{
    bench_service bench = {0};
    bench_make(&bench, ".");
    bench_start(&bench);
    run_short(&bench);
    bench_remove(&bench);
    return BASE_EXIT_DONE;
}

int bench_million(void)
{
    bench_service bench = {0};
    bench_make(&bench, ".");
    bench_fill(&bench, MILLION);
    bench_start(&bench);
    bench_long(&bench);
    bench_remove(&bench);
    return BASE_EXIT_DONE;
}
