/* One seed's story: the ledger and the model side by side, and single operations on both. */
#ifndef SIM_STORY_H
#define SIM_STORY_H

#include "budget/policy.h"
#include "ledger_fixture.h"
#include "sim_model.h"

enum {
    SIM_OPERATIONS_MAX = 3, /* of a batch */
    SIM_RUNS_AT_ONCE = 4,
    SIM_STEPS_A_RUN = 12, /* then the next one comes in */
    SIM_WHY_BYTES = 512,
    SIM_INSTANCE_BYTES = 32,
};

extern const char *const sim_account_names[SIM_ACCOUNTS];

/* What was answered for a request, once a commit let it out. */
typedef struct sim_request {
    bool released;
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
} sim_request;

typedef struct sim {
    bool honest; /* the vendor charges at most what was reserved, and persons say what is so */
    int64_t steps;
    budget_policy *policy;
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
    } pending[SIM_OPERATIONS_MAX]; /* answers of this batch */
    int pending_count;
    uint64_t sequence; /* the newest that was answered */
    char why[SIM_WHY_BYTES];
} sim;

/* The story's next random number. */
uint32_t sim_pick(sim *self, uint32_t below);

int sim_pick_run(sim *self);

/* The ledger and the model differ; kept: the first words. Returns false. */
bool sim_broken(sim *self, const char *format, ...) BASE_PRINTF(2, 3);

/* The ledger's own wall time. */
int64_t sim_now_ms(const sim *self);

/* False, noted: the ledger's verdict is not the model's. */
bool sim_same_verdict(sim *self, const char *what, base_status status, const budget_answer *answer,
                      bool granted);

/* instance: SIM_INSTANCE_BYTES or more. */
void sim_name_instance(int run, int which, char *instance);

/* sim_bill.c: a bill is reconciled; a person records what a run cost. False: they differ. */
bool sim_bill(sim *self);
bool sim_person(sim *self, int run);

/* One operation of a batch: the ledger's answer against the model's. False: they differ. */
bool sim_operate(sim *self);

#endif
