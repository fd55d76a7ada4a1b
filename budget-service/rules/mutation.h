/* Twenty-one seeded bugs, to show that the simulation finds them. In the product every BUDGET_MUTANT
 * is the constant 0; only tests/budget compiles the ledger with BUDGET_MUTATIONS and can switch one
 * on. */
#ifndef BUDGET_MUTATION_H
#define BUDGET_MUTATION_H

enum budget_mutation {
    BUDGET_MUTATION_NONE = 0,
    BUDGET_MUTATION_PARENT_SKIPPED,      /* only the nearest account reserves */
    BUDGET_MUTATION_RELEASE_ON_TIMEOUT,  /* the deadline gives the money back */
    BUDGET_MUTATION_SIGN_BEFORE_COMMIT,  /* the checkpoint is written first */
    BUDGET_MUTATION_VOID_AFTER_REDEEM,   /* … is granted */
    BUDGET_MUTATION_FINAL_WHILE_IT_RUNS, /* a cost said of a running instance is taken as final */
    BUDGET_MUTATION_PARTIAL_RELEASES,    /* a known cost is taken as the final one */
    BUDGET_MUTATION_SETTLED_AT_ONCE,     /* any bill after the end makes the cost final */
    BUDGET_MUTATION_CREDIT_RAISES,       /* a credit above what was posted makes more room */
    BUDGET_MUTATION_OVERRUN_UNFROZEN,    /* an actual above the reservation freezes nothing */
    BUDGET_MUTATION_LATE_UNFROZEN,       /* nor one after the end that passes a cap */
    BUDGET_MUTATION_ATTEMPT_UNFENCED,    /* an earlier attempt is redeemed after a later one */
    BUDGET_MUTATION_JOB_KEY_IGNORED,     /* a later attempt from another key */
    BUDGET_MUTATION_CREATE_TWICE,        /* the creation permit is given again */
    BUDGET_MUTATION_RETRY_FORGOTTEN,     /* a retry is decided as if it were new */
    BUDGET_MUTATION_HAND_MADE_ENDLESS,   /* an instance of a token never redeemed has no deadline */
    BUDGET_MUTATION_PROVEN_IN_PART,      /* some of a run's instances are gone: so are all */
    BUDGET_MUTATION_REFUTED_FORGOTTEN,   /* an earlier bill does not know what a later one showed */
    BUDGET_MUTATION_START_IGNORED,       /* the end of a run on a bill proves its beginning */
    BUDGET_MUTATION_VENDOR_IGNORED,  /* an instance's line is any vendor's that has the instance */
    BUDGET_MUTATION_VENDOR_GUESSED,  /* and so where the vendor is not known */
    BUDGET_MUTATION_ACCOUNT_IGNORED, /* not found by one account: gone from another */
    BUDGET_MUTATION_COUNT_,
};

#ifdef BUDGET_MUTATIONS
extern int budget_mutation;
#define BUDGET_MUTANT(name) (budget_mutation == BUDGET_MUTATION_##name)
#define BUDGET_MUTANT_ANY   (budget_mutation != BUDGET_MUTATION_NONE)
#else
#define BUDGET_MUTANT(name) 0
#define BUDGET_MUTANT_ANY   0
#endif

#endif
