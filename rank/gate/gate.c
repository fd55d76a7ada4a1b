/* The gate: checks token, receipt and machine, and arms the deadline. Called by src/modes.c before a
 * mode that may cost money; run.c releases the pass. */
#include "rank/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/number.h"
#include "budget/machine.h"
#include "budget/receipt.h"
#include "budget/token.h"
#include "proto/key.h"
#include "proto/lease.h"

static const char what_to_run[] =
    "budget-service authorize LABEL USD --job JOB.json --out TOKEN, then launcher … --token TOKEN; "
    "on a GPU of your own: launcher … --authorize local";

struct rank_pass {
    budget_claims claims;
    int64_t seconds;
};

/* All that is large or secret while the gate checks. */
typedef struct gate {
    const rank_gate_info *info;
    proto_lease lease;
    budget_keyring keyring;
    budget_claims claims;
    int64_t now_s;
    int64_t seconds;
} gate;

/* Refuses environment variables that would override JOB.json. */
static base_status check_environment(const gate *at, base_error *reterr)
{
    const proto_job *job = at->info->job;
    const struct {
        const char *name;
        const char *value;
    } settings[] = {
        {"RINGFENCE_COLL_ALGORITHM", proto_algorithm_name(job->parallel.algorithm)},
        {"RINGFENCE_COLL_TRANSPORT", proto_transport_name(job->parallel.transport)},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *set = getenv(settings[i].name);
        if (set != NULL && strcmp(set, settings[i].value) != 0) {
            return base_fail(reterr, BASE_ERR_AUTH,
                             "%s is '%s', the job that was authorized says '%s': unset it",
                             settings[i].name, set, settings[i].value);
        }
    }
    return BASE_OK;
}

static base_status read_lease(gate *at, base_error *reterr)
{
    const char *text = getenv("RINGFENCE_LEASE_FD");
    int64_t fd = -1;
    if (text == NULL || !base_parse_int(text, STDERR_FILENO + 1, 1 << 20, &fd) ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "mode %s needs a token: %s",
                         proto_mode_name(at->info->job->job.mode), what_to_run);
    }
    const base_status status = proto_lease_read((int)fd, &at->lease, reterr);
    (void)close((int)fd);
    return status;
}

static base_status read_keyring(gate *at, base_error *reterr)
{
    const char *path = budget_keyring_choose(at->lease.keyring);
    const base_status status = budget_keyring_read(path, &at->keyring, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "the keyring %s", path);
}

static base_status check_token(gate *at, base_error *reterr)
{
    const rank_gate_info *info = at->info;
    const char *token = at->lease.token;
    base_error why = {.message = ""};
    char machine[BUDGET_NAME_BYTES];
    /* the receipt states that it was redeemed before its exp */
    budget_verdict_token verdict =
        budget_token_verify(token, strlen(token), &at->keyring, BUDGET_ANY_TIME, &at->claims, &why);
    if (verdict == BUDGET_TOKEN_OK) {
        verdict = budget_token_check_job(&at->claims, info->job_bytes, info->job_size,
                                         proto_mode_name(info->job->job.mode),
                                         info->job->job.world_size, &why);
    }
    if (verdict != BUDGET_TOKEN_OK) {
        return base_fail(reterr, BASE_ERR_AUTH, "the token does not allow this job (%s): %s",
                         budget_verdict_token_name(verdict), why.message);
    }
    if (strcmp(at->claims.vendor, "local") != 0) {
        return BASE_OK;
    }
    const base_status status = budget_machine_id(machine, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return strcmp(machine, at->claims.machine_id) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH,
                           "the token is for another machine (%s, this one is %s): on this one, "
                           "launcher … --authorize local",
                           at->claims.machine_id, machine);
}

static base_status check_receipt(gate *at, base_error *reterr)
{
    budget_receipt receipt;
    base_error why = {.message = ""};
    budget_receipt expected = {.rank = at->info->rank, .attempt = at->lease.attempt};
    const char *text = at->lease.receipt;
    memcpy(expected.jti, at->claims.jti, sizeof expected.jti);
    memcpy(expected.job_public_key, at->info->launcher_public_key, PROTO_KEY_BYTES);
    budget_verdict_token verdict =
        budget_receipt_verify(text, strlen(text), &at->keyring, at->now_s, &receipt, &why);
    if (verdict == BUDGET_TOKEN_OK) {
        verdict = budget_receipt_check(&receipt, &expected, &why);
    }
    if (verdict != BUDGET_TOKEN_OK) {
        return base_fail(reterr, BASE_ERR_AUTH, "the receipt does not admit rank %d (%s): %s",
                         at->info->rank, budget_verdict_token_name(verdict), why.message);
    }
    at->seconds = budget_receipt_left_s(&receipt, at->now_s);
    if (at->seconds > at->claims.max_seconds) {
        at->seconds = at->claims.max_seconds; /* setting the wall clock back gains nothing */
    }
    return BASE_OK;
}

/* Makes the kernel send SIGKILL at the deadline. */
static base_status arm_timer(int64_t seconds, base_error *reterr)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec when = {.it_value = {.tv_sec = (time_t)seconds}};
    if (seconds < 1) {
        return base_fail(reterr, BASE_ERR_AUTH, "the token's time is over");
    }
    if (timer_create(CLOCK_BOOTTIME, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0) {
        return base_fail_errno(reterr, errno, "cannot arm the deadline's timer");
    }
    return BASE_OK;
}

static base_status pass_through(gate *at, base_error *reterr)
{
    base_status status = check_environment(at, reterr);
    if (status == BASE_OK) {
        status = read_lease(at, reterr);
    }
    if (status == BASE_OK) {
        status = budget_crypto_init(reterr);
    }
    if (status == BASE_OK) {
        status = read_keyring(at, reterr);
    }
    if (status == BASE_OK) {
        status = check_token(at, reterr);
    }
    if (status == BASE_OK) {
        status = check_receipt(at, reterr);
    }
    if (status == BASE_OK) {
        status = arm_timer(at->seconds, reterr);
    }
    return status;
}

base_status rank_gate_enter(const rank_gate_info *info, rank_pass **pass, int *exit_code,
                            base_error *reterr)
{
    gate *at = calloc(1, sizeof *at);
    rank_pass *made = calloc(1, sizeof *made);
    base_status status = BASE_OK;
    *exit_code = BASE_EXIT_ERROR;
    if (at == NULL || made == NULL) {
        free(at);
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the gate");
    }
    at->info = info;
    at->now_s = (int64_t)time(NULL);
    status = pass_through(at, reterr);
    if (status == BASE_OK) {
        made->claims = at->claims;
        made->seconds = at->seconds;
        *pass = made;
    } else {
        free(made);
        *exit_code = status == BASE_ERR_MEMORY ? BASE_EXIT_ERROR : BASE_EXIT_BAD_TOKEN;
    }
    proto_wipe(at, sizeof *at);
    free(at);
    return status;
}

void rank_pass_destroy(rank_pass *pass)
{
    free(pass);
}

const char *rank_pass_label(const rank_pass *pass)
{
    return pass->claims.label;
}

int64_t rank_pass_seconds(const rank_pass *pass)
{
    return pass->seconds;
}
