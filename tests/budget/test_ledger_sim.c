/* The whole ledger on a disk and a clock of the simulation's own, against a naive model: each seed
 * is a story of some sixty batches with retries, bills, jumps of the wall clock, and crashes at any
 * write. In every second story vendors and persons are honest, and then no account may ever be
 * beyond its cap. After every step the answers and all balances must be the model's, and nothing
 * that was answered may be gone. That it finds bugs is shown by twenty-one of them (mutation.h): each
 * is caught.
 *
 *   test-budget-ledger-sim [STEPS]   the ledger as it is (default: 10000 steps)
 *   test-budget-ledger-sim --bugs    the bugs, up to 1000 stories each. Its subject is the
 *                                    simulation, so builds with sanitizers leave it out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget/audit.h"
#include "rules/mutation.h"
#include "sim_disk.h"
#include "sim_story.h"

int budget_mutation = BUDGET_MUTATION_NONE;

enum { BATCHES = 60, SEEDS_MUTANT = 1000 };

static int64_t steps_wanted = 10000;

static bool balances_agree(sim *self)
{
    for (int i = 0; i < SIM_ACCOUNTS; i++) {
        budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX];
        size_t count = 0;
        if (budget_ledger_chain(self->ledger, sim_account_names[i], chain, &count, NULL,
                                &self->error) != BASE_OK) {
            return sim_broken(self, "balances: %s", self->error.message);
        }
        if (chain[0].reserved_usd_micro != sim_reserved(&self->model, i) ||
            chain[0].posted_usd_micro != sim_posted(&self->model, i) ||
            chain[0].frozen != self->model.accounts[i].frozen) {
            return sim_broken(
                self, "%s: reserved %lld, posted %lld%s; the model says %lld and %lld%s",
                sim_account_names[i], (long long)chain[0].reserved_usd_micro,
                (long long)chain[0].posted_usd_micro, chain[0].frozen ? ", frozen" : "",
                (long long)sim_reserved(&self->model, i), (long long)sim_posted(&self->model, i),
                self->model.accounts[i].frozen ? ", frozen" : "");
        }
        if (self->honest && sim_posted(&self->model, i) + sim_reserved(&self->model, i) >
                                self->model.accounts[i].cap) {
            return sim_broken(self,
                              "%s is beyond its cap, and nobody charged more than was granted",
                              sim_account_names[i]);
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
                                sim_broken(self, "audit: %s", budget_audit_get(audit)->findings[0])
                          : sim_broken(self, "audit: %s", self->error.message);
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
        return sim_broken(self, "after a crash: %s", self->error.message);
    }
    budget_ledger_head(self->ledger, &sequence, head);
    if (answered ? sequence != expected : sequence < before) {
        return sim_broken(self, "after a crash the ledger is at row %d, and row %d was answered",
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
    const int operations = 1 + (int)sim_pick(self, SIM_OPERATIONS_MAX);
    budget_ledger_head(self->ledger, &before, head);
    self->pending_count = 0;
    sim_disk.crash_after = sim_pick(self, 4) == 0 ? (int64_t)sim_pick(self, 12) : -1;
    if (budget_ledger_begin(self->ledger, &self->clock, &self->error) != BASE_OK) {
        return sim_broken(self, "begin: %s", self->error.message);
    }
    for (int i = 0; i < operations && !sim_disk_stopped(); i++) {
        if (!sim_operate(self)) {
            return false;
        }
    }
    const base_status status = budget_ledger_commit(self->ledger, &self->error);
    if (status == BASE_OK) {
        release(self);
        budget_ledger_head(self->ledger, &self->sequence, head);
    } else if (!sim_disk_stopped()) {
        return sim_broken(self, "commit: %s", self->error.message);
    }
    if ((sim_disk_stopped() || sim_pick(self, 16) == 0) &&
        !recover(self, before, status == BASE_OK)) {
        return false;
    }
    sim_disk.crash_after = -1;
    return balances_agree(self);
}

static void pass_time(sim *self)
{
    const int64_t seconds = (int64_t)sim_pick(self, sim_pick(self, 8) == 0 ? 4000 : 200);
    self->clock.wall_ms += seconds * 1000;
    self->clock.boot_ms += seconds * 1000;
    if (sim_pick(self, 10) == 0) {
        const int64_t jump_ms = ((int64_t)sim_pick(self, 200000) - 100000) * 1000;
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
        return sim_broken(self, "the beginning: %s", self->error.message);
    }
    for (int i = 0; i < SIM_ACCOUNTS; i++) {
        if (budget_ledger_account_create(self->ledger, NULL, sim_account_names[i], accounts[i].cap,
                                         &answer, &self->error) != BASE_OK) {
            return sim_broken(self, "the beginning: %s", self->error.message);
        }
    }
    self->committed = self->model;
    return budget_ledger_commit(self->ledger, &self->error) == BASE_OK ||
           sim_broken(self, "the beginning: %s", self->error.message);
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
static int64_t tell(const char *dir, uint64_t seed, char why[SIM_WHY_BYTES])
{
    char policy[512];
    sim *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    self->options =
        (budget_ledger_options){.dir = dir, .vfs = SIM_DISK_VFS, .signer = {.sign = sign}};
    self->honest = seed % 2 == 0;
    (void)snprintf(policy, sizeof policy,
                   "{\"version\": 1, \"vendors\": {\"%s\": {\"settling_hours\": \"%.1f\", "
                   "\"granularity_seconds\": %d}, "
                   "\"%s\": {\"settling_hours\": \"%.1f\", \"granularity_seconds\": %d}}}",
                   sim_vendors[0].name, (double)sim_vendors[0].settling_s / 3600,
                   (int)sim_vendors[0].granularity_s, sim_vendors[1].name,
                   (double)sim_vendors[1].settling_s / 3600, (int)sim_vendors[1].granularity_s);
    assert_ok(budget_policy_parse(policy, strlen(policy), &self->policy, &self->error),
              &self->error);
    bool good = begin_story(self, dir);
    for (int i = 0; good && i < BATCHES; i++) {
        pass_time(self);
        good = batch(self);
    }
    if (good) {
        (void)audit_agrees(self);
    }
    memcpy(why, self->why, SIM_WHY_BYTES);
    const int64_t steps = self->steps;
    budget_policy_destroy(self->policy);
    budget_ledger_close(self->ledger);
    free(self);
    return steps;
}

static void the_ledger_does_as_the_model(void **state)
{
    test_directory *directory = *state;
    char why[SIM_WHY_BYTES];
    budget_mutation = BUDGET_MUTATION_NONE;
    int64_t steps = 0;
    int seed = 0;
    while (steps < steps_wanted) {
        steps += tell(directory->path, (uint64_t)++seed, why);
        if (why[0] != '\0') {
            fail_msg("seed %d: %s", seed, why);
        }
    }
    print_message("seeds 1 to %d: %lld steps\n", seed, (long long)steps);
}

static void each_seeded_bug_is_caught(void **state)
{
    test_directory *directory = *state;
    for (int bug = BUDGET_MUTATION_NONE + 1; bug < BUDGET_MUTATION_COUNT_; bug++) {
        char why[SIM_WHY_BYTES] = "";
        int seed = 0;
        budget_mutation = bug;
        while (why[0] == '\0' && seed < SEEDS_MUTANT) {
            (void)tell(directory->path, (uint64_t)++seed, why);
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
    static test_directory directory;
    test_directory_make(&directory);
    *state = &directory;
    return 0;
}

static int take_down(void **state)
{
    test_directory_remove(*state);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest model[] = {
        cmocka_unit_test_setup_teardown(the_ledger_does_as_the_model, make, take_down),
    };
    const struct CMUnitTest bugs[] = {
        cmocka_unit_test_setup_teardown(each_seeded_bug_is_caught, make, take_down),
    };
    if (argc > 1 && strcmp(argv[1], "--bugs") == 0) {
        return cmocka_run_group_tests(bugs, NULL, NULL);
    }
    if (argc > 1) {
        steps_wanted = strtoll(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests(model, NULL, NULL);
}
