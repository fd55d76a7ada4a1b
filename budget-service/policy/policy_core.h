/* A parsed policy, as policy.c reads it and check.c uses it. Private to policy/. */
#ifndef BUDGET_POLICY_CORE_H
#define BUDGET_POLICY_CORE_H

#include "budget/policy.h"

enum { POLICY_LIST_MAX = 32 };

typedef struct name_list {
    int count; /* 0: all are allowed */
    char names[POLICY_LIST_MAX][BUDGET_NAME_BYTES];
} name_list;

/* -1 and "": not said. */
typedef struct policy_defaults {
    char mode[BUDGET_NAME_BYTES];
    char vendor[BUDGET_NAME_BYTES];
    char instance_type[BUDGET_NAME_BYTES];
    char tier[BUDGET_NAME_BYTES];
    int64_t world_size;
    int64_t instances;
    int64_t gpus;
    int64_t max_attempts;
    int64_t max_price;
    int64_t max_seconds;
} policy_defaults;

typedef struct policy_limits {
    name_list modes;
    name_list vendors;
    name_list tiers;
    int64_t instances;
    int64_t world_size;
    int64_t max_attempts;
    int64_t max_price;
    int64_t max_seconds;
    int64_t max_usd;
} policy_limits;

typedef struct policy_account {
    char name[BUDGET_ACCOUNT_BYTES];
    policy_defaults defaults;
    policy_limits limits;
} policy_account;

typedef struct policy_vendor {
    char name[BUDGET_NAME_BYTES];
    int64_t granularity_s;
    int64_t settling_s;
} policy_vendor;

struct budget_policy {
    char account[BUDGET_ACCOUNT_BYTES]; /* "": not said */
    char *hook[BUDGET_POLICY_HOOK_ARGUMENTS_MAX + 1];
    int64_t token_s;
    int64_t reminder_s;
    int vendor_count;
    policy_vendor vendors[BUDGET_POLICY_VENDORS_MAX];
    int account_count;
    policy_account accounts[BUDGET_POLICY_ACCOUNTS_MAX];
};

#endif
