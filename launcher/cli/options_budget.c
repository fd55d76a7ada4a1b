/* Checks which of the budget's flags go together. Called by options.c. */
#include "cli/options_budget.h"

#include <string.h>

#include "budget/money.h"

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
    if (budget->receipts[0] != '\0' && options->max_restarts > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--receipts are for one attempt, redeemed already: no --max-restarts");
    }
    if (strcmp(budget->authorize, "local") == 0 && budget->vendor[0] != '\0' &&
        strcmp(budget->vendor, "local") != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--authorize local is for this machine's own GPU, not for --vendor %s",
                         budget->vendor);
    }
    if (options->hosts.nodes > 1 && strcmp(budget->authorize, "local") == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--authorize local is for this machine alone: not with --nodes");
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
