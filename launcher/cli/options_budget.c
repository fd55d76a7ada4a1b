/* Parses prices and hours among the launcher's flags, and checks which budget flags go together.
 * Called by options.c. */
#include "cli/options_budget.h"

#include <stdlib.h>
#include <string.h>

#include "budget/money.h"

enum { SECONDS_PER_HOUR = 3600, HOURS_MAX = 24 * 366, DECIMALS_PER_HOUR = 1000000 };

static base_status parse_price(const base_field *field, const char *text, void *member,
                               base_error *reterr)
{
    int64_t *usd_micro = member;
    const base_status status = budget_money_parse(text, strlen(text), usd_micro, reterr);
    (void)field;
    if (status == BASE_OK && *usd_micro <= 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be above 0", text);
    }
    return status;
}

static void format_price(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    char money[BUDGET_MONEY_BYTES];
    (void)field;
    budget_money_format(*(const int64_t *)member, money);
    (void)snprintf(text, BASE_CODED_BYTES, "%s", money);
}

const base_coding launch_price = {.parse = parse_price, .format = format_price};

/* Reads decimal hours with the parser of money: exact to a millionth, rounded up to a second. */
static base_status parse_hours(const base_field *field, const char *text, void *member,
                               base_error *reterr)
{
    int64_t micro = 0;
    (void)field;
    if (budget_money_parse(text, strlen(text), &micro, NULL) != BASE_OK || micro <= 0 ||
        micro > (int64_t)HOURS_MAX * DECIMALS_PER_HOUR) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be hours, as in 2 or 0.5", text);
    }
    *(int64_t *)member = (micro * SECONDS_PER_HOUR + DECIMALS_PER_HOUR - 1) / DECIMALS_PER_HOUR;
    return BASE_OK;
}

static void format_hours(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, "%g",
                   (double)*(const int64_t *)member / SECONDS_PER_HOUR);
}

const base_coding launch_hours = {.parse = parse_hours, .format = format_hours};

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
    if (budget->receipts[0] != '\0' &&
        (budget->redeem == LAUNCH_REDEEM_RANKS || options->max_restarts > 0)) {
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
