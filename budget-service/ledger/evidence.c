/* Checks a vendor's termination evidence against the instances of a reservation. Called by
 * outcome.c before a run counts as terminated. */
#include "evidence.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "budget/time.h"
#include "rules/mutation.h"

static const char drivers_format[] = "ringfence/termination/v1";

static base_status bad(base_error *why, const char *field, const char *what)
{
    return base_fail(why, BASE_ERR_INVALID, "evidence: %s %s", field, what);
}

/* A member that is a non-empty string without NULs; NULL when it is not. */
static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        return NULL;
    }
    return json_string_value(value);
}

static base_status only_keys(json_t *object, const char *const *keys, size_t count,
                             const char *field, base_error *why)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(object)) {
        return bad(why, field, "is not an object");
    }
    json_object_foreach(object, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < count; i++) {
            known = known || strcmp(key, keys[i]) == 0;
        }
        if (!known) {
            return base_fail(why, BASE_ERR_INVALID, "evidence: %s has an unknown key \"%.64s\"",
                             field, key);
        }
    }
    return BASE_OK;
}

static base_status time_of(const json_t *object, const char *field,
                           const evidence_expected *expected, int64_t *time_s, base_error *why)
{
    const char *text = text_of(object, "at");
    if (text == NULL || budget_time_parse(text, strlen(text), time_s, NULL) != BASE_OK) {
        return bad(why, field, "is not an RFC 3339 time");
    }
    if (*time_s < expected->after_s) {
        return bad(why, field,
                   "is before the last redemption, or an end that was refuted: is its "
                   "computer's clock right?");
    }
    if (*time_s > expected->now_s + EVIDENCE_CLOCK_SLACK_S) {
        return bad(why, field, "lies in the future: is its computer's clock right?");
    }
    return BASE_OK;
}

static bool is_ours(const evidence_expected *expected, const char *instance, const char *name)
{
    for (size_t i = 0; i < expected->instance_count; i++) {
        if (strcmp(expected->instances[i], instance) == 0) {
            return true;
        }
    }
    return name != NULL && strstr(name, expected->jti) != NULL;
}

/* One answer of describe; *which: the attached instance it is about. */
static base_status check_described(json_t *item, const evidence_expected *expected,
                                   int64_t *latest_s, size_t *which, base_error *why)
{
    static const char *const keys[] = {"at", "instance_id", "name", "status", "answer"};
    int64_t at_s = 0;
    base_status status = only_keys(item, keys, 5, "describe", why);
    status = status == BASE_OK ? time_of(item, "describe.at", expected, &at_s, why) : status;
    if (status != BASE_OK) {
        return status;
    }
    const char *instance = text_of(item, "instance_id");
    const char *name = text_of(item, "name");
    const char *state = text_of(item, "status");
    if (instance == NULL) {
        return bad(why, "describe.instance_id", "is missing");
    }
    if (name == NULL || strstr(name, expected->jti) == NULL) {
        return bad(why, "describe.name", "does not carry the jti");
    }
    if (state == NULL || (strcmp(state, "terminated") != 0 && strcmp(state, "not-found") != 0)) {
        return bad(why, "describe.status", "is neither \"terminated\" nor \"not-found\"");
    }
    *which = expected->instance_count;
    for (size_t i = 0; i < expected->instance_count; i++) {
        if (strcmp(expected->instances[i], instance) == 0) {
            *which = i;
        }
    }
    if (expected->instance_count > 0 && *which == expected->instance_count) {
        return bad(why, "describe.instance_id", "is not an instance of this label");
    }
    *latest_s = at_s > *latest_s ? at_s : *latest_s;
    return BASE_OK;
}

/* Of the answers, how many are about an instance that none before is about? Each names one. */
static int64_t count_instances(const json_t *describe)
{
    int64_t count = 0;
    for (size_t i = 0; i < json_array_size(describe); i++) {
        const char *instance = text_of(json_array_get(describe, i), "instance_id");
        bool before = false;
        for (size_t k = 0; k < i && !before; k++) {
            before = strcmp(text_of(json_array_get(describe, k), "instance_id"), instance) == 0;
        }
        count += !before;
    }
    return count;
}

static base_status check_describe(const json_t *root, const evidence_expected *expected,
                                  int64_t *latest_s, base_error *why)
{
    bool seen[BUDGET_INSTANCES_MAX + 1] = {false};
    const json_t *describe = json_object_get(root, "describe");
    if (!json_is_array(describe) || json_array_size(describe) == 0 ||
        json_array_size(describe) > BUDGET_INSTANCES_MAX) {
        return bad(why, "describe", "is not a list of answers");
    }
    for (size_t i = 0; i < json_array_size(describe); i++) {
        size_t which = 0;
        const base_status status =
            check_described(json_array_get(describe, i), expected, latest_s, &which, why);
        if (status != BASE_OK) {
            return status;
        }
        seen[which] = true;
    }
    for (size_t i = 0; i < expected->instance_count; i++) {
        if (!seen[i]) {
            return base_fail(why, BASE_ERR_INVALID, "evidence: describe lacks instance %s",
                             expected->instances[i]);
        }
    }
    const int64_t count = count_instances(describe);
    if (count < expected->instances_max) {
        return base_fail(why, BASE_ERR_INVALID,
                         "evidence: describe has %" PRId64 " of the %" PRId64
                         " instances that the token allows: attach and describe all",
                         count, expected->instances_max);
    }
    return BASE_OK;
}

static base_status check_list(const json_t *root, const evidence_expected *expected,
                              int64_t described_s, base_error *why)
{
    static const char *const keys[] = {"at", "instances", "answer"};
    static const char *const item_keys[] = {"instance_id", "name", "answer"};
    json_t *list = json_object_get(root, "list");
    int64_t at_s = 0;
    base_status status = only_keys(list, keys, 3, "list", why);
    status = status == BASE_OK ? time_of(list, "list.at", expected, &at_s, why) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (at_s < described_s) {
        return bad(why, "list.at", "is before describe.at");
    }
    const json_t *instances = json_object_get(list, "instances");
    if (!json_is_array(instances)) {
        return bad(why, "list.instances", "is not a list");
    }
    for (size_t i = 0; i < json_array_size(instances); i++) {
        json_t *item = json_array_get(instances, i);
        status = only_keys(item, item_keys, 3, "list.instances", why);
        if (status != BASE_OK) {
            return status;
        }
        const char *instance = text_of(item, "instance_id");
        if (instance == NULL) {
            return bad(why, "list.instances", "has an entry without instance_id");
        }
        if (is_ours(expected, instance, text_of(item, "name"))) {
            return base_fail(why, BASE_ERR_INVALID, "evidence: list still has instance %.128s",
                             instance);
        }
    }
    return BASE_OK;
}

/* "Not found" is an answer of the account that has the instances, and of no other. */
static base_status check_account(const json_t *root, const evidence_expected *expected,
                                 base_error *why)
{
    const char *account = text_of(root, "vendor_account");
    if (account == NULL) {
        return bad(why, "vendor_account", "is missing");
    }
    if (expected->vendor_account[0] == '\0') {
        return bad(why, "vendor_account",
                   "proves nothing, because nobody has said in which account of the vendor the "
                   "instances are");
    }
    return strcmp(account, expected->vendor_account) == 0 || BUDGET_MUTANT(ACCOUNT_IGNORED)
               ? BASE_OK
               : base_fail(why, BASE_ERR_INVALID,
                           "evidence: vendor_account is %.64s, and the instances are in %s",
                           account, expected->vendor_account);
}

static base_status check_root(json_t *root, const evidence_expected *expected, base_error *why)
{
    static const char *const keys[] = {"evidence", "vendor",   "vendor_account",
                                       "jti",      "describe", "list"};
    int64_t latest_s = 0;
    base_status status = only_keys(root, keys, 6, "the file", why);
    if (status != BASE_OK) {
        return status;
    }
    const char *format = text_of(root, "evidence");
    const char *vendor = text_of(root, "vendor");
    const char *jti = text_of(root, "jti");
    if (format == NULL || strcmp(format, drivers_format) != 0) {
        return bad(why, "evidence", "is not \"ringfence/termination/v1\"");
    }
    if (vendor == NULL || strcmp(vendor, expected->vendor) != 0) {
        return bad(why, "vendor", "is not the token's");
    }
    if (jti == NULL || strcmp(jti, expected->jti) != 0) {
        return bad(why, "jti", "is not the token's");
    }
    status = check_account(root, expected, why);
    status = status == BASE_OK ? check_describe(root, expected, &latest_s, why) : status;
    return status == BASE_OK ? check_list(root, expected, latest_s, why) : status;
}

base_status evidence_check(const void *bytes, size_t size_bytes, const evidence_expected *expected,
                           base_error *why)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return bad(why, "the file", "is not JSON");
    }
    const base_status status = check_root(root, expected, why);
    json_decref(root);
    return status;
}

bool evidence_describes(const void *bytes, size_t size_bytes, const char *instance_id)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, size_bytes, JSON_REJECT_DUPLICATES, &error);
    const json_t *describe = json_object_get(root, "describe");
    bool found = false;
    for (size_t i = 0; i < json_array_size(describe) && !found; i++) {
        const char *instance = text_of(json_array_get(describe, i), "instance_id");
        found = instance != NULL && strcmp(instance, instance_id) == 0;
    }
    json_decref(root);
    return found;
}

bool evidence_is_drivers(const void *bytes, size_t size_bytes)
{
    return memmem(bytes, size_bytes, drivers_format, sizeof drivers_format - 1) != NULL;
}
