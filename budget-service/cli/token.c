/* The commands redeem and verify. Run by the table of commands in options.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "budget/receipt.h"
#include "budget/secret_file.h"
#include "budget/service_files.h"
#include "budget/time.h"
#include "budget/token.h"
#include "cli.h"
#include "job_file.h"

enum { ANSWER_RANKS = BUDGET_REDEEM_RANKS_MAX };

bool cli_read_token(const cli_args *args, char token[BUDGET_TOKEN_BYTES], size_t *token_bytes,
                    int *exit_code)
{
    const char *text = args->operands[0];
    base_error error = {0};
    if (strncmp(text, "v4.", 3) == 0) {
        *token_bytes = strlen(text);
        if (*token_bytes < BUDGET_TOKEN_BYTES) {
            memcpy(token, text, *token_bytes + 1);
            return true;
        }
        *exit_code = cli_error(args, BASE_EXIT_BAD_TOKEN, "the token is longer than any of ours");
        return false;
    }
    const base_status status = budget_token_read_file(text, token, token_bytes, &error);
    if (status != BASE_OK) {
        *exit_code =
            cli_error(args, status == BASE_ERR_LIMIT ? BASE_EXIT_BAD_TOKEN : BASE_EXIT_USAGE, "%s",
                      error.message);
        return false;
    }
    return true;
}

static json_t *claims_json(const budget_claims *claims)
{
    char text[BUDGET_CLAIMS_JSON_BYTES];
    size_t text_bytes = 0;
    return budget_claims_write(claims, text, &text_bytes, NULL) == BASE_OK
               ? json_loadb(text, text_bytes, 0, NULL)
               : NULL;
}

static int show_verdict(const cli_args *args, budget_verdict_token verdict,
                        const budget_claims *claims, const base_error *why)
{
    const int exit_code = verdict == BUDGET_TOKEN_OK ? BASE_EXIT_DONE : BASE_EXIT_BAD_TOKEN;
    if (args->json) {
        json_t *object = json_pack("{s:b, s:s}", "valid", verdict == BUDGET_TOKEN_OK, "verdict",
                                   budget_verdict_token_name(verdict));
        if (verdict != BUDGET_TOKEN_OK) {
            (void)json_object_set_new(object, "message", json_string(why->message));
            (void)json_object_set_new(object, "exit", json_integer(exit_code));
        } else {
            (void)json_object_set_new(object, "claims", claims_json(claims));
        }
        (void)cli_object(object);
    } else if (verdict != BUDGET_TOKEN_OK) {
        (void)fprintf(stderr, "budget-service: %s: %s\n", budget_verdict_token_name(verdict),
                      why->message);
    } else {
        (void)printf("good: %s of %s, mode %s, %lld ranks, at most %s and %lld s, until %s\n",
                     claims->label, claims->account, claims->mode, (long long)claims->world_size,
                     cli_usd(claims->max_usd_micro), (long long)claims->max_seconds,
                     cli_time(claims->expires_at));
    }
    return exit_code;
}

static bool read_keyring(const cli_args *args, budget_keyring *keyring, int *exit_code)
{
    char dir[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    const char *file = args->options[CLI_KEYRING];
    base_error error = {0};
    base_status status = BASE_OK;
    if (file == NULL) {
        if (!cli_dir(args, dir, exit_code)) {
            return false;
        }
        status = base_path_join(dir, BUDGET_FILE_KEYRING, path, &error);
        file = path;
    }
    if (status == BASE_OK) {
        status = budget_keyring_read(file, keyring, &error);
    }
    if (status != BASE_OK) {
        *exit_code = cli_error(args, cli_unread(status, BASE_EXIT_BAD_TOKEN), "%s", error.message);
        return false;
    }
    return true;
}

static int run_verify(const cli_args *args)
{
    static budget_keyring keyring;
    char token[BUDGET_TOKEN_BYTES];
    size_t token_bytes = 0;
    budget_claims claims = {0};
    job_file job = {0};
    int exit_code = BASE_EXIT_BAD_TOKEN;
    base_error why = {0};
    if (!read_keyring(args, &keyring, &exit_code) ||
        !cli_read_token(args, token, &token_bytes, &exit_code)) {
        return exit_code;
    }
    budget_verdict_token verdict =
        budget_token_verify(token, token_bytes, &keyring, budget_time_now(), &claims, &why);
    if (verdict == BUDGET_TOKEN_OK && args->options[CLI_JOB] != NULL) {
        if (job_file_open(args->options[CLI_JOB], &job, &why) != BASE_OK) {
            return cli_error(args, BASE_EXIT_USAGE, "%s", why.message);
        }
        verdict = budget_token_check_job(&claims, job.text, job.text_bytes, job.mode,
                                         job.world_size, &why);
        free(job.text);
    }
    return show_verdict(args, verdict, &claims, &why);
}

static int redeem_create(const cli_args *args, const budget_redeem_options *options,
                         const char *token)
{
    budget_permit permit = {0};
    budget_claims claims = {0};
    base_error why = {0};
    const budget_verdict verdict = budget_redeem_create(options, token, &permit, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, NULL, verdict, &why, NULL);
    }
    if (!cli_token_claims(token, &claims)) { /* the service has just read it */
        return cli_error(args, BASE_EXIT_ERROR, "granted, but the token cannot be read");
    }
    if (args->json) {
        return cli_object(json_pack("{s:b, s:s, s:I}", "granted", 1, "not_after",
                                    cli_time(permit.not_after), "instances",
                                    (json_int_t)claims.instances));
    }
    (void)printf("creation permit: %" PRId64 " instance%s, to be ended before %s\n",
                 claims.instances, claims.instances == 1 ? "" : "s", cli_time(permit.not_after));
    return BASE_EXIT_DONE;
}

/* Makes the file anew, 0600, in the place of what is there. */
static base_status replace(const char *path, const void *data, size_t size_bytes,
                           base_error *reterr)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        return base_fail_errno(reterr, errno, "cannot replace %s", path);
    }
    return budget_secret_file_create(path, data, size_bytes, reterr);
}

static base_status put_receipts(const char *directory, int first_rank,
                                const budget_redemption *redemption, base_error *reterr)
{
    for (int i = 0; i < redemption->count; i++) {
        char path[BASE_PATH_BYTES];
        char line[BUDGET_TOKEN_BYTES + 1];
        const int path_bytes =
            snprintf(path, sizeof path, "%s/rank-%d.receipt", directory, first_rank + i);
        const int length = snprintf(line, sizeof line, "%s\n", redemption->receipts[i]);
        if (path_bytes >= (int)sizeof path) {
            return base_fail(reterr, BASE_ERR_LIMIT, "the directory's name is too long");
        }
        const base_status status = replace(path, line, (size_t)length, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

/* The last ranks first: if there are fewer in the job, the first answer refuses, and nothing is
 * redeemed. */
static int redeem_ranks(const cli_args *args, const budget_redeem_options *options,
                        const char *token)
{
    const int ranks = (int)args->values.ranks;
    const int attempt = (int)args->values.attempt;
    budget_redemption *redemption = calloc(1, sizeof *redemption);
    const char *directory = args->options[CLI_OUT];
    int exit_code = BASE_EXIT_DONE;
    int64_t not_after = 0;
    base_error why = {0};
    if (redemption == NULL) {
        return cli_error(args, BASE_EXIT_ERROR, "no memory for receipts");
    }
    for (int first = (ranks - 1) / ANSWER_RANKS * ANSWER_RANKS;
         first >= 0 && exit_code == BASE_EXIT_DONE; first -= ANSWER_RANKS) {
        const int count = ranks - first < ANSWER_RANKS ? ranks - first : ANSWER_RANKS;
        const budget_redeem_ranks some = {.first = first, .count = count, .attempt = attempt};
        const budget_verdict verdict = budget_redeem(options, token, &some, redemption, &why);
        if (verdict != BUDGET_GRANTED) {
            exit_code = cli_refused(args, NULL, verdict, &why, NULL);
        } else if (put_receipts(directory, first, redemption, &why) != BASE_OK) {
            exit_code = cli_status(args, &why);
        }
        not_after = redemption->not_after;
    }
    free(redemption);
    int64_t now_s = 0;
    if (exit_code == BASE_EXIT_DONE && budget_receipt_now(directory, &now_s, &why) != BASE_OK) {
        exit_code = cli_status(args, &why); /* the clock begins beside them */
    }
    if (exit_code != BASE_EXIT_DONE) {
        return exit_code;
    }
    if (args->json) {
        return cli_object(json_pack("{s:b, s:i, s:i, s:s, s:s}", "granted", 1, "receipts", ranks,
                                    "attempt", attempt, "not_after", cli_time(not_after), "out",
                                    directory));
    }
    (void)printf("%d receipts in %s, attempt %d, good until %s\n", ranks, directory, attempt,
                 cli_time(not_after));
    return BASE_EXIT_DONE;
}

/* Ranks and attempt go together, and the creation permit stands alone. */
static bool check_redeem(const cli_args *args)
{
    const bool create = args->options[CLI_CREATE] != NULL;
    const bool some = args->options[CLI_RANKS] != NULL || args->options[CLI_ATTEMPT] != NULL;
    const bool all = args->options[CLI_RANKS] != NULL && args->options[CLI_ATTEMPT] != NULL &&
                     args->options[CLI_OUT] != NULL;
    if (create ? some : !all) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "redeem takes --ranks N --attempt K --out DIR, or --create");
        return false;
    }
    return true;
}

/* DIRECTORY/job.key, made (with the directory, 0700) where it is missing. directory NULL: a fresh key
 * that is kept nowhere. */
static base_status open_job_key(const char *directory, proto_keypair *key, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    proto_keypair_make(key);
    if (directory == NULL) {
        return BASE_OK;
    }
    if (snprintf(path, sizeof path, "%s/job.key", directory) >= (int)sizeof path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the directory's name is too long");
    }
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", directory);
    }
    const base_status status = budget_keypair_read(path, " is no job's key", key, reterr);
    return status == BASE_ERR_NOTFOUND ? budget_keypair_create(path, key, reterr) : status;
}

static int run_redeem(const cli_args *args)
{
    proto_keypair key;
    char token[BUDGET_TOKEN_BYTES];
    char dir[BASE_PATH_BYTES];
    size_t token_bytes = 0;
    int exit_code = BASE_EXIT_USAGE;
    base_error error = {0};
    if (!check_redeem(args) || !cli_dir(args, dir, &exit_code) ||
        !cli_read_token(args, token, &token_bytes, &exit_code)) {
        return exit_code;
    }
    if (open_job_key(args->options[CLI_OUT], &key, &error) != BASE_OK) {
        return cli_status(args, &error);
    }
    const budget_redeem_options options = {
        .dir = dir, .job_key = &key, .timeout_ms = args->values.timeout_ms};
    exit_code = args->options[CLI_CREATE] != NULL ? redeem_create(args, &options, token)
                                                  : redeem_ranks(args, &options, token);
    proto_wipe(&key, sizeof key);
    return exit_code;
}

static const cli_command commands[] = {
    {.name = "verify",
     .operands = "TOKEN",
     .operand_count = 1,
     .optional = CLI_BIT(CLI_KEYRING) | CLI_BIT(CLI_JOB) | CLI_BIT(CLI_DIR),
     .summary = "check a token offline, with public keys alone",
     .details = "TOKEN is a file, or the token itself. With --job: is it for this job?",
     .run = run_verify},
    {.name = "redeem",
     .operands = "TOKEN",
     .operand_count = 1,
     .optional = CLI_BIT(CLI_DIR) | CLI_BIT(CLI_TIMEOUT) | CLI_BIT(CLI_RANKS) |
                 CLI_BIT(CLI_ATTEMPT) | CLI_BIT(CLI_OUT) | CLI_BIT(CLI_CREATE),
     .summary = "get receipts for ranks that cannot reach the service, or the creation permit",
     .details = "Writes DIR/rank-N.receipt and keeps the job's key in DIR/job.key: a later attempt "
                "must come with the same\n--out. With --create, --out (if given) says where that "
                "key is kept.",
     .run = run_redeem},
};
const cli_group cli_token_group = {"Tokens", commands, sizeof commands / sizeof commands[0]};
