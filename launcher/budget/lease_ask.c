/* Asks the budget-service to authorize a job (--authorize), and prints the estimate of its cost.
 * Called by lease.c and, for the estimate, by cli.c. */
#include "budget/lease_ask.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "budget/lease.h"
#include "budget/machine.h"
#include "budget/money.h"
#include "proto/digest.h"

enum { WARN_PERCENT = 80 };

static bool is_local(const launch_budget_options *budget)
{
    return strcmp(budget->authorize, "local") == 0;
}

/* The amount of --authorize. */
static base_status parse_amount(const launch_budget_options *budget, int64_t *usd_micro,
                                base_error *reterr)
{
    const base_status status =
        budget_money_parse(budget->authorize, strlen(budget->authorize), usd_micro, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "--authorize");
}

/* Makes a unique label: "gate-check-20261121T101500Z-3f9a2c". */
static void make_label(const launch_options *options, char label[BUDGET_LABEL_BYTES])
{
    char when[32];
    char jti[BUDGET_JTI_BYTES];
    struct tm utc;
    const time_t now = time(NULL);
    (void)gmtime_r(&now, &utc);
    (void)strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &utc);
    budget_jti_make(jti);
    (void)snprintf(label, BUDGET_LABEL_BYTES, "%s-%s-%.6s", proto_mode_name(options->job.job.mode),
                   when, jti);
}

static base_status fill_local(budget_claims *ask, base_error *reterr)
{
    char machine[BUDGET_NAME_BYTES];
    const base_status status = budget_machine_id(machine, reterr);
    if (status != BASE_OK) {
        return status;
    }
    (void)snprintf(ask->vendor, sizeof ask->vendor, "local");
    if (ask->instance_type[0] == '\0') {
        (void)snprintf(ask->instance_type, sizeof ask->instance_type, "own");
    }
    (void)snprintf(ask->machine_id, sizeof ask->machine_id, "%s", machine);
    return BASE_OK;
}

static base_status fill_ask(const launch_options *options, const void *job_bytes, size_t job_size,
                            budget_claims *ask, base_error *reterr)
{
    const launch_budget_options *budget = &options->budget;
    *ask = (budget_claims){
        .world_size = options->job.job.world_size,
        .instances = budget->instances,
        .gpus = budget->gpus,
        .max_price_usd_micro_per_hour = budget->max_price_usd_micro,
        .max_seconds = budget->max_seconds,
        .max_attempts = options->max_restarts + 1,
    };
    (void)snprintf(ask->account, sizeof ask->account, "%s", budget->account);
    (void)snprintf(ask->mode, sizeof ask->mode, "%s", proto_mode_name(options->job.job.mode));
    (void)snprintf(ask->vendor, sizeof ask->vendor, "%s", budget->vendor);
    (void)snprintf(ask->instance_type, sizeof ask->instance_type, "%s", budget->instance_type);
    (void)snprintf(ask->tier, sizeof ask->tier, "%s", budget->tier);
    proto_blake2b256(job_bytes, job_size, ask->job_blake2b256);
    if (budget->label[0] != '\0') {
        (void)snprintf(ask->label, sizeof ask->label, "%s", budget->label);
    } else {
        make_label(options, ask->label);
    }
    if (is_local(budget)) {
        return fill_local(ask, reterr);
    }
    return parse_amount(budget, &ask->max_usd_micro, reterr);
}

static base_status report(budget_client *client, budget_verdict verdict, const char *label,
                          const base_error *why, base_error *reterr)
{
    if (verdict == BUDGET_UNKNOWN) {
        return base_fail(reterr, BASE_ERR_TIMEOUT,
                         "it is not known whether %s was authorized: %s; what may be reserved for "
                         "it returns with: budget-service void %s; then launch again, under "
                         "another label",
                         label, why->message, label);
    }
    if (verdict == BUDGET_EXCEEDED) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "not authorized (%s): %s; ask for less, or an admin raises the cap: "
                         "budget-service account set-cap %s --cap USD",
                         budget_verdict_name(verdict), why->message,
                         budget_client_refusal(client)->account);
    }
    return base_fail(reterr, BASE_ERR_AUTH, "not authorized (%s): %s", budget_verdict_name(verdict),
                     why->message);
}

/* Logs what is left. From WARN_PERCENT of the cap on it is a warning. */
static void report_grant(const budget_grant *grant)
{
    char before[BUDGET_MONEY_BYTES];
    char after[BUDGET_MONEY_BYTES];
    char cap[BUDGET_MONEY_BYTES];
    const int64_t used = grant->cap_usd_micro - grant->remaining_after_usd_micro;
    budget_money_show(grant->remaining_before_usd_micro, before);
    budget_money_show(grant->remaining_after_usd_micro, after);
    budget_money_show(grant->cap_usd_micro, cap);
    base_log(BASE_LOG_INFO, "authorized %s; left in %s: %s before, %s now", grant->label,
             grant->account, before, after);
    if ((double)used * 100 >= (double)grant->cap_usd_micro * WARN_PERCENT &&
        grant->cap_usd_micro > 0) {
        base_log(BASE_LOG_WARNING, "%s has used %d %% of its %s", grant->account,
                 (int)((double)used * 100 / (double)grant->cap_usd_micro), cap);
    }
}

base_status launch_lease_ask(const launch_options *options, const void *job_bytes, size_t job_size,
                             budget_grant *grant, int *exit_code, base_error *reterr)
{
    const launch_budget_options *budget = &options->budget;
    budget_client *client = NULL;
    budget_claims ask;
    base_error why = {.message = ""};
    base_status status = fill_ask(options, job_bytes, job_size, &ask, reterr);
    if (status != BASE_OK) {
        *exit_code = BASE_EXIT_USAGE;
        return status;
    }
    const budget_client_options client_options = {
        .dir = budget->dir[0] != '\0' ? budget->dir : NULL,
        .key_file = budget->key[0] != '\0' ? budget->key : NULL,
    };
    status = budget_client_open(&client_options, &client, reterr);
    if (status != BASE_OK) {
        *exit_code = BASE_EXIT_ERROR;
        return status;
    }
    const budget_verdict verdict = budget_authorize(client, &ask, grant, &why);
    if (verdict != BUDGET_GRANTED) {
        *exit_code = budget_verdict_exit(verdict);
        status = report(client, verdict, ask.label, &why, reterr);
    } else {
        report_grant(grant);
    }
    budget_client_close(client);
    return status;
}

/* Prints the bound of a cost that depends on the policy's price or hours. Only the service knows
 * the policy. But the amount is a bound, because the service refuses an amount below instances ×
 * price × hours. */
static base_status print_bound(const launch_budget_options *budget, FILE *stream,
                               base_error *reterr)
{
    char text[BUDGET_MONEY_BYTES];
    int64_t asked = 0;
    if (budget->authorize[0] == '\0') {
        (void)fprintf(stream, "estimate: unknown: give --max-price and --max-hours, or the amount "
                              "with --authorize\n");
        return BASE_OK;
    }
    const base_status status = parse_amount(budget, &asked, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_money_show(asked, text);
    (void)fprintf(stream, "estimate: %s at most; %s the policy's\n", text,
                  budget->max_seconds > 0           ? "the price is"
                  : budget->max_price_usd_micro > 0 ? "the hours are"
                                                    : "price and hours are");
    return BASE_OK;
}

base_status launch_lease_print_estimate(const launch_options *options, FILE *stream,
                                        base_error *reterr)
{
    const launch_budget_options *budget = &options->budget;
    char text[BUDGET_MONEY_BYTES];
    int64_t asked = 0;
    int64_t micro = 0;
    if (is_local(budget)) {
        (void)fprintf(stream, "estimate: $0.00 (vendor local: this machine)\n");
        return BASE_OK;
    }
    if (budget->max_price_usd_micro == 0 || budget->max_seconds == 0 ||
        !budget_money_cost(budget->max_price_usd_micro,
                           budget->instances > 0 ? budget->instances : 1, budget->max_seconds,
                           &micro)) {
        return print_bound(budget, stream, reterr);
    }
    budget_money_show(micro, text);
    (void)fprintf(stream, "estimate: %s and what the vendor rounds up\n", text);
    if (budget->authorize[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = parse_amount(budget, &asked, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return asked >= micro ? BASE_OK
                          : base_fail(reterr, BASE_ERR_INVALID,
                                      "--authorize %s is less than instances × price × hours: %s",
                                      budget->authorize, text);
}
