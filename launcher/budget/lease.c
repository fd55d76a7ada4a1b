/* A job's lease: takes and verifies the token, prints the estimate, redeems receipts for each
 * attempt, and hands ranks their part in a memfd. Called by cli.c, and by job/ for deadline and
 * keys. */
#include "budget/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "base/path.h"
#include "budget/lease_ask.h"
#include "budget/money.h"
#include "budget/secret_file.h"
#include "proto/lease.h"

enum { RECEIPTS_PER_CALL = BUDGET_REDEEM_RANKS_MAX };

struct launch_lease {
    const launch_options *options;
    int world_size;
    int attempt;
    proto_keypair job_key;
    budget_claims claims;
    budget_keyring keyring;
    char token[BUDGET_TOKEN_BYTES];
    char keyring_path[BASE_PATH_BYTES];
    char (*receipts)[PROTO_LEASE_TOKEN_BYTES]; /* (world_size) */
    int64_t deadline_boot_ns;
    char reserved[BUDGET_LABEL_BYTES]; /* the label that --authorize reserved money for; else "" */
    bool used;                         /* the token was redeemed, or may have been */
};
_Static_assert((int)BUDGET_TOKEN_BYTES <= (int)PROTO_LEASE_TOKEN_BYTES, "a token fits a lease");

static int64_t boot_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * BASE_NS_PER_S + now.tv_nsec;
}

/* The keyring that the launcher names: that of --keyring, or else that of the service's
 * directory. */
static base_status name_keyring(const launch_budget_options *budget, char path[BASE_PATH_BYTES],
                                base_error *reterr)
{
    char dir[BASE_PATH_BYTES];
    base_status status = BASE_OK;
    if (budget->keyring[0] != '\0') {
        (void)snprintf(path, BASE_PATH_BYTES, "%s", budget->keyring);
        return BASE_OK;
    }
    (void)snprintf(dir, sizeof dir, "%s", budget->dir);
    if (dir[0] == '\0') {
        status = budget_default_dir(dir, reterr);
    }
    return status == BASE_OK ? base_path_join(dir, "keyring.json", path, reterr) : status;
}

base_status launch_lease_find_keyring(const launch_budget_options *budget,
                                      char path[BASE_PATH_BYTES], budget_keyring *keyring,
                                      base_error *reterr)
{
    const char *chosen = budget_keyring_choose(NULL);
    base_status status = budget_crypto_init(reterr);
    if (chosen != NULL) {
        (void)snprintf(path, BASE_PATH_BYTES, "%s", chosen);
    } else if (status == BASE_OK) {
        status = name_keyring(budget, path, reterr);
    }
    if (status == BASE_OK) {
        status = budget_keyring_read(path, keyring, reterr);
    }
    if (status == BASE_OK && chosen == NULL) {
        base_log(BASE_LOG_WARNING,
                 "this machine has no " BUDGET_KEYRING_ANCHOR ": the keyring is the launcher's own "
                 "%s, and whoever launches may choose another; as root: budget-service "
                 "install-keyring",
                 path);
    }
    return status == BASE_OK ? status
                             : base_error_prepend(reterr, status,
                                                  "no keyring to verify the token with (--keyring "
                                                  "FILE, or budget-service init)");
}

/* Several hosts are several instances: each of them costs. */
static base_status check_hosts(const budget_claims *claims, int64_t nodes, base_error *reterr)
{
    if (nodes == 1) {
        return BASE_OK;
    }
    if (strcmp(claims->vendor, "local") == 0) {
        return base_fail(
            reterr, BASE_ERR_AUTH,
            "the token is for one machine (vendor local), the job has %" PRId64 " hosts", nodes);
    }
    return claims->instances >= nodes
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH,
                           "the token is for %" PRId64 " %s, the job has %" PRId64
                           " hosts: authorize it with --instances %" PRId64,
                           claims->instances, claims->instances == 1 ? "instance" : "instances",
                           nodes, nodes);
}

/* What to do about a token that another job, or another hour, was authorized with. */
static const char *next_step(budget_verdict_token verdict)
{
    return verdict == BUDGET_TOKEN_WRONG_JOB || verdict == BUDGET_TOKEN_EXPIRED
               ? "; for one of this job: the same flags with --write-job JOB.json, then "
                 "budget-service authorize LABEL USD --job JOB.json --out TOKEN"
               : "";
}

static base_status check_token(launch_lease *lease, const void *job_bytes, size_t job_size,
                               base_error *reterr)
{
    const proto_job *job = &lease->options->job;
    base_error why = {.message = ""};
    const int64_t now_s =
        lease->options->budget.receipts[0] == '\0' ? (int64_t)time(NULL) : BUDGET_ANY_TIME;
    budget_verdict_token verdict = budget_token_verify(
        lease->token, strlen(lease->token), &lease->keyring, now_s, &lease->claims, &why);
    if (verdict == BUDGET_TOKEN_OK) {
        verdict = budget_token_check_job(&lease->claims, job_bytes, job_size,
                                         proto_mode_name(job->job.mode), job->job.world_size, &why);
    }
    return verdict == BUDGET_TOKEN_OK
               ? check_hosts(&lease->claims, lease->options->hosts.nodes, reterr)
               : base_fail(reterr, BASE_ERR_AUTH, "the token does not allow this job (%s): %s%s",
                           budget_verdict_token_name(verdict), why.message, next_step(verdict));
}

/* Prints what the token may cost, once it is verified. Also with --quiet. */
static void print_claims(const launch_lease *lease)
{
    const budget_claims *claims = &lease->claims;
    char price[BUDGET_MONEY_BYTES];
    char most[BUDGET_MONEY_BYTES];
    char estimate[BUDGET_MONEY_BYTES] = "unknown";
    int64_t micro = 0;
    budget_money_show(claims->max_price_usd_micro_per_hour, price);
    budget_money_show(claims->max_usd_micro, most);
    if (strcmp(claims->vendor, "local") == 0) {
        (void)snprintf(estimate, sizeof estimate, "$0.00");
        (void)snprintf(price, sizeof price, "$0.00"); /* whatever the policy's default is */
    } else if (budget_money_cost(claims->max_price_usd_micro_per_hour, claims->instances,
                                 claims->max_seconds, &micro)) {
        budget_money_show(micro, estimate);
    }
    base_log(BASE_LOG_INFO,
             "estimate: %s at most (%" PRId64 " × %s of %s, %s/h%s, %" PRId64
             " s); authorized: %s for %s, account %s",
             estimate, claims->instances,
             claims->instance_type[0] != '\0' ? claims->instance_type : "instance", claims->vendor,
             price, claims->price_derived ? ", which is what the amount pays for and no quote" : "",
             claims->max_seconds, most, claims->label, claims->account);
}

/* What needs neither token nor money. So nothing is reserved for a job whose token nobody could
 * verify. */
static base_status prepare(launch_lease *lease, base_error *reterr)
{
    const launch_budget_options *budget = &lease->options->budget;
    const base_status status = budget_crypto_init(reterr); /* for the label of a request, too */
    if (status != BASE_OK) {
        return status;
    }
    if (budget->token[0] == '\0' && budget->authorize[0] == '\0') {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "mode %s needs a token: budget-service authorize LABEL USD --job JOB.json "
                         "--out TOKEN, then --token TOKEN; or --authorize USD --account NAME; on a "
                         "GPU of your own: --authorize local",
                         proto_mode_name(lease->options->job.job.mode));
    }
    return launch_lease_find_keyring(budget, lease->keyring_path, &lease->keyring, reterr);
}

static base_status take_token(launch_lease *lease, const void *job_bytes, size_t job_size,
                              int *exit_code, base_error *reterr)
{
    const launch_budget_options *budget = &lease->options->budget;
    size_t token_bytes = 0;
    budget_grant grant;
    if (budget->token[0] != '\0') {
        const base_status read =
            budget_token_read_file(budget->token, lease->token, &token_bytes, reterr);
        *exit_code = read == BASE_OK || read == BASE_ERR_LIMIT ? *exit_code : BASE_EXIT_USAGE;
        return read;
    }
    const base_status status =
        launch_lease_ask(lease->options, job_bytes, job_size, &grant, exit_code, reterr);
    if (status == BASE_OK) {
        memcpy(lease->token, grant.token, sizeof lease->token);
        (void)snprintf(lease->reserved, sizeof lease->reserved, "%s",
                       grant.max_usd_micro > 0 ? grant.label : "");
    }
    return status;
}

static base_status take_job_key(launch_lease *lease, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (lease->options->budget.receipts[0] == '\0') {
        proto_keypair_make(&lease->job_key);
        return BASE_OK;
    }
    const base_status status =
        base_path_join(lease->options->budget.receipts, "job.key", path, reterr);
    return status == BASE_OK
               ? budget_keypair_read(path, " is no job's key", &lease->job_key, reterr)
               : status;
}

base_status launch_lease_take(const launch_options *options, const void *job_bytes, size_t job_size,
                              launch_lease **lease, int *exit_code, base_error *reterr)
{
    launch_lease *made = calloc(1, sizeof *made);
    *exit_code = BASE_EXIT_BAD_TOKEN;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a lease");
    }
    made->options = options;
    made->world_size = (int)options->job.job.world_size;
    made->receipts = calloc((size_t)made->world_size, sizeof made->receipts[0]);
    base_status status = made->receipts != NULL
                             ? prepare(made, reterr)
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for receipts");
    if (status == BASE_ERR_NOTFOUND && options->budget.keyring[0] != '\0') {
        *exit_code = BASE_EXIT_USAGE; /* --keyring names none */
    }
    if (status == BASE_OK) {
        status = take_token(made, job_bytes, job_size, exit_code, reterr);
    }
    if (status == BASE_OK) {
        status = check_token(made, job_bytes, job_size, reterr);
    }
    if (status == BASE_OK) {
        status = take_job_key(made, reterr);
    }
    if (status != BASE_OK) {
        launch_lease_destroy(made);
        return status;
    }
    print_claims(made);
    *lease = made;
    return BASE_OK;
}

/* Reads receipts that were fetched beforehand. */
static base_status read_receipts(launch_lease *lease, base_error *reterr)
{
    base_error why = {.message = ""};
    budget_receipt receipt;
    base_status status = BASE_OK;
    for (int rank = 0; rank < lease->world_size && status == BASE_OK; rank++) {
        char name[32];
        char path[BASE_PATH_BYTES];
        size_t size_bytes = 0;
        (void)snprintf(name, sizeof name, "rank-%d.receipt", rank);
        status = base_path_join(lease->options->budget.receipts, name, path, reterr);
        if (status == BASE_OK) {
            status = budget_token_read_file(path, lease->receipts[rank], &size_bytes, reterr);
        }
    }
    if (status != BASE_OK) {
        return status;
    }
    int64_t now_s = 0;
    status = budget_receipt_now(lease->options->budget.receipts, &now_s, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const budget_verdict_token verdict = budget_receipt_verify(
        lease->receipts[0], strlen(lease->receipts[0]), &lease->keyring, now_s, &receipt, &why);
    if (verdict != BUDGET_TOKEN_OK) {
        return base_fail(reterr, BASE_ERR_AUTH, "the receipts admit nobody (%s): %s",
                         budget_verdict_token_name(verdict), why.message);
    }
    lease->attempt = (int)receipt.attempt;
    lease->deadline_boot_ns =
        boot_now_ns() + budget_receipt_left_s(&receipt, now_s) * BASE_NS_PER_S;
    return BASE_OK;
}

static budget_verdict redeem_some(launch_lease *lease, const budget_redeem_ranks *ranks,
                                  int64_t deadline_ns, budget_redemption *redemption,
                                  base_error *why)
{
    const launch_budget_options *budget = &lease->options->budget;
    const int64_t left_ms = (deadline_ns - base_now_ns()) / BASE_NS_PER_MS;
    const budget_redeem_options options = {
        .dir = budget->dir[0] != '\0' ? budget->dir : NULL,
        .job_key = &lease->job_key,
        .timeout_ms = left_ms > 0 ? left_ms : 1,
    };
    return budget_redeem(&options, lease->token, ranks, redemption, why);
}

static base_status fetch_receipts(launch_lease *lease, int *exit_code, base_error *reterr)
{
    base_error why = {.message = ""};
    base_status status = BASE_OK;
    /* agents hear nothing of the head meanwhile */
    const int calls = (lease->world_size + RECEIPTS_PER_CALL - 1) / RECEIPTS_PER_CALL;
    const int64_t deadline_ns =
        base_deadline_after_ns(BASE_NS_PER_MS * (lease->options->hosts.nodes > 1
                                                     ? lease->options->hosts.host_timeout_ms / 2
                                                     : (int64_t)calls * BUDGET_CLIENT_TIMEOUT_MS));
    budget_redemption *redemption = calloc(1, sizeof *redemption);
    if (redemption == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for receipts");
    }
    for (int first = 0; first < lease->world_size && status == BASE_OK;
         first += RECEIPTS_PER_CALL) {
        const int left = lease->world_size - first;
        const int count = left < RECEIPTS_PER_CALL ? left : RECEIPTS_PER_CALL;
        const budget_redeem_ranks ranks = {
            .first = first, .count = count, .attempt = lease->attempt};
        const int64_t asked_boot_ns = boot_now_ns(); /* the answer may be read late */
        const budget_verdict verdict = redeem_some(lease, &ranks, deadline_ns, redemption, &why);
        lease->used |= verdict == BUDGET_GRANTED || verdict == BUDGET_UNKNOWN;
        if (verdict != BUDGET_GRANTED || redemption->count != count) {
            *exit_code = verdict == BUDGET_GRANTED ? BASE_EXIT_ERROR : budget_verdict_exit(verdict);
            status = base_fail(reterr, BASE_ERR_AUTH, "redeeming the token (%s): %s",
                               budget_verdict_name(verdict), why.message);
            break;
        }
        for (int i = 0; i < count; i++) {
            memcpy(lease->receipts[first + i], redemption->receipts[i],
                   sizeof redemption->receipts[i]);
        }
        lease->deadline_boot_ns = asked_boot_ns + redemption->seconds_left * BASE_NS_PER_S;
    }
    free(redemption);
    return status;
}

base_status launch_lease_redeem(launch_lease *lease, int attempt, int *exit_code,
                                base_error *reterr)
{
    *exit_code = BASE_EXIT_BAD_TOKEN;
    lease->attempt = attempt;
    return lease->options->budget.receipts[0] != '\0' ? read_receipts(lease, reterr)
                                                      : fetch_receipts(lease, exit_code, reterr);
}

launch_rank_lease launch_lease_of_rank(const launch_lease *lease, int rank)
{
    return (launch_rank_lease){
        .attempt = lease->attempt, .token = lease->token, .receipt = lease->receipts[rank]};
}

base_status launch_lease_receive(const launch_rank_lease *part, const char *keyring_path, int *fd,
                                 base_error *reterr)
{
    proto_lease *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a lease");
    }
    file->attempt = part->attempt;
    (void)snprintf(file->token, sizeof file->token, "%s", part->token);
    (void)snprintf(file->receipt, sizeof file->receipt, "%s", part->receipt);
    (void)snprintf(file->keyring, sizeof file->keyring, "%s", keyring_path);
    const base_status status = proto_lease_write(file, fd, reterr);
    free(file);
    return status;
}

base_status launch_lease_rank_fd(const launch_lease *lease, int rank, int *fd, base_error *reterr)
{
    const launch_rank_lease part = launch_lease_of_rank(lease, rank);
    return launch_lease_receive(&part, lease->keyring_path, fd, reterr);
}

const proto_keypair *launch_lease_job_key(const launch_lease *lease)
{
    return &lease->job_key;
}

int64_t launch_lease_left_ns(const launch_lease *lease)
{
    return lease->deadline_boot_ns - boot_now_ns();
}

const char *launch_lease_label(const launch_lease *lease)
{
    return lease->claims.label;
}

void launch_lease_cost(const launch_lease *lease, launch_cost *cost)
{
    const budget_claims *claims = &lease->claims;
    const bool is_local = strcmp(claims->vendor, "local") == 0;
    int64_t micro = 0;
    const bool known =
        is_local || budget_money_cost(claims->max_price_usd_micro_per_hour, claims->instances,
                                      claims->max_seconds, &micro);
    *cost = (launch_cost){.estimated_usd_micro = known ? micro : -1,
                          .actual_usd_micro = is_local ? 0 : -1};
    (void)snprintf(cost->token_id, sizeof cost->token_id, "%s", claims->jti);
    (void)snprintf(cost->label, sizeof cost->label, "%s", claims->label);
    (void)snprintf(cost->account, sizeof cost->account, "%s", claims->account);
    (void)snprintf(cost->vendor, sizeof cost->vendor, "%s", claims->vendor);
    (void)snprintf(cost->instance_type, sizeof cost->instance_type, "%s", claims->instance_type);
}

int launch_lease_attempts_max(const launch_lease *lease)
{
    return lease->options->budget.receipts[0] == '\0' ? (int)lease->claims.max_attempts : 1;
}

void launch_lease_print_open(const launch_lease *lease)
{
    if (lease == NULL || strcmp(lease->claims.vendor, "local") == 0 ||
        (!lease->used && lease->options->budget.receipts[0] == '\0')) {
        return;
    }
    const char *label = lease->claims.label;
    char driver[sizeof lease->claims.label + 96] = "";
    if (strcmp(lease->claims.vendor, BUDGET_VENDOR_ANY) != 0) {
        (void)snprintf(driver, sizeof driver,
                       "budget-service end %s does, where the vendor's driver is; or ", label);
    }
    base_log(BASE_LOG_INFO,
             "%s is still open, and its %s of %s may still be billed. A launch ends no instance: "
             "%send it at the vendor, then, or if none was made: budget-service terminated %s "
             "--evidence FILE. Its cost is final with budget-service record-actual %s USD after "
             "that, or reconcile. budget-service running lists what may be billed",
             label, lease->claims.instances == 1 ? "instance" : "instances", lease->claims.vendor,
             driver, label, label);
}

void launch_lease_destroy(launch_lease *lease)
{
    if (lease == NULL) {
        return;
    }
    if (lease->reserved[0] != '\0' && !lease->used) {
        base_log(BASE_LOG_WARNING,
                 "%s was authorized for this launch, which has not redeemed it; what is reserved "
                 "for it returns with: budget-service void %s",
                 lease->reserved, lease->reserved);
    }
    free(lease->receipts);
    proto_wipe(lease, sizeof *lease);
    free(lease);
}
