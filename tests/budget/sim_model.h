/* A second, naive implementation of the rules, to hold the ledger against: sums are taken anew each
 * time, and nothing is shared with rules.c.
 * It says granted or refused, and what balances follow. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_ACCOUNTS = 4,
    SIM_RUNS = 24,
    SIM_RANKS = 2,
    SIM_ATTEMPTS = 3,
    SIM_LINES = 6, /* of a run, on bills */
    SIM_VENDORS = 2,
    SIM_NO_VENDOR = -1, /* of a line: neither it nor its bill names one */
};

typedef struct sim_vendor {
    const char *name;
    int64_t settling_s;
    int64_t granularity_s;
} sim_vendor;

/* Runs are the vendors' in turn. Both vendors number their instances in the same way, so that two
 * runs have the same instance. */
extern const sim_vendor sim_vendors[SIM_VENDORS];
int sim_vendor_of(int run);
int sim_instance_of(int run);

/* How many instances it may have, and which of them a line of this number is about. */
int sim_instances(int run);
int sim_which(int run, int number);

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
    int64_t by_hand; /* Σ of what persons said, and no bill has taken the place of */
    bool known[SIM_LINES];
    int64_t billed[SIM_LINES]; /* the lines known, as they were recorded */
    int64_t exp_s;
    int64_t deadline_ms;
    int attempt;
    int key;
    bool seen[SIM_ATTEMPTS + 1][SIM_RANKS];
    bool created;
    int attached; /* how many */
    bool placed;  /* somebody has said in which account of the vendor they are */
    bool cost;    /* it had one, and be it that a credit took it back */
    bool voided;
    bool terminated;
    bool refuted;  /* by a bill, and not proven anew since */
    bool attested; /* an admin vouched for it */
    int64_t ended_ms;
    bool expired;
    bool final;
    int true_count; /* what the vendor of an honest story has charged for it so far */
    int64_t true_lines[SIM_LINES];
    int64_t true_at_s[SIM_LINES]; /* when each began */
    bool true_complete;           /* it will charge no more */
} sim_run;

/* A line of a bill. */
typedef struct sim_line {
    int run;       /* that it is about */
    int number;    /* 0 … SIM_LINES - 1 */
    bool labelled; /* names the run */
    bool placed;   /* names the instance */
    int vendor;    /* as it, or its bill, says */
    int64_t amount;
    int64_t at_s;
    int64_t until_s;
    char id[16];
} sim_line;

typedef struct sim_counts {
    int matched;
    int differing;
    int strays;
    int ambiguous;
    int after_the_end;
    int passed_over;
    int recorded;
} sim_counts;

typedef struct sim_model {
    sim_account accounts[SIM_ACCOUNTS];
    sim_run runs[SIM_RUNS];
} sim_model;

int64_t sim_total(const sim_run *run);

/* Since when it may have been billed: its grant, if nobody redeemed it. */
int64_t sim_start_s(const sim_run *run);
int64_t sim_held(const sim_run *run);
int64_t sim_reserved(const sim_model *model, int account);
int64_t sim_posted(const sim_model *model, int account);
int64_t sim_left(const sim_model *model, int account); /* in it, and in its parents */
bool sim_frozen(const sim_model *model, int account);  /* it, or a parent */

/* Each changes the model when it says true: granted. */
bool sim_authorize(sim_model *model, int run, int account, int64_t amount, int64_t exp_s);
bool sim_redeem(sim_model *model, int run, int rank, int attempt, int key, int64_t now_ms);
/* placed: it says the account of the vendor; which: of its instances. */
bool sim_create(sim_model *model, int run, bool placed, int64_t now_ms);
bool sim_attach(sim_model *model, int run, int which, bool placed, int64_t now_ms);
bool sim_void(sim_model *model, int run);
bool sim_actual(sim_model *model, int run, int64_t amount, bool partial, int64_t now_ms);

/* A person records a line of the bill. */
bool sim_actual_line(sim_model *model, const sim_line *line, bool partial, int64_t now_ms);

/* described: how many of its first instances evidence shows to be gone; 0: an admin vouches. there: it is the
 * account that has them which says so. */
bool sim_terminate(sim_model *model, int run, int described, bool there, int64_t now_ms);
sim_counts sim_reconcile(sim_model *model, const sim_line *lines, int count, int64_t as_of_s,
                         int64_t now_ms);
int sim_expire(sim_model *model, int64_t now_ms); /* how many did */

/* sim_model.c, for sim_model_bill.c: it may be running, whoever let it; and, after something was added to
 * what it cost since `before`: must a person look? */
void sim_run_on(sim_run *run, int64_t now_ms);
void sim_look(sim_model *model, sim_run *run, const sim_run *before, bool billed);

#endif
