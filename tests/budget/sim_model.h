/* A second, naive implementation of the rules, to hold the ledger against: sums are taken anew each
 * time, and nothing is shared with rules.c. It says granted or refused, and what balances follow.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_ACCOUNTS = 4, SIM_RUNS = 24, SIM_RANKS = 2, SIM_ATTEMPTS = 3 };

/* 0 is the root; parents come before children. */
typedef struct sim_account {
    int parent; /* -1: none */
    int64_t cap;
    bool frozen;
} sim_account;

typedef struct sim_run {
    bool granted;
    bool asked; /* its request was stored, granted or refused */
    int account;
    int64_t amount;
    int64_t posted;
    int64_t exp_s;
    int64_t deadline_ms;
    int attempt;
    int key;
    bool seen[SIM_ATTEMPTS + 1][SIM_RANKS];
    bool created;
    bool voided;
    bool terminated;
    bool expired;
    bool cost_known;
} sim_run;

typedef struct sim_model {
    sim_account accounts[SIM_ACCOUNTS];
    sim_run runs[SIM_RUNS];
} sim_model;

int64_t sim_held(const sim_run *run);
int64_t sim_reserved(const sim_model *model, int account);
int64_t sim_posted(const sim_model *model, int account);
bool sim_frozen(const sim_model *model, int account); /* it, or a parent */

/* Each changes the model when it says true: granted. */
bool sim_authorize(sim_model *model, int run, int account, int64_t amount, int64_t exp_s);
bool sim_redeem(sim_model *model, int run, int rank, int attempt, int key, int64_t now_ms);
bool sim_create(sim_model *model, int run, int64_t now_ms);
bool sim_void(sim_model *model, int run);
bool sim_actual(sim_model *model, int run, int64_t amount);
bool sim_terminate(sim_model *model, int run);
int sim_expire(sim_model *model, int64_t now_ms); /* how many did */

#endif
