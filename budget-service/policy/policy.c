/* Reads and checks policy.json, and holds the policy that a new service starts with. Called by the
 * service, by `init` and by the key commands. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "budget/money.h"
#include "policy_core.h"

enum { SECONDS_MAX = 366 * 86400, NUMBER_MAX = 1 << 20 };

static base_status bad(base_error *reterr, const char *where, const char *what)
{
    return base_fail(reterr, BASE_ERR_INVALID, "policy: %.128s %s", where, what);
}

/* ---- one value ---- */

static base_status take_text(const json_t *value, const char *where, char *text, size_t text_bytes,
                             base_error *reterr)
{
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) >= text_bytes ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        return bad(reterr, where, "is not a text, or too long");
    }
    memcpy(text, json_string_value(value), json_string_length(value) + 1);
    return BASE_OK;
}

static base_status take_number(const json_t *value, const char *where, int64_t min, int64_t max,
                               int64_t *number, base_error *reterr)
{
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "policy: %.128s is not a whole number from %" PRId64 " to %" PRId64, where,
                         min, max);
    }
    *number = json_integer_value(value);
    return BASE_OK;
}

static base_status take_money(const json_t *value, const char *where, int64_t *micro,
                              base_error *reterr)
{
    if (!json_is_string(value)) {
        return bad(reterr, where, "is not a decimal number in quotes, \"2.50\" say");
    }
    const base_status status =
        budget_money_parse(json_string_value(value), json_string_length(value), micro, reterr);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, BASE_ERR_INVALID, "policy: %.128s", where);
}

/* Hours have at most six digits behind the point as money has; seconds are rounded up. */
static base_status take_hours(const json_t *value, const char *where, int64_t *seconds,
                              base_error *reterr)
{
    int64_t micro_hours = 0;
    const base_status status = take_money(value, where, &micro_hours, NULL);
    if (status != BASE_OK || micro_hours == 0 ||
        micro_hours > INT64_C(1000000) * SECONDS_MAX / 3600) {
        return bad(reterr, where,
                   "must be hours in quotes, such as \"2.50\": more than 0, and at most a year");
    }
    *seconds = (micro_hours * 3600 + 999999) / 1000000;
    return BASE_OK;
}

static base_status take_list(const json_t *value, const char *where, name_list *list,
                             base_error *reterr)
{
    base_status status = BASE_OK;
    if (!json_is_array(value) || json_array_size(value) == 0 ||
        json_array_size(value) > POLICY_LIST_MAX) {
        return bad(reterr, where, "is not a list of 1 to 32 texts");
    }
    for (size_t i = 0; i < json_array_size(value) && status == BASE_OK; i++) {
        status =
            take_text(json_array_get(value, i), where, list->names[i], BUDGET_NAME_BYTES, reterr);
        list->count = (int)i + 1;
    }
    return status;
}

/* ---- objects, by tables of their keys ---- */

typedef enum field_kind {
    FIELD_TEXT,
    FIELD_NUMBER,
    FIELD_MONEY,
    FIELD_HOURS,
    FIELD_LIST
} field_kind;

typedef struct policy_field {
    const char *key;
    field_kind kind;
    size_t offset_bytes;
} policy_field;

static const policy_field defaults_fields[] = {
    {"mode", FIELD_TEXT, offsetof(policy_defaults, mode)},
    {"vendor", FIELD_TEXT, offsetof(policy_defaults, vendor)},
    {"instance_type", FIELD_TEXT, offsetof(policy_defaults, instance_type)},
    {"tier", FIELD_TEXT, offsetof(policy_defaults, tier)},
    {"world_size", FIELD_NUMBER, offsetof(policy_defaults, world_size)},
    {"instances", FIELD_NUMBER, offsetof(policy_defaults, instances)},
    {"gpus", FIELD_NUMBER, offsetof(policy_defaults, gpus)},
    {"max_attempts", FIELD_NUMBER, offsetof(policy_defaults, max_attempts)},
    {"max_price", FIELD_MONEY, offsetof(policy_defaults, max_price)},
    {"max_hours", FIELD_HOURS, offsetof(policy_defaults, max_seconds)},
    {NULL, FIELD_TEXT, 0},
};

static const policy_field limits_fields[] = {
    {"modes", FIELD_LIST, offsetof(policy_limits, modes)},
    {"vendors", FIELD_LIST, offsetof(policy_limits, vendors)},
    {"tiers", FIELD_LIST, offsetof(policy_limits, tiers)},
    {"instances", FIELD_NUMBER, offsetof(policy_limits, instances)},
    {"world_size", FIELD_NUMBER, offsetof(policy_limits, world_size)},
    {"max_attempts", FIELD_NUMBER, offsetof(policy_limits, max_attempts)},
    {"max_price", FIELD_MONEY, offsetof(policy_limits, max_price)},
    {"max_hours", FIELD_HOURS, offsetof(policy_limits, max_seconds)},
    {"max_usd", FIELD_MONEY, offsetof(policy_limits, max_usd)},
    {NULL, FIELD_TEXT, 0},
};

static base_status take_field(const policy_field *field, const json_t *value, const char *where,
                              void *target, base_error *reterr)
{
    char *at = (char *)target + field->offset_bytes;
    switch (field->kind) {
    case FIELD_TEXT:
        return take_text(value, where, at, BUDGET_NAME_BYTES, reterr);
    case FIELD_NUMBER:
        return take_number(value, where, 1, NUMBER_MAX, (int64_t *)(void *)at, reterr);
    case FIELD_MONEY:
        return take_money(value, where, (int64_t *)(void *)at, reterr);
    case FIELD_HOURS:
        return take_hours(value, where, (int64_t *)(void *)at, reterr);
    case FIELD_LIST:
        return take_list(value, where, (name_list *)(void *)at, reterr);
    }
    return BASE_ERR_INVALID;
}

static base_status take_object(json_t *object, const char *where, const policy_field *fields,
                               void *target, base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(object)) {
        return bad(reterr, where, "is not an object");
    }
    json_object_foreach(object, key, value)
    {
        char path[256];
        const policy_field *known = fields;
        (void)snprintf(path, sizeof path, "%s.%.64s", where, key);
        while (known->key != NULL && strcmp(known->key, key) != 0) {
            known++;
        }
        const base_status status = known->key == NULL
                                       ? bad(reterr, path, "is not known")
                                       : take_field(known, value, path, target, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static void unset(policy_account *account)
{
    account->defaults.world_size = account->defaults.instances = account->defaults.gpus = -1;
    account->defaults.max_attempts = account->defaults.max_price = -1;
    account->defaults.max_seconds = -1;
    account->limits.instances = account->limits.world_size = account->limits.max_attempts = -1;
    account->limits.max_price = account->limits.max_seconds = account->limits.max_usd = -1;
}

static base_status take_account(budget_policy *policy, const char *name, json_t *object,
                                base_error *reterr)
{
    char where[256];
    const char *key = NULL;
    json_t *value = NULL;
    if (policy->account_count == BUDGET_POLICY_ACCOUNTS_MAX) {
        return bad(reterr, "accounts", "has too many entries");
    }
    if (strcmp(name, "*") != 0 && !budget_name_ok(name, BUDGET_ACCOUNT_BYTES, true)) {
        return bad(reterr, "accounts", "has an entry whose name no account can have");
    }
    (void)snprintf(where, sizeof where, "accounts.%s", name);
    if (!json_is_object(object)) {
        return bad(reterr, where, "is not an object");
    }
    policy_account *account = &policy->accounts[policy->account_count++];
    (void)snprintf(account->name, sizeof account->name, "%s", name);
    unset(account);
    json_object_foreach(object, key, value)
    {
        base_status status = BASE_OK;
        if (strcmp(key, "defaults") == 0) {
            status = take_object(value, where, defaults_fields, &account->defaults, reterr);
        } else if (strcmp(key, "limits") == 0) {
            status = take_object(value, where, limits_fields, &account->limits, reterr);
        } else {
            status = bad(reterr, where, "may hold \"defaults\" and \"limits\" only");
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static base_status take_vendor(budget_policy *policy, const char *name, json_t *object,
                               base_error *reterr)
{
    static const policy_field fields[] = {
        {"granularity_seconds", FIELD_NUMBER, offsetof(policy_vendor, granularity_s)},
        {"settling_hours", FIELD_HOURS, offsetof(policy_vendor, settling_s)},
        {NULL, FIELD_TEXT, 0},
    };
    if (policy->vendor_count == BUDGET_POLICY_VENDORS_MAX || strlen(name) >= BUDGET_NAME_BYTES) {
        return bad(reterr, "vendors", "has too many entries, or one with too long a name");
    }
    policy_vendor *vendor = &policy->vendors[policy->vendor_count++];
    (void)snprintf(vendor->name, sizeof vendor->name, "%s", name);
    vendor->granularity_s = BUDGET_POLICY_GRANULARITY_S;
    vendor->settling_s = BUDGET_POLICY_SETTLING_S;
    return take_object(object, "vendors", fields, vendor, reterr);
}

static base_status take_all(budget_policy *policy, json_t *object, const char *where,
                            base_status (*take)(budget_policy *policy, const char *name,
                                                json_t *value, base_error *reterr),
                            base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    base_status status = BASE_OK;
    if (!json_is_object(object)) {
        return bad(reterr, where, "is not an object");
    }
    json_object_foreach(object, key, value)
    {
        status = status == BASE_OK ? take(policy, key, value, reterr) : status;
    }
    return status;
}

static base_status take_hook(budget_policy *policy, const json_t *value, base_error *reterr)
{
    char text[4096];
    base_status status = BASE_OK;
    if (!json_is_array(value) || json_array_size(value) == 0 ||
        json_array_size(value) > BUDGET_POLICY_HOOK_ARGUMENTS_MAX) {
        return bad(reterr, "hook", "is not a list of 1 to 16 arguments");
    }
    for (size_t i = 0; i < json_array_size(value) && status == BASE_OK; i++) {
        status = take_text(json_array_get(value, i), "hook", text, sizeof text, reterr);
        policy->hook[i] = status == BASE_OK ? strdup(text) : NULL;
        if (status == BASE_OK && policy->hook[i] == NULL) {
            status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the policy");
        }
    }
    return policy->hook[0] != NULL && policy->hook[0][0] != '/'
               ? bad(reterr, "hook", "must begin with a path that begins with /")
               : status;
}

/* The account that pays where a request names none. */
static base_status take_payer(budget_policy *policy, const json_t *value, base_error *reterr)
{
    const base_status status =
        take_text(value, "account", policy->account, sizeof policy->account, reterr);
    return status != BASE_OK || budget_name_ok(policy->account, sizeof policy->account, true)
               ? status
               : bad(reterr, "account", "is a name that no account can have");
}

static base_status take_root(budget_policy *policy, json_t *root, base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    int64_t version = 0;
    if (!json_is_object(root)) {
        return bad(reterr, "the file", "is not an object");
    }
    json_object_foreach(root, key, value)
    {
        base_status status = BASE_OK;
        if (strcmp(key, "version") == 0) {
            status = take_number(value, key, 1, 1, &version, reterr);
        } else if (strcmp(key, "account") == 0) {
            status = take_payer(policy, value, reterr);
        } else if (strcmp(key, "hook") == 0) {
            status = take_hook(policy, value, reterr);
        } else if (strcmp(key, "token_seconds") == 0) {
            status = take_number(value, key, 1, SECONDS_MAX, &policy->token_s, reterr);
        } else if (strcmp(key, "reminder_seconds") == 0) {
            status = take_number(value, key, 0, SECONDS_MAX, &policy->reminder_s, reterr);
        } else if (strcmp(key, "vendors") == 0) {
            status = take_all(policy, value, key, take_vendor, reterr);
        } else if (strcmp(key, "accounts") == 0) {
            status = take_all(policy, value, key, take_account, reterr);
        } else {
            status = bad(reterr, key, "is not known");
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return version == 1 ? BASE_OK : bad(reterr, "version", "is missing");
}

/* ---- the whole ---- */

base_status budget_policy_parse(const void *text, size_t text_bytes, budget_policy **policy,
                                base_error *reterr)
{
    json_error_t error;
    json_t *root = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "policy: line %d: %s", error.line, error.text);
    }
    budget_policy *made = calloc(1, sizeof *made);
    if (made == NULL) {
        json_decref(root);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the policy");
    }
    made->token_s = BUDGET_POLICY_TOKEN_S;
    made->reminder_s = BUDGET_POLICY_REMINDER_S;
    const base_status status = take_root(made, root, reterr);
    json_decref(root);
    if (status != BASE_OK) {
        budget_policy_destroy(made);
        return status;
    }
    *policy = made;
    return BASE_OK;
}

base_status budget_policy_read(const char *path, budget_policy **policy, base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status = base_file_read(path, BUDGET_POLICY_BYTES_MAX, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        status = budget_policy_parse(text, text_bytes, policy, reterr);
        status = status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", path);
    }
    free(text);
    return status;
}

void budget_policy_destroy(budget_policy *policy)
{
    if (policy == NULL) {
        return;
    }
    for (int i = 0; i < BUDGET_POLICY_HOOK_ARGUMENTS_MAX; i++) {
        free(policy->hook[i]);
    }
    free(policy);
}

const char *budget_policy_initial(void)
{
    return "{\n"
           "  \"version\": 1,\n"
           "  \"token_seconds\": 900,\n"
           "  \"vendors\": {\n"
           "    \"aws\": {\"granularity_seconds\": 60},\n"
           "    \"lambda\": {\"granularity_seconds\": 60},\n"
           "    \"runpod\": {\"granularity_seconds\": 60},\n"
           "    \"vast\": {\"granularity_seconds\": 60}\n"
           "  },\n"
           "  \"accounts\": {\n"
           "    \"*\": {\"defaults\": {\"instances\": 1, \"max_attempts\": 1}}\n"
           "  }\n"
           "}\n";
}

const char *budget_policy_account(const budget_policy *policy)
{
    return policy->account[0] != '\0' ? policy->account : NULL;
}

const char *const *budget_policy_hook(const budget_policy *policy)
{
    return policy->hook[0] != NULL ? (const char *const *)policy->hook : NULL;
}

int64_t budget_policy_token_seconds(const budget_policy *policy)
{
    return policy->token_s;
}

int64_t budget_policy_reminder_seconds(const budget_policy *policy)
{
    return policy->reminder_s;
}
