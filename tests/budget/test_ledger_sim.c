/* The whole ledger on a disk and a clock of the simulation's own, against a naive model: each seed
 * is a story of some sixty batches with retries, jumps of the wall clock, and crashes at any write.
 * After every step the answers and all balances must be the model's, and nothing that was answered
 * may be gone. That it finds bugs is shown by ten of them (mutation.h): each is caught.
 *
 *   test-budget-ledger-sim [SEEDS]   (default 60; a mutant gets 1000 in any case) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget/audit.h"
#include "ledger_fixture.h"
#include "mutation.h"
#include "sim_disk.h"
#include "sim_model.h"

int budget_mutation = BUDGET_MUTATION_NONE;

enum { BATCHES = 60, OPERATIONS_MAX = 3, SEEDS_MUTANT = 1000, WHY_BYTES = 512 };

static const char *const account_names[SIM_ACCOUNTS] = {"root", "root/a", "root/a/b", "root/c"};
static int seeds_wanted = 60;

/* What was answered for a request, once a commit let it out. */
typedef struct sim_request {
    bool released;
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
} sim_request;

typedef struct sim {
    uint64_t random;
    budget_ledger_options options;
    budget_ledger *ledger;
    budget_clock clock;
    int64_t start_ms;
    int64_t wall_jump_ms;
    base_error error;
    sim_model model;
    sim_model committed;
    sim_request requests[SIM_RUNS];
    struct {
        int run;
        budget_answer answer;
        char payload[BUDGET_CLAIMS_JSON_BYTES];
    } pending[OPERATIONS_MAX]; /* answers of this batch */
    int pending_count;
    uint64_t sequence; /* the newest that was answered */
    char why[WHY_BYTES];
} sim;

static uint32_t pick(sim *self, uint32_t below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (uint32_t)((self->random >> 11) % below);
}

static bool broken(sim *self, const char *format, ...) BASE_PRINTF(2, 3);
static bool broken(sim *self, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (self->why[0] == '\0') {
        (void)vsnprintf(self->why, sizeof self->why, format, args);
    }
    va_end(args);
    return false;
}

static int64_t now_ms(const sim *self)
{
    return self->clock.wall_ms - self->wall_jump_ms;
}

/* ---- one operation: the ledger's answer against the model's. False: they differ. ---- */

static bool same_verdict(sim *self, const char *what, base_status status,
                         const budget_answer *answer, bool granted)
{
    if (status != BASE_OK) {
        return sim_disk_stopped() || broken(self, "%s: %s", what, self->error.message);
    }
    if ((answer->reason == BUDGET_REASON_NONE) != granted) {
        return broken(self, "%s: %s (%s), the model says %s", what,
                      budget_reason_name(answer->reason), answer->words,
                      granted ? "granted" : "refused");
    }
    return true;
}

static budget_authorization claim_of(int run, int account, int64_t amount, int64_t exp_s)
{
    budget_authorization claim = {
        .claims =
            {
                .issuer = BUDGET_ISSUER,
                .audience = BUDGET_AUDIENCE,
                .subject = "sim",
                .issued_at = exp_s - 900,
                .not_before = exp_s - 900,
                .expires_at = exp_s,
                .mode = "ddp-nccl",
                .world_size = SIM_RANKS,
                .vendor = "runpod",
                .instances = 1,
                .gpus = 1,
                .max_usd_micro = amount,
                .max_seconds = 3600,
                .max_attempts = SIM_ATTEMPTS,
            },
        .kid = "k4.pid.sim",
    };
    (void)snprintf(claim.claims.account, sizeof claim.claims.account, "%s", account_names[account]);
    (void)snprintf(claim.claims.label, sizeof claim.claims.label, "run-%d", run);
    (void)snprintf(claim.claims.jti, sizeof claim.claims.jti, "%032x", run + 1);
    return claim;
}

static bool authorize(sim *self, int run)
{
    char id[32];
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_answer answer;
    const int account = (int)pick(self, SIM_ACCOUNTS);
    const int64_t amount = (int64_t)pick(self, 400) * 10000;
    const int64_t exp_s = now_ms(self) / 1000 + 900;
    budget_authorization claim = claim_of(run, account, amount, exp_s);
    (void)snprintf(id, sizeof id, "request-%d", run);
    const budget_caller caller = {.client = 1, .request_id = id};
    const bool retry = self->model.runs[run].asked;
    const bool granted = retry ? self->model.runs[run].granted
                               : sim_authorize(&self->model, run, account, amount, exp_s);
    const base_status status =
        budget_ledger_authorize(self->ledger, &caller, &claim, payload, &answer, &self->error);
    if (!same_verdict(self, retry ? "a retry" : "authorize", status, &answer, granted)) {
        return false;
    }
    self->model.runs[run].asked = true;
    const sim_request *before = &self->requests[run];
    if (status == BASE_OK && before->released) {
        answer.replayed = before->answer.replayed;
        if (memcmp(&answer, &before->answer, sizeof answer) != 0 ||
            strcmp(payload, before->payload) != 0) {
            return broken(self, "the retry of run-%d got another answer", run);
        }
    }
    if (status == BASE_OK && self->pending_count < OPERATIONS_MAX) {
        self->pending[self->pending_count].run = run;
        self->pending[self->pending_count].answer = answer;
        memcpy(self->pending[self->pending_count].payload, payload, sizeof payload);
        self->pending_count++;
    }
    return true;
}

static bool redeem(sim *self, int run)
{
    budget_answer answer;
    budget_redemption redemption = {.rank = pick(self, SIM_RANKS + 1)};
    const int last = self->model.runs[run].attempt;
    const int key = 1 + (int)(pick(self, 4) == 0);
    redemption.attempt = last - 1 + (int64_t)pick(self, 4);
    (void)snprintf(redemption.jti, sizeof redemption.jti, "%032x", run + 1);
    memset(redemption.job_public_key, key, sizeof redemption.job_public_key);
    const bool granted = sim_redeem(&self->model, run, (int)redemption.rank,
                                    (int)redemption.attempt, key, now_ms(self));
    const base_status status =
        budget_ledger_redeem(self->ledger, &redemption, &answer, &self->error);
    return same_verdict(self, "redeem", status, &answer, granted);
}

static bool create(sim *self, int run)
{
    budget_answer answer;
    budget_redemption redemption = {0};
    (void)snprintf(redemption.jti, sizeof redemption.jti, "%032x", run + 1);
    const bool granted = sim_create(&self->model, run, now_ms(self));
    const base_status status =
        budget_ledger_redeem_create(self->ledger, NULL, &redemption, &answer, &self->error);
    return same_verdict(self, "create", status, &answer, granted);
}

static bool outcome(sim *self, int run, uint32_t which)
{
    char label[32];
    budget_answer answer;
    (void)snprintf(label, sizeof label, "run-%d", run);
    if (which == 0) {
        const bool granted = sim_void(&self->model, run);
        return same_verdict(self, "void",
                            budget_ledger_void(self->ledger, NULL, label, &answer, &self->error),
                            &answer, granted);
    }
    if (which == 1) {
        budget_termination termination = {
            .label = label, .evidence = "gone", .evidence_bytes = 4, .attested_allowed = true};
        const bool granted = sim_terminate(&self->model, run);
        return same_verdict(
            self, "terminated",
            budget_ledger_terminated(self->ledger, NULL, &termination, &answer, &self->error),
            &answer, granted);
    }
    const int64_t amounts[] = {0, 10000, self->model.runs[run].amount / 2, 4100000};
    const budget_actual actual = {.label = label, .usd_micro = amounts[pick(self, 4)]};
    const bool granted = sim_actual(&self->model, run, actual.usd_micro);
    return same_verdict(
        self, "record-actual",
        budget_ledger_record_actual(self->ledger, NULL, &actual, &answer, &self->error), &answer,
        granted);
}

static bool acknowledge(sim *self)
{
    budget_answer answer;
    const int account = (int)pick(self, SIM_ACCOUNTS);
    const bool granted = self->model.accounts[account].frozen;
    self->model.accounts[account].frozen = false;
    return same_verdict(self, "acknowledge",
                        budget_ledger_acknowledge(self->ledger, NULL, account_names[account],
                                                  &answer, &self->error),
                        &answer, granted);
}

static bool expire(sim *self)
{
    budget_reservation found[SIM_RUNS];
    size_t count = 0;
    const int expected = sim_expire(&self->model, now_ms(self));
    const base_status status =
        budget_ledger_expire(self->ledger, SIM_RUNS, found, &count, &self->error);
    if (status != BASE_OK) {
        return sim_disk_stopped() || broken(self, "expire: %s", self->error.message);
    }
    return (int)count == expected ||
           broken(self, "%d deadlines passed, the model says %d", (int)count, expected);
}

static bool operate(sim *self)
{
    /* mostly one of a few, so that each lives through much */
    const int run = (int)pick(self, pick(self, 4) == 0 ? SIM_RUNS : 5);
    const uint32_t what = pick(self, 24);
    if (what < 6) {
        return authorize(self, run);
    }
    if (what < 14) {
        return redeem(self, run);
    }
    if (what < 17) {
        return create(self, run);
    }
    if (what < 20) {
        return outcome(self, run, pick(self, 4));
    }
    return what < 22 ? expire(self) : acknowledge(self);
}

/* ---- after each step ---- */

static bool balances_agree(sim *self)
{
    for (int i = 0; i < SIM_ACCOUNTS; i++) {
        budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX];
        size_t count = 0;
        if (budget_ledger_chain(self->ledger, account_names[i], chain, &count, NULL,
                                &self->error) != BASE_OK) {
            return broken(self, "balances: %s", self->error.message);
        }
        if (chain[0].reserved_usd_micro != sim_reserved(&self->model, i) ||
            chain[0].posted_usd_micro != sim_posted(&self->model, i) ||
            chain[0].frozen != self->model.accounts[i].frozen) {
            return broken(self, "%s: reserved %lld, posted %lld%s; the model says %lld and %lld%s",
                          account_names[i], (long long)chain[0].reserved_usd_micro,
                          (long long)chain[0].posted_usd_micro, chain[0].frozen ? ", frozen" : "",
                          (long long)sim_reserved(&self->model, i),
                          (long long)sim_posted(&self->model, i),
                          self->model.accounts[i].frozen ? ", frozen" : "");
        }
    }
    return true;
}

static bool audit_agrees(sim *self)
{
    budget_audit *audit = NULL;
    bool done = false;
    base_status status = budget_audit_begin(self->ledger, &audit, &self->error);
    while (status == BASE_OK && !done) {
        status = budget_audit_step(audit, 64, &done, &self->error);
    }
    const bool good = status == BASE_OK
                          ? budget_audit_get(audit)->good ||
                                broken(self, "audit: %s", budget_audit_get(audit)->finding)
                          : broken(self, "audit: %s", self->error.message);
    budget_audit_end(audit);
    return good;
}

static void release(sim *self)
{
    for (int i = 0; i < self->pending_count; i++) {
        sim_request *request = &self->requests[self->pending[i].run];
        if (!request->released) {
            request->released = true;
            request->answer = self->pending[i].answer;
            memcpy(request->payload, self->pending[i].payload, sizeof request->payload);
        }
    }
    self->committed = self->model;
}

/* The power was gone. What was answered is there; of a batch that was not, all is or nothing. */
static bool recover(sim *self, uint64_t before, bool answered)
{
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    const uint64_t expected = self->sequence;
    budget_ledger_close(self->ledger);
    self->ledger = NULL;
    sim_disk_crash(self->random);
    self->options.clock = self->clock;
    if (budget_ledger_open(&self->options, &self->ledger, &self->error) != BASE_OK) {
        return broken(self, "after a crash: %s", self->error.message);
    }
    budget_ledger_head(self->ledger, &sequence, head);
    if (answered ? sequence != expected : sequence < before) {
        return broken(self, "after a crash the ledger is at row %d, and row %d was answered",
                      (int)sequence, (int)(answered ? expected : before));
    }
    if (!answered && sequence == before) {
        self->model = self->committed;
    }
    self->committed = self->model;
    self->sequence = sequence;
    return true;
}

static bool batch(sim *self)
{
    uint64_t before = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    const int operations = 1 + (int)pick(self, OPERATIONS_MAX);
    budget_ledger_head(self->ledger, &before, head);
    self->pending_count = 0;
    sim_disk.crash_after = pick(self, 4) == 0 ? (int64_t)pick(self, 12) : -1;
    if (budget_ledger_begin(self->ledger, &self->clock, &self->error) != BASE_OK) {
        return broken(self, "begin: %s", self->error.message);
    }
    for (int i = 0; i < operations && !sim_disk_stopped(); i++) {
        if (!operate(self)) {
            return false;
        }
    }
    const base_status status = budget_ledger_commit(self->ledger, &self->error);
    if (status == BASE_OK) {
        release(self);
        budget_ledger_head(self->ledger, &self->sequence, head);
    } else if (!sim_disk_stopped()) {
        return broken(self, "commit: %s", self->error.message);
    }
    if ((sim_disk_stopped() || pick(self, 16) == 0) && !recover(self, before, status == BASE_OK)) {
        return false;
    }
    sim_disk.crash_after = -1;
    return balances_agree(self);
}

static void pass_time(sim *self)
{
    const int64_t seconds = (int64_t)pick(self, pick(self, 8) == 0 ? 4000 : 200);
    self->clock.wall_ms += seconds * 1000;
    self->clock.boot_ms += seconds * 1000;
    if (pick(self, 10) == 0) {
        const int64_t jump_ms = ((int64_t)pick(self, 200000) - 100000) * 1000;
        self->clock.wall_ms += jump_ms;
        self->wall_jump_ms += jump_ms;
    }
}

static bool begin_story(sim *self, const char *dir)
{
    static const struct sim_account accounts[SIM_ACCOUNTS] = {
        {-1, 12000000, false}, {0, 8000000, false}, {1, 5000000, false}, {0, 9000000, false}};
    budget_answer answer;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/checkpoints", dir);
    (void)unlink(path);
    sim_disk_reset();
    self->clock = (budget_clock){
        .wall_ms = (int64_t)FIXTURE_START_MS * 1000, .boot_ms = 5000, .boot_id = "a-boot"};
    self->options.clock = self->clock;
    memcpy(self->model.accounts, accounts, sizeof accounts);
    if (budget_ledger_create(&self->options, &self->error) != BASE_OK ||
        budget_ledger_open(&self->options, &self->ledger, &self->error) != BASE_OK ||
        budget_ledger_begin(self->ledger, &self->clock, &self->error) != BASE_OK) {
        return broken(self, "the beginning: %s", self->error.message);
    }
    for (int i = 0; i < SIM_ACCOUNTS; i++) {
        if (budget_ledger_account_create(self->ledger, NULL, account_names[i], accounts[i].cap,
                                         &answer, &self->error) != BASE_OK) {
            return broken(self, "the beginning: %s", self->error.message);
        }
    }
    self->committed = self->model;
    return budget_ledger_commit(self->ledger, &self->error) == BASE_OK ||
           broken(self, "the beginning: %s", self->error.message);
}

/* A checkpoint needs a signer; this one signs nothing worth believing. */
static base_status sign(void *context, const void *message, size_t message_bytes,
                        uint8_t signature[64], char kid[BUDGET_KID_BYTES], base_error *reterr)
{
    (void)context;
    (void)message;
    (void)message_bytes;
    (void)reterr;
    memset(signature, 7, 64);
    (void)snprintf(kid, BUDGET_KID_BYTES, "k4.pid.sim");
    return BASE_OK;
}

/* One seed; why is empty when all went as the model says. */
static void tell(const char *dir, uint64_t seed, char why[WHY_BYTES])
{
    sim *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    self->options =
        (budget_ledger_options){.dir = dir, .vfs = SIM_DISK_VFS, .signer = {.sign = sign}};
    bool good = begin_story(self, dir);
    for (int i = 0; good && i < BATCHES; i++) {
        pass_time(self);
        good = batch(self);
    }
    if (good) {
        (void)audit_agrees(self);
    }
    memcpy(why, self->why, WHY_BYTES);
    budget_ledger_close(self->ledger);
    free(self);
}

static void the_ledger_does_as_the_model(void **state)
{
    test_folder *folder = *state;
    char why[WHY_BYTES];
    budget_mutation = BUDGET_MUTATION_NONE;
    for (int seed = 1; seed <= seeds_wanted; seed++) {
        tell(folder->path, (uint64_t)seed, why);
        if (why[0] != '\0') {
            fail_msg("seed %d: %s", seed, why);
        }
    }
}

static void each_seeded_bug_is_caught(void **state)
{
    test_folder *folder = *state;
    for (int bug = BUDGET_MUTATION_NONE + 1; bug < BUDGET_MUTATION_COUNT_; bug++) {
        char why[WHY_BYTES] = "";
        int seed = 0;
        budget_mutation = bug;
        while (why[0] == '\0' && seed < SEEDS_MUTANT) {
            tell(folder->path, (uint64_t)++seed, why);
        }
        budget_mutation = BUDGET_MUTATION_NONE;
        if (why[0] == '\0') {
            fail_msg("seeded bug %d was not caught within %d seeds", bug, SEEDS_MUTANT);
        }
        print_message("bug %d: caught by seed %d: %s\n", bug, seed, why);
    }
}

static int make(void **state)
{
    static test_folder folder;
    test_folder_make(&folder);
    *state = &folder;
    return 0;
}

static int take_down(void **state)
{
    test_folder_remove(*state);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_ledger_does_as_the_model, make, take_down),
        cmocka_unit_test_setup_teardown(each_seeded_bug_is_caught, make, take_down),
    };
    if (argc > 1) {
        seeds_wanted = (int)strtol(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
