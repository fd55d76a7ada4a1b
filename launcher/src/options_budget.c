#include "options_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "budget/money.h"
#include "paths.h"

enum {
    COUNT_MAX = 100000,
    SECONDS_PER_HOUR = 3600,
    HOURS_MAX = 24 * 366,
    DECIMALS_PER_HOUR = 1000000
};

static base_status set_text(char *text, size_t size_bytes, const char *value, base_error *reterr)
{
    if (value[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "is empty");
    }
    if (strlen(value) >= size_bytes) {
        return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes", size_bytes - 1);
    }
    memcpy(text, value, strlen(value) + 1);
    return BASE_OK;
}

static base_status set_count(int64_t *count, const char *value, base_error *reterr)
{
    char *end = NULL;
    errno = 0;
    const long number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < 1 || number > COUNT_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be a whole number from 1 to %d",
                         value, COUNT_MAX);
    }
    *count = number;
    return BASE_OK;
}

/* Decimal hours, through the parser of money: exact to a millionth, rounded up to a second. */
static base_status set_hours(int64_t *seconds, const char *value, base_error *reterr)
{
    int64_t micro = 0;
    if (budget_money_parse(value, strlen(value), &micro, NULL) != BASE_OK || micro <= 0 ||
        micro > (int64_t)HOURS_MAX * DECIMALS_PER_HOUR) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be hours, as in 2 or 0.5", value);
    }
    *seconds = (micro * SECONDS_PER_HOUR + DECIMALS_PER_HOUR - 1) / DECIMALS_PER_HOUR;
    return BASE_OK;
}

static base_status set_redeem(bool *by_ranks, const char *value, base_error *reterr)
{
    *by_ranks = strcmp(value, "ranks") == 0;
    return *by_ranks || strcmp(value, "launcher") == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "'%s': must be launcher or ranks", value);
}

base_status launch_options_set_budget(launch_budget_options *budget, const launch_flag *flag,
                                      const char *value, base_error *reterr)
{
    void *member = (char *)budget + flag->offset;
    switch (flag->kind) {
    case LAUNCH_KIND_BUDGET_PATH:
        return launch_path_absolute(value, member, flag->size_bytes, reterr);
    case LAUNCH_KIND_BUDGET_TEXT:
        return set_text(member, flag->size_bytes, value, reterr);
    case LAUNCH_KIND_BUDGET_COUNT:
        return set_count(member, value, reterr);
    case LAUNCH_KIND_BUDGET_PRICE:
        return budget_money_parse(value, strlen(value), member, reterr);
    case LAUNCH_KIND_BUDGET_HOURS:
        return set_hours(member, value, reterr);
    default:
        return set_redeem(member, value, reterr);
    }
}

base_status launch_options_check_budget(const launch_options *options, base_error *reterr)
{
    const launch_budget_options *budget = &options->budget;
    int64_t micro = 0;
    if (budget->token[0] != '\0' && budget->authorize[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "--token or --authorize, not both");
    }
    if (budget->receipts[0] != '\0' && budget->token[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "--receipts needs the --token they are for");
    }
    if (budget->receipts[0] != '\0' && (budget->redeem_by_ranks || options->max_restarts > 0)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--receipts are for one attempt, redeemed already: no --redeem, no "
                         "--max-restarts");
    }
    if (strcmp(budget->authorize, "local") == 0 && budget->vendor[0] != '\0' &&
        strcmp(budget->vendor, "local") != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--authorize local is for this machine's own GPU, not for --vendor %s",
                         budget->vendor);
    }
    if (budget->authorize[0] == '\0' || strcmp(budget->authorize, "local") == 0) {
        return BASE_OK;
    }
    const base_status status =
        budget_money_parse(budget->authorize, strlen(budget->authorize), &micro, reterr);
    return status == BASE_OK
               ? status
               : base_error_prepend(reterr, status, "--authorize '%s'", budget->authorize);
}
