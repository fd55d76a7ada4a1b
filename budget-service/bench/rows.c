/* Times status and audit of a ledger of many rows, with authorizations meanwhile. Called by
 * main.c. */
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "fill.h"
#include "service_bench.h"

enum { STATUS_SAMPLES = 50, AUDIT_SAMPLES_MAX = 1000 };

void bench_fill(const bench_service *bench, long rows)
{
    base_error error = {0};
    const int64_t begun_ns = base_now_ns();
    if (bench_fill_ledger(bench->dir, bench_secret(), rows, &error) != BASE_OK) {
        bench_die("cannot fill the ledger", &error);
    }
    printf("%ld rows in %.1f s\n", rows, (double)(base_now_ns() - begun_ns) / 1e9);
}

static double status_p50_us(const bench_service *bench)
{
    double taken_ns[STATUS_SAMPLES];
    base_error why = {0};
    budget_report report;
    const budget_status_sinks sinks = {0};
    budget_client *client = bench_client(bench, "request");
    for (int i = 0; i < STATUS_SAMPLES; i++) {
        const int64_t begun_ns = base_now_ns();
        if (budget_status(client, &sinks, &report, &why) != BUDGET_GRANTED) {
            bench_die("status", &why);
        }
        taken_ns[i] = (double)(base_now_ns() - begun_ns);
    }
    budget_client_close(client);
    return bench_percentile_us(taken_ns, STATUS_SAMPLES, 99);
}

typedef struct audit_task {
    const bench_service *bench;
    double taken_s;
    budget_audit_report result;
    _Atomic int done;
} audit_task;

static void *audit(void *user)
{
    audit_task *task = user;
    base_error why = {0};
    budget_client *client = bench_client(task->bench, "admin");
    const int64_t begun_ns = base_now_ns();
    if (budget_audit(client, &task->result, &why) != BUDGET_GRANTED) {
        bench_die("audit", &why);
    }
    task->taken_s = (double)(base_now_ns() - begun_ns) / 1e9;
    budget_client_close(client);
    task->done = 1;
    return NULL;
}

/* Authorizations one after the other, while the audit runs. */
static double p99_during_audit_us(const bench_service *bench, audit_task *task)
{
    static double taken_ns[AUDIT_SAMPLES_MAX];
    pthread_t thread;
    int count = 0;
    budget_grant grant;
    budget_client *client = bench_client(bench, "request");
    bench_authorize(client, "before-audit", &grant);
    if (pthread_create(&thread, NULL, audit, task) != 0) {
        const base_error error = {.message = "no thread"};
        bench_die("audit", &error);
    }
    while (!task->done && count < AUDIT_SAMPLES_MAX) {
        char label[64];
        (void)snprintf(label, sizeof label, "audit-%d", count);
        const int64_t begun_ns = base_now_ns();
        bench_authorize(client, label, &grant);
        taken_ns[count++] = (double)(base_now_ns() - begun_ns);
    }
    (void)pthread_join(thread, NULL);
    budget_client_close(client);
    return bench_percentile_us(taken_ns, count, 99);
}

void bench_long(const bench_service *bench)
{
    double p99_us = 0;
    audit_task task = {.bench = bench};
    const double one_us = bench_one_client_us(bench, "one", 200, &p99_us);
    printf("authorize, one client, p50  %10.1f us\n", one_us);
    printf("status, p99                 %10.1f us   target: below 50000\n", status_p50_us(bench));
    const double busy_us = p99_during_audit_us(bench, &task);
    printf("audit of %lu rows: %s, %.1f s   target: below 40\n", (unsigned long)task.result.rows,
           task.result.good ? "good" : task.result.findings[0], task.taken_s);
    printf("authorize meanwhile, p99    %10.1f us   target: below 25000\n", busy_us);
    printf("resident memory, at most    %10.1f MiB  target: below 100\n", bench_rss_mib(bench));
}
