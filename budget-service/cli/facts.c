/* The commands attach, record-actual, terminated and void. Run by the table of commands in
 * options.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli.h"

static bool label_operand(const cli_args *args)
{
    if (!budget_name_ok(args->operands[0], BUDGET_LABEL_BYTES, true)) {
        (void)cli_error(args, BASE_EXIT_USAGE, "'%s' is no label", args->operands[0]);
        return false;
    }
    return true;
}

/* The file of --evidence; *data is NULL where none is named. */
static bool read_evidence(const cli_args *args, void **data, size_t *size_bytes)
{
    const char *path = args->options[CLI_EVIDENCE];
    base_error error = {0};
    if (path != NULL &&
        base_file_read(path, BUDGET_EVIDENCE_BYTES_MAX, data, size_bytes, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s", error.message);
        return false;
    }
    return true;
}

/* What is reserved for the run and posted, as that has left it, behind what was done. */
static void show_sums(const char *label, const budget_note *note)
{
    if (strcmp(note->state, "voided") != 0) {
        (void)printf("; %s%s%s", note->actual_known ? cli_usd(note->actual_usd_micro) : "no cost",
                     note->actual_known ? " in all" : " is final yet",
                     strcmp(note->state, "posted") == 0 ? ", which is final" : "");
    }
    if (note->reserved_usd_micro == 0) {
        (void)printf("; nothing stays reserved\n");
    } else if (strcmp(note->state, "terminated-unbilled") == 0) {
        (void)printf("; %s stays reserved until the cost is final: budget-service record-actual %s "
                     "USD, or reconcile\n",
                     cli_usd(note->reserved_usd_micro), label);
    } else {
        (void)printf(
            "; %s stays reserved until its end is proven: budget-service terminated %s "
            "--evidence FILE, and then record-actual again, with 0 if no cost is missing\n",
            cli_usd(note->reserved_usd_micro), label);
    }
}

/* Says that it is done, in words or, of `what` alone, as {"label":…,"done":what,…}; more: further
 * members, which are the callee's, or NULL. */
static int done(const cli_args *args, const budget_client *client, const char *what,
                const char *words, json_t *more)
{
    const budget_note *note = budget_client_note(client);
    if (args->json) {
        json_t *object = json_pack("{s:s, s:s}", "label", args->operands[0], "done", what);
        if (note->state[0] != '\0') {
            (void)json_object_set_new(object, "state", json_string(note->state));
            (void)json_object_set_new(object, "reserved_usd_micro",
                                      json_integer(note->reserved_usd_micro));
            (void)json_object_set_new(object, "actual_usd_micro",
                                      note->actual_known ? json_integer(note->actual_usd_micro)
                                                         : json_null());
        }
        (void)json_object_update_new(object, more);
        return cli_object(object);
    }
    (void)printf("%s: %s", args->operands[0], words);
    if (note->state[0] != '\0') {
        show_sums(args->operands[0], note);
    } else {
        (void)putchar('\n');
    }
    return BASE_EXIT_DONE;
}

/* The account that this has frozen, on standard error, or as "frozen" and "message". */
static int finish_actual(const cli_args *args, const budget_client *client, int64_t usd_micro)
{
    char words[BUDGET_MONEY_BYTES + sizeof "recorded "];
    const budget_note *note = budget_client_note(client);
    const bool froze = note->account[0] != '\0';
    (void)snprintf(words, sizeof words, "recorded %s", cli_usd(usd_micro));
    const int exit_code =
        done(args, client, "recorded", words,
             args->json && froze
                 ? json_pack("{s:s, s:s}", "frozen", note->account, "message", note->message)
                 : NULL);
    if (froze && !args->json) {
        cli_frozen(note->account, note->message);
    }
    return exit_code;
}

static int finish(const cli_args *args, budget_client *client, budget_verdict verdict,
                  const base_error *why, const char *what)
{
    return verdict == BUDGET_GRANTED
               ? done(args, client, what, what, NULL)
               : cli_refused(args, client, verdict, why,
                             args->json ? json_pack("{s:s}", "label", args->operands[0]) : NULL);
}

/* With what the answer says of an end that was proven of other instances, on standard error or as
 * "message". */
static int finish_attach(const cli_args *args, budget_client *client, budget_verdict verdict,
                         const base_error *why)
{
    const char *what = args->options[CLI_REPLACES] != NULL ? "attached anew" : "attached";
    const char *message = budget_client_note(client)->message;
    if (verdict != BUDGET_GRANTED || message[0] == '\0') {
        return finish(args, client, verdict, why, what);
    }
    if (!args->json) {
        (void)fprintf(stderr, "budget-service: warning: %s: %s\n", args->operands[0], message);
    }
    return done(args, client, what, what, json_pack("{s:s}", "message", message));
}

static int run_attach(const cli_args *args)
{
    int exit_code = BASE_EXIT_USAGE;
    base_error why = {0};
    const char *replaces = args->options[CLI_REPLACES];
    if (!label_operand(args)) {
        return BASE_EXIT_USAGE;
    }
    if (replaces != NULL && args->options[CLI_VENDOR_ACCOUNT] != NULL) {
        return cli_error(args, BASE_EXIT_USAGE,
                         "--replaces sets an id right, and changes no account of the vendor");
    }
    budget_client *client = cli_client(args, replaces != NULL ? "admin" : "request", &exit_code);
    if (client != NULL) {
        const budget_verdict verdict =
            budget_attach(client, args->operands[0], args->options[CLI_INSTANCE_ID], replaces,
                          args->options[CLI_VENDOR_ACCOUNT], &why);
        exit_code = finish_attach(args, client, verdict, &why);
        budget_client_close(client);
    }
    return exit_code;
}

/* "0.50"; "-0.50": less than was recorded before. */
static bool read_cost(const cli_args *args, const char *text, int64_t *usd_micro)
{
    const bool less = text[0] == '-';
    if (!cli_money(args, text + (less ? 1 : 0), usd_micro)) {
        return false;
    }
    *usd_micro = less ? -*usd_micro : *usd_micro;
    return true;
}

static int run_record_actual(const cli_args *args)
{
    int exit_code = BASE_EXIT_USAGE;
    budget_actual actual = {.label = args->operands[0],
                            .line_id = args->options[CLI_LINE_ID],
                            .partial = args->options[CLI_PARTIAL] != NULL};
    void *evidence = NULL;
    base_error why = {0};
    if (!label_operand(args) || !read_cost(args, args->operands[1], &actual.usd_micro) ||
        !read_evidence(args, &evidence, &actual.evidence_bytes)) {
        return BASE_EXIT_USAGE;
    }
    actual.evidence = evidence;
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client != NULL) {
        const budget_verdict verdict = budget_record_actual(client, &actual, &why);
        exit_code = verdict == BUDGET_GRANTED ? finish_actual(args, client, actual.usd_micro)
                                              : finish(args, client, verdict, &why, "recorded");
        budget_client_close(client);
    }
    free(evidence);
    return exit_code;
}

/* What the evidence was taken for: a proof, or the word of an admin, and then why. */
static int finish_terminated(const cli_args *args, const budget_client *client)
{
    char words[BUDGET_REASON_BYTES + 64] = "terminated, proven by the driver's evidence";
    const char *why = budget_client_note(client)->message;
    if (why[0] != '\0') {
        (void)snprintf(words, sizeof words, "terminated, attested by an admin (%s)", why);
    }
    return done(args, client, "terminated", words,
                args->json ? json_pack("{s:s, s:s}", "taken_for",
                                       why[0] != '\0' ? "attested" : "proof", "message", why)
                           : NULL);
}

static int run_terminated(const cli_args *args)
{
    int exit_code = BASE_EXIT_USAGE;
    void *evidence = NULL;
    size_t evidence_bytes = 0;
    base_error why = {0};
    if (!label_operand(args) || !read_evidence(args, &evidence, &evidence_bytes)) {
        return BASE_EXIT_USAGE;
    }
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client != NULL) {
        const budget_verdict verdict =
            budget_terminated(client, args->operands[0], evidence, evidence_bytes,
                              args->options[CLI_ATTESTED] != NULL, &why);
        exit_code = verdict == BUDGET_GRANTED ? finish_terminated(args, client)
                                              : finish(args, client, verdict, &why, "terminated");
        budget_client_close(client);
    }
    free(evidence);
    return exit_code;
}

static int void_it(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    const budget_verdict verdict = budget_void(client, args->operands[0], &why);
    return finish(args, client, verdict, &why, "voided");
}

static const cli_command commands[] = {
    {.name = "attach",
     .operands = "LABEL",
     .operand_count = 1,
     .required = CLI_BIT(CLI_INSTANCE_ID),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_REPLACES) |
                 CLI_BIT(CLI_VENDOR_ACCOUNT),
     .summary = "say which instance was created for it",
     .details =
         "With --replaces an admin sets a mistyped id right. An end that was proven of another "
         "instance\nis not proven any more, unless an admin attested it or the cost is final.",
     .run = run_attach},
    {.name = "record-actual",
     .operands = "LABEL USD",
     .operand_count = 2,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_EVIDENCE) |
                 CLI_BIT(CLI_LINE_ID) | CLI_BIT(CLI_PARTIAL),
     .summary = "add to its cost: a line of the bill, or all of it",
     .details =
         "Once termination has been proven, this is the final cost, and what is left of the\n"
         "reservation returns. With --partial it does not: more may come. "
         "Where too much was\nrecorded, -0.50 takes some of it back; a run never counts "
         "less than nothing.",
     .run = run_record_actual},
    {.name = "terminated",
     .operands = "LABEL",
     .operand_count = 1,
     .required = CLI_BIT(CLI_EVIDENCE),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_ATTESTED),
     .summary = "prove that its instance is gone",
     .details = "The driver's JSON is checked field by field; any other file is kept as attested, "
                "and\nneeds an admin's key. A driver's JSON that proves no end is refused, unless "
                "an admin adds\n--attested. The answer says what the file was taken for.",
     .run = run_terminated},
    {.name = "void",
     .operands = "LABEL",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID),
     .summary = "give a reservation back whose token was never redeemed",
     .key = "request",
     .check = label_operand,
     .ask = void_it},
};
const cli_group cli_fact_group = {"Facts", commands, sizeof commands / sizeof commands[0]};
