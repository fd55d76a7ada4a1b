/* budget-ledger-bench [ROWS]: fills a ledger (default: 1 million rows) in a temporary directory,
 * then measures status, audit in slices with authorizations in between, and memory. Prints one
 * line of JSON. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/percentile.h"
#include "budget/audit.h"
#include "budget/ledger.h"
#include "budget/token.h"

enum { BATCH = 256, SLICE = 1000, TIMES_MAX = 1 << 16 };

typedef struct bench {
    char dir[64];
    budget_ledger *ledger;
    budget_clock clock;
    base_error error;
    int64_t runs;
    int64_t times[TIMES_MAX]; /* of authorizations during the audit, ns */
    int count;
} bench;

static bench self;

static void must(base_status status)
{
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", self.error.message);
        exit(1);
    }
}

static budget_answer authorize(const char *request)
{
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    const budget_caller caller = {.client = 1, .request_id = request};
    budget_authorization claim = {
        .claims =
            {
                .issuer = BUDGET_ISSUER,
                .audience = BUDGET_AUDIENCE,
                .subject = "bench",
                .issued_at = self.clock.wall_ms / 1000,
                .not_before = self.clock.wall_ms / 1000,
                .expires_at = self.clock.wall_ms / 1000 + 900,
                .account = "phase/lab",
                .mode = "ddp-nccl",
                .world_size = 2,
                .vendor = "runpod",
                .instance_type = "A100",
                .instances = 1,
                .gpus = 2,
                .tier = "spot",
                .max_usd_micro = 1000,
                .max_price_usd_micro_per_hour = 1,
                .max_seconds = 3600,
                .max_attempts = 3,
            },
        .kid = "k4.pid.test",
    };
    (void)snprintf(claim.claims.label, sizeof claim.claims.label, "run-%lld",
                   (long long)++self.runs);
    budget_jti_make(claim.claims.jti);
    must(budget_ledger_authorize(self.ledger, &caller, &claim, payload, &answer, &self.error));
    if (answer.reason != BUDGET_REASON_NONE) {
        base_log(BASE_LOG_ERROR, "%s", answer.message);
        exit(1);
    }
    budget_ledger_redemption redemption = {.attempt = 1};
    memcpy(redemption.jti, claim.claims.jti, sizeof redemption.jti);
    must(budget_ledger_redeem(self.ledger, &redemption, &answer, &self.error));
    return answer;
}

/* Four rows: authorized, redeemed, billed, terminated. */
static void one_run(int64_t number)
{
    budget_answer answer;
    char request[32];
    char label[32];
    (void)snprintf(request, sizeof request, "request-%lld", (long long)number);
    answer = authorize(request);
    (void)snprintf(label, sizeof label, "run-%lld", (long long)self.runs);
    const budget_ledger_actual actual = {
        .label = label, .usd_micro = 500, .line_id = request, .billed_usd_micro = 500};
    must(budget_ledger_record_actual(self.ledger, NULL, &actual, &answer, &self.error));
    if (number % 10 != 0) {
        budget_termination termination = {
            .label = label, .evidence = "gone", .evidence_bytes = 4, .attested_allowed = true};
        must(budget_ledger_terminated(self.ledger, NULL, &termination, &answer, &self.error));
    }
}

static void fill(uint64_t rows)
{
    budget_answer answer;
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    const budget_ledger_options options = {.dir = self.dir, .clock = self.clock};
    must(budget_ledger_create(&options, &self.error));
    must(budget_ledger_open(&options, &self.ledger, &self.error));
    must(budget_ledger_begin(self.ledger, &self.clock, &self.error));
    must(budget_ledger_account_create(self.ledger, NULL, "phase", INT64_C(1) << 40, &answer,
                                      &self.error));
    must(budget_ledger_account_create(self.ledger, NULL, "phase/lab", INT64_C(1) << 40, &answer,
                                      &self.error));
    must(budget_ledger_commit(self.ledger, &self.error));
    while (sequence < rows) {
        must(budget_ledger_begin(self.ledger, &self.clock, &self.error));
        for (int i = 0; i < BATCH / 4; i++) {
            one_run(self.runs + 1);
        }
        must(budget_ledger_commit(self.ledger, &self.error));
        budget_ledger_head(self.ledger, &sequence, head);
    }
}

static bool count_account(void *context, const budget_account *account)
{
    (void)account;
    ++*(int *)context;
    return true;
}

static int64_t status_ns(void)
{
    budget_reservation *overdue = malloc(100 * sizeof *overdue);
    int accounts = 0;
    size_t count = 0;
    int64_t overdue_count = 0;
    int64_t frozen_count = 0;
    int64_t spent = 0;
    const int64_t from_ns = base_now_ns();
    must(budget_ledger_accounts(self.ledger, count_account, &accounts, &self.error));
    must(budget_ledger_overdue(self.ledger, 100, overdue, &count, &self.error));
    must(budget_ledger_attention(self.ledger, &overdue_count, &frozen_count, &self.error));
    must(budget_ledger_total_spent(self.ledger, NULL, &spent, &self.error));
    free(overdue);
    return base_now_ns() - from_ns;
}

static int64_t audit_ns(void)
{
    budget_audit *audit = NULL;
    bool done = false;
    int64_t spent_ns = 0;
    must(budget_audit_begin(self.ledger, &audit, &self.error));
    while (!done) {
        const int64_t from_ns = base_now_ns();
        must(budget_audit_step(audit, SLICE, &done, &self.error));
        const int64_t slice_ns = base_now_ns() - from_ns;
        spent_ns += slice_ns;
        if (self.count < TIMES_MAX) {
            char request[32];
            (void)snprintf(request, sizeof request, "meanwhile-%d", self.count);
            const int64_t ask_ns = base_now_ns();
            must(budget_ledger_begin(self.ledger, &self.clock, &self.error));
            (void)authorize(request);
            must(budget_ledger_commit(self.ledger, &self.error));
            /* an authorization waits for the slice before it at most */
            self.times[self.count++] = base_now_ns() - ask_ns + slice_ns;
        }
    }
    if (!budget_audit_get(audit)->good) {
        base_log(BASE_LOG_ERROR, "%s", budget_audit_get(audit)->findings[0]);
        exit(1);
    }
    budget_audit_end(audit);
    return spent_ns;
}

int main(int argc, char **argv)
{
    const uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    const char *temporary = getenv("TMPDIR");
    struct rusage usage;
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    (void)snprintf(self.dir, sizeof self.dir, "%.40s/ledger-bench-XXXXXX",
                   temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(self.dir) == NULL) {
        return 1;
    }
    must(budget_clock_read(&self.clock, &self.error));
    const int64_t from_ns = base_now_ns();
    fill(rows);
    const int64_t fill_ns = base_now_ns() - from_ns;
    const int64_t status = status_ns();
    const int64_t audit = audit_ns();
    budget_ledger_head(self.ledger, &sequence, head);
    (void)getrusage(RUSAGE_SELF, &usage);
    const double p50 = base_percentile_int64(self.times, (size_t)self.count, 0.50);
    const double p99 = base_percentile_int64(self.times, (size_t)self.count, 0.99);
    printf("{\"rows\":%llu,\"fill_s\":%.1f,\"status_ms\":%.2f,\"audit_s\":%.2f,"
           "\"authorize_p50_ms\":%.2f,\"authorize_p99_ms\":%.2f,\"memory_mb\":%.1f}\n",
           (unsigned long long)sequence, (double)fill_ns / 1e9, (double)status / 1e6,
           (double)audit / 1e9, p50 / 1e6, p99 / 1e6, (double)usage.ru_maxrss / 1024);
    budget_ledger_close(self.ledger);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r '%s'", self.dir);
    return system(command) == 0 ? 0 : 1; /* NOLINT: a path of our own making */
}
