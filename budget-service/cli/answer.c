/* Prints results, errors and refusals as text or as one JSON object, and formats money, times and
 * accounts. Called by every command of cli/. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "budget/time.h"
#include "cli.h"

enum { TURNS = 8 };

int cli_object(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(object);
    if (text == NULL) {
        (void)fputs("budget-service: no memory for an answer\n", stderr);
        return BASE_EXIT_ERROR;
    }
    (void)puts(text);
    free(text);
    return fflush(stdout) == 0 ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}

int cli_error(const cli_args *args, int exit_code, const char *format, ...)
{
    char message[BASE_ERROR_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(message, sizeof message, format, values);
    va_end(values);
    base_text_escape(message, sizeof message);
    if (args->json) {
        (void)cli_object(json_pack("{s:s, s:i}", "error", message, "exit", exit_code));
    } else {
        (void)fprintf(stderr, "budget-service: %s\n", message);
    }
    return exit_code;
}

int cli_status(const cli_args *args, const base_error *error)
{
    return cli_error(args, BASE_EXIT_ERROR, "%s", error->message);
}

int cli_unread(base_status status, int bad)
{
    return status == BASE_ERR_NOTFOUND || status == BASE_ERR_IO ? BASE_EXIT_USAGE : bad;
}

/* The service's own code where it gave one, else the verdict. */
static const char *reason_of(const budget_client *client, budget_verdict verdict)
{
    static const char *const names[] = {
        [BUDGET_GRANTED] = "GRANTED", [BUDGET_EXCEEDED] = "BUDGET_EXCEEDED",
        [BUDGET_REFUSED] = "REFUSED", [BUDGET_BAD_TOKEN] = "BAD_TOKEN",
        [BUDGET_UNKNOWN] = "UNKNOWN", [BUDGET_BEHIND] = "SERVICE_BEHIND",
        [BUDGET_FAILED] = "FAILED",
    };
    const char *code = client != NULL ? budget_client_refusal(client)->code : "";
    return verdict == BUDGET_REFUSED && code[0] != '\0' ? code : names[verdict];
}

static void refused_as_json(const budget_client *client, budget_verdict verdict,
                            const char *message, json_t *object)
{
    (void)json_object_set_new(object, "granted", json_false());
    (void)json_object_set_new(object, "reason", json_string(reason_of(client, verdict)));
    (void)json_object_set_new(object, "message", json_string(message));
    (void)json_object_set_new(object, "exit", json_integer(budget_verdict_exit(verdict)));
    if (verdict == BUDGET_EXCEEDED && client != NULL) {
        const budget_refusal *refusal = budget_client_refusal(client);
        (void)json_object_set_new(object, "account", json_string(refusal->account));
        (void)json_object_set_new(object, "asked_usd_micro",
                                  json_integer(refusal->asked_usd_micro));
        (void)json_object_set_new(object, "remaining_usd_micro",
                                  json_integer(refusal->left_usd_micro));
    }
    if (verdict == BUDGET_UNKNOWN && client != NULL) {
        (void)json_object_set_new(object, "request_id",
                                  json_string(budget_client_request_id(client)));
    }
    (void)cli_object(object);
}

static void refused_in_words(const cli_args *args, const budget_client *client,
                             budget_verdict verdict, const char *message)
{
    char shown[BASE_ERROR_MESSAGE_BYTES];
    (void)snprintf(shown, sizeof shown, "%s", message);
    base_text_escape(shown, sizeof shown);
    if (verdict == BUDGET_EXCEEDED && client != NULL) {
        const budget_refusal *refusal = budget_client_refusal(client);
        (void)fprintf(stderr,
                      "budget-service: refused: over the cap of %s: %s left, %s asked; ask for "
                      "less, or an admin raises "
                      "the cap: budget-service account set-cap %s --cap USD\n",
                      refusal->account, cli_usd(refusal->left_usd_micro),
                      cli_usd(refusal->asked_usd_micro), refusal->account);
    } else if (verdict == BUDGET_UNKNOWN && client != NULL) {
        const bool by_id = (args->command->optional & CLI_BIT(CLI_REQUEST_ID)) != 0;
        (void)fprintf(stderr, "budget-service: outcome unknown: %s; %s%s\n", shown,
                      by_id ? "ask again with --request-id " : "run it again",
                      by_id ? budget_client_request_id(client) : "");
    } else {
        (void)fprintf(stderr, "budget-service: %s%s\n",
                      verdict == BUDGET_FAILED ? "" : "refused: ", shown);
    }
}

int cli_refused(const cli_args *args, budget_client *client, budget_verdict verdict,
                const base_error *why, json_t *object)
{
    const char *message = why->message[0] != '\0' ? why->message : budget_verdict_name(verdict);
    if (args->json) {
        refused_as_json(client, verdict, message, object != NULL ? object : json_object());
    } else {
        refused_in_words(args, client, verdict, message);
        json_decref(object);
    }
    return budget_verdict_exit(verdict);
}

int cli_list(const cli_args *args, budget_client *client, budget_verdict verdict,
             const base_error *why, const char *name, json_t *rows)
{
    if (verdict != BUDGET_GRANTED) {
        json_decref(rows);
        return cli_refused(args, client, verdict, why, NULL);
    }
    return rows != NULL ? cli_object(json_pack("{s:o}", name, rows)) : BASE_EXIT_DONE;
}

bool cli_token_claims(const char *token, budget_claims *claims)
{
    static budget_token_parts parts;
    return budget_token_decode(token, strlen(token), &parts, NULL) == BUDGET_TOKEN_OK &&
           budget_claims_parse(parts.payload, parts.payload_bytes, claims, NULL) == BASE_OK;
}

const char *cli_usd(int64_t micro)
{
    static char texts[TURNS][BUDGET_MONEY_BYTES];
    static int turn;
    char *text = texts[turn++ % TURNS];
    budget_money_show(micro, text);
    return text;
}

const char *cli_time(int64_t time_s)
{
    static char texts[TURNS][BUDGET_TIME_BYTES];
    static int turn;
    char *text = texts[turn++ % TURNS];
    if (time_s == 0) {
        return "-";
    }
    budget_time_format(time_s, text);
    return text;
}

int64_t cli_percent(const budget_account *account)
{
    const double used = (double)account->posted_usd_micro + (double)account->reserved_usd_micro;
    if (account->cap_usd_micro <= 0) {
        return used > 0 ? 100 : 0;
    }
    return (int64_t)(used * 100.0 / (double)account->cap_usd_micro);
}

json_t *cli_account_json(const budget_account *account)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:b}", "account", account->name, "cap_usd_micro",
                  (json_int_t)account->cap_usd_micro, "posted_usd_micro",
                  (json_int_t)account->posted_usd_micro, "reserved_usd_micro",
                  (json_int_t)account->reserved_usd_micro, "remaining_usd_micro",
                  (json_int_t)account->remaining_usd_micro, "frozen", account->frozen, "warning",
                  cli_percent(account) >= CLI_HINT_PERCENT);
    return object;
}

void cli_frozen(const char *account, const char *why)
{
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "budget-service: warning: %s is frozen: %s: budget-service account "
                  "acknowledge %s\n",
                  account, why, account);
}

void cli_warn(const budget_account *account)
{
    if (account->frozen) {
        (void)fprintf(stderr,
                      "budget-service: warning: %s is frozen: an actual was above its "
                      "reservation or took it above its cap, or credits were above the cost; an "
                      "admin runs: budget-service "
                      "account acknowledge %s\n",
                      account->name, account->name);
    }
    if (cli_percent(account) >= CLI_HINT_PERCENT) {
        (void)fprintf(stderr,
                      "budget-service: warning: %s has used %" PRId64 " %% of its %s; %s left\n",
                      account->name, cli_percent(account), cli_usd(account->cap_usd_micro),
                      cli_usd(account->remaining_usd_micro));
    }
}
