/* Random operations drawn from one seed, on the ledger and on the model side by side. Called by
 * test_ledger_sim.c. */
#include "sim_story.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "budget/time.h"
#include "sim_disk.h"

const char *const sim_account_names[SIM_ACCOUNTS] = {"root", "root/a", "root/a/b", "root/c"};

/* xorshift64*: without its product, what is picked in a row is not independent. */
uint32_t sim_pick(sim *self, uint32_t below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (uint32_t)((self->random * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

bool sim_broken(sim *self, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (self->why[0] == '\0') {
        (void)vsnprintf(self->why, sizeof self->why, format, args);
    }
    va_end(args);
    return false;
}

int64_t sim_now_ms(const sim *self)
{
    return self->clock.wall_ms - self->wall_jump_ms;
}

bool sim_same_verdict(sim *self, const char *what, base_status status, const budget_answer *answer,
                      bool granted)
{
    if (status != BASE_OK) {
        return sim_disk_stopped() || sim_broken(self, "%s: %s", what, self->error.message);
    }
    if ((answer->reason == BUDGET_REASON_NONE) != granted) {
        return sim_broken(self, "%s: %s (%s), the model says %s", what,
                          budget_reason_name(answer->reason), answer->message,
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
                .instances = sim_instances(run),
                .gpus = 1,
                .max_usd_micro = amount,
                .max_seconds = 3600,
                .max_attempts = SIM_ATTEMPTS,
            },
        .kid = "k4.pid.sim",
    };
    (void)snprintf(claim.claims.vendor, sizeof claim.claims.vendor, "%s",
                   sim_vendors[sim_vendor_of(run)].name);
    (void)snprintf(claim.claims.account, sizeof claim.claims.account, "%s",
                   sim_account_names[account]);
    (void)snprintf(claim.claims.label, sizeof claim.claims.label, "run-%d", run);
    (void)snprintf(claim.claims.jti, sizeof claim.claims.jti, "%032x", run + 1);
    return claim;
}

static bool authorize_for(sim *self, int run, int account, int64_t amount)
{
    char id[32];
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_answer answer;
    const int64_t exp_s = sim_now_ms(self) / 1000 + 900;
    budget_authorization claim = claim_of(run, account, amount, exp_s);
    (void)snprintf(id, sizeof id, "request-%d", run);
    const budget_caller caller = {.client = 1, .request_id = id};
    const bool retry = self->model.runs[run].asked;
    const bool granted = retry ? self->model.runs[run].granted
                               : sim_authorize(&self->model, run, account, amount, exp_s);
    const base_status status =
        budget_ledger_authorize(self->ledger, &caller, &claim, payload, &answer, &self->error);
    if (!sim_same_verdict(self, retry ? "a retry" : "authorize", status, &answer, granted)) {
        return false;
    }
    self->model.runs[run].asked = true;
    const sim_request *before = &self->requests[run];
    if (status == BASE_OK && before->released) {
        answer.replayed = before->answer.replayed;
        if (memcmp(&answer, &before->answer, sizeof answer) != 0 ||
            strcmp(payload, before->payload) != 0) {
            return sim_broken(self, "the retry of run-%d got another answer", run);
        }
    }
    if (status == BASE_OK && self->pending_count < SIM_OPERATIONS_MAX) {
        self->pending[self->pending_count].run = run;
        self->pending[self->pending_count].answer = answer;
        memcpy(self->pending[self->pending_count].payload, payload, sizeof payload);
        self->pending_count++;
    }
    return true;
}

static bool authorize(sim *self, int run)
{
    const int account = (int)sim_pick(self, SIM_ACCOUNTS);
    const int64_t all = sim_left(&self->model, account);
    const bool greedy = all > 0 && sim_pick(self, 3) != 0; /* so that caps are reached */
    return authorize_for(self, run, account,
                         greedy ? all / (1 + (int64_t)sim_pick(self, 5))
                                : (int64_t)sim_pick(self, 250) * 10000);
}

static bool redeem(sim *self, int run)
{
    budget_answer answer;
    budget_ledger_redemption redemption = {.rank = sim_pick(self, SIM_RANKS + 1)};
    const int last = self->model.runs[run].attempt;
    const int key = 1 + (int)(sim_pick(self, 8) == 0);
    const bool first = last == 0 && sim_pick(self, 4) != 0;
    redemption.attempt = first ? 1 : last - 1 + (int64_t)sim_pick(self, 4);
    (void)snprintf(redemption.jti, sizeof redemption.jti, "%032x", run + 1);
    memset(redemption.job_public_key, key, sizeof redemption.job_public_key);
    const bool granted = sim_redeem(&self->model, run, (int)redemption.rank,
                                    (int)redemption.attempt, key, sim_now_ms(self));
    const base_status status =
        budget_ledger_redeem(self->ledger, &redemption, &answer, &self->error);
    return sim_same_verdict(self, "redeem", status, &answer, granted);
}

/* As the ranks of a job do. */
static bool redeem_together(sim *self, int run)
{
    bool good = true;
    for (int i = 0; good && i <= SIM_RANKS; i++) {
        good = redeem(self, run);
    }
    return good;
}

static bool create(sim *self, int run)
{
    budget_answer answer;
    budget_ledger_redemption redemption = {0};
    const bool placed = sim_pick(self, 4) != 0;
    (void)snprintf(redemption.jti, sizeof redemption.jti, "%032x", run + 1);
    (void)snprintf(redemption.vendor_account, sizeof redemption.vendor_account, "%s",
                   placed ? "ours" : "");
    const bool granted = sim_create(&self->model, run, placed, sim_now_ms(self));
    const base_status status =
        budget_ledger_redeem_create(self->ledger, NULL, &redemption, &answer, &self->error);
    return sim_same_verdict(self, "create", status, &answer, granted);
}

void sim_name_instance(int run, int which, char *instance)
{
    (void)snprintf(instance, SIM_INSTANCE_BYTES, which == 0 ? "pod-%d" : "pod-%d.%d",
                   sim_instance_of(run), which);
}

static bool attach(sim *self, int run)
{
    char label[32];
    char instance[SIM_INSTANCE_BYTES];
    budget_answer answer;
    const int which =
        self->model.runs[run].attached > 0 ? (int)sim_pick(self, (uint32_t)sim_instances(run)) : 0;
    (void)snprintf(label, sizeof label, "run-%d", run);
    sim_name_instance(run, which, instance);
    const bool placed = sim_pick(self, 4) != 0;
    const budget_attachment what = {
        .label = label, .instance_id = instance, .vendor_account = placed ? "ours" : ""};
    const bool granted = sim_attach(&self->model, run, which, placed, sim_now_ms(self));
    return sim_same_verdict(self, "attach",
                            budget_ledger_attach(self->ledger, NULL, &what, &answer, &self->error),
                            &answer, granted);
}

/* A driver's evidence that so many of its first instances are gone. */
static void write_evidence(const sim *self, int run, int described, bool there, char json[1024])
{
    char at[BUDGET_TIME_BYTES];
    char instance[SIM_INSTANCE_BYTES];
    budget_time_format(sim_now_ms(self) / 1000, at);
    size_t bytes = (size_t)snprintf(json, 1024,
                                    "{\"evidence\":\"ringfence/termination/v1\",\"vendor\":\"%s\","
                                    "\"vendor_account\":\"%s\",\"jti\":\"%032x\","
                                    "\"list\":{\"at\":\"%s\",\"instances\":[]},\"describe\":[",
                                    sim_vendors[sim_vendor_of(run)].name,
                                    there ? "ours" : "another", run + 1, at);
    for (int i = 0; i < described; i++) {
        sim_name_instance(run, i, instance);
        bytes += (size_t)snprintf(json + bytes, 1024 - bytes,
                                  "%s{\"at\":\"%s\",\"instance_id\":\"%s\",\"name\":\"%032x\","
                                  "\"status\":\"terminated\"}",
                                  i > 0 ? "," : "", at, instance, run + 1);
    }
    (void)snprintf(json + bytes, 1024 - bytes, "]}");
}

/* By an admin's word, or by evidence of some of its instances or all. */
static bool terminate(sim *self, int run, const char *label)
{
    char json[1024] = "gone";
    budget_answer answer;
    const int described = (int)sim_pick(self, (uint32_t)sim_instances(run) + 1);
    const bool there = sim_pick(self, 4) != 0;
    if (described > 0) {
        write_evidence(self, run, described, there, json);
    }
    budget_termination termination = {.label = label,
                                      .evidence = json,
                                      .evidence_bytes = strlen(json),
                                      .attest = described == 0 ? BUDGET_ATTEST_OTHER_FILES
                                                               : BUDGET_ATTEST_NOTHING};
    const bool granted = sim_terminate(&self->model, run, described, there, sim_now_ms(self));
    return sim_same_verdict(
        self, "terminated",
        budget_ledger_terminated(self->ledger, NULL, &termination, &answer, &self->error), &answer,
        granted);
}

static bool outcome(sim *self, int run, uint32_t which)
{
    char label[32];
    budget_answer answer;
    (void)snprintf(label, sizeof label, "run-%d", run);
    if (which == 0) {
        const bool granted = sim_void(&self->model, run);
        return sim_same_verdict(
            self, "void", budget_ledger_void(self->ledger, NULL, label, &answer, &self->error),
            &answer, granted);
    }
    if (which == 1) {
        return terminate(self, run, label);
    }
    return sim_person(self, run);
}

static bool acknowledge(sim *self)
{
    budget_answer answer;
    const int account = (int)sim_pick(self, SIM_ACCOUNTS);
    const bool granted = self->model.accounts[account].frozen;
    self->model.accounts[account].frozen = false;
    return sim_same_verdict(self, "acknowledge",
                            budget_ledger_acknowledge(self->ledger, NULL,
                                                      sim_account_names[account], &answer,
                                                      &self->error),
                            &answer, granted);
}

static bool expire(sim *self)
{
    budget_reservation found[SIM_RUNS];
    size_t count = 0;
    const int expected = sim_expire(&self->model, sim_now_ms(self));
    const base_status status =
        budget_ledger_expire(self->ledger, SIM_RUNS, found, &count, &self->error);
    if (status != BASE_OK) {
        return sim_disk_stopped() || sim_broken(self, "expire: %s", self->error.message);
    }
    return (int)count == expected ||
           sim_broken(self, "%d deadlines passed, the model says %d", (int)count, expected);
}

/* Mostly one of a few, so that each lives through much, and later on others. */
int sim_pick_run(sim *self)
{
    const int first = (int)(self->steps / SIM_STEPS_A_RUN);
    return sim_pick(self, 4) == 0 || first > SIM_RUNS - SIM_RUNS_AT_ONCE
               ? (int)sim_pick(self, SIM_RUNS)
               : first + (int)sim_pick(self, SIM_RUNS_AT_ONCE);
}

/* All that is left, and so what had returned of an earlier run, is granted to this one. Then the
 * earlier one costs more, or is said to. */
static bool spend_twice(sim *self, int run)
{
    const int first = (int)sim_pick(self, SIM_RUNS);
    for (int i = 0; i < SIM_RUNS; i++) {
        const int late = (first + i) % SIM_RUNS;
        const sim_run *found = &self->model.runs[late];
        const int64_t all = sim_left(&self->model, found->account);
        if (found->terminated && found->final && all >= 0) {
            return (self->model.runs[run].asked || authorize_for(self, run, found->account, all)) &&
                   sim_person(self, late);
        }
    }
    return true;
}

bool sim_operate(sim *self)
{
    const int run = sim_pick_run(self);
    const uint32_t what = sim_pick(self, 40);
    self->steps++;
    if (what < 6) {
        return authorize(self, run);
    }
    if (what < (self->honest ? 11 : 15)) {
        return redeem_together(self, run);
    }
    if (what < (self->honest ? 14 : 17)) {
        return create(self, run);
    }
    if (what < 24) {
        return attach(self, run);
    }
    if (what < 28) {
        return outcome(self, run, sim_pick(self, 4));
    }
    if (what < 33) {
        return sim_bill(self);
    }
    if (what < 35) {
        return expire(self);
    }
    return what < 37 ? acknowledge(self) : spend_twice(self, run);
}
