/* The commands attach, record-actual, terminated and void. Run by the table of commands in
 * options.c. */
#include <stdlib.h>

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

/* Says that it is done, as text or as {"label":…,"done":…}. */
static int done(const cli_args *args, const char *what)
{
    if (args->json) {
        return cli_object(json_pack("{s:s, s:s}", "label", args->operands[0], "done", what));
    }
    (void)printf("%s: %s\n", args->operands[0], what);
    return BASE_EXIT_DONE;
}

/* The account that this has frozen, on standard error, or as "frozen" and "message". */
static int finish_actual(const cli_args *args, const budget_client *client)
{
    const budget_note *note = budget_client_note(client);
    if (note->account[0] == '\0') {
        return done(args, "recorded");
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:s, s:s, s:s}", "label", args->operands[0], "done",
                                    "recorded", "frozen", note->account, "message", note->message));
    }
    (void)done(args, "recorded");
    cli_frozen(note->account, note->message);
    return BASE_EXIT_DONE;
}

static int finish(const cli_args *args, budget_client *client, budget_verdict verdict,
                  const base_error *why, const char *what)
{
    return verdict == BUDGET_GRANTED
               ? done(args, what)
               : cli_refused(args, client, verdict, why,
                             args->json ? json_pack("{s:s}", "label", args->operands[0]) : NULL);
}

static int run_attach(const cli_args *args)
{
    int exit_code = BASE_EXIT_USAGE;
    base_error why = {0};
    const char *replaces = args->options[CLI_REPLACES];
    if (!label_operand(args)) {
        return BASE_EXIT_USAGE;
    }
    budget_client *client = cli_client(args, replaces != NULL ? "admin" : "request", &exit_code);
    if (client != NULL) {
        const budget_verdict verdict = budget_attach(
            client, args->operands[0], args->options[CLI_INSTANCE_ID], replaces, &why);
        exit_code =
            finish(args, client, verdict, &why, replaces != NULL ? "attached anew" : "attached");
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
        exit_code = verdict == BUDGET_GRANTED ? finish_actual(args, client)
                                              : finish(args, client, verdict, &why, "recorded");
        budget_client_close(client);
    }
    free(evidence);
    return exit_code;
}

/* What the evidence was taken for: a proof, or the word of an admin, and then why. */
static int finish_terminated(const cli_args *args, const budget_client *client)
{
    const char *why = budget_client_note(client)->message;
    const char *taken_for = why[0] != '\0' ? "attested" : "proof";
    if (args->json) {
        return cli_object(json_pack("{s:s, s:s, s:s, s:s}", "label", args->operands[0], "done",
                                    "terminated", "taken_for", taken_for, "message", why));
    }
    if (why[0] != '\0') {
        (void)printf("%s: terminated, attested by an admin (%s)\n", args->operands[0], why);
    } else {
        (void)printf("%s: terminated, proven by the driver's evidence\n", args->operands[0]);
    }
    return BASE_EXIT_DONE;
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
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_REPLACES),
     .summary = "say which instance was created for it",
     .details = "With --replaces an admin sets a mistyped id right. An end that was proven is not "
                "proven then,\nbecause the proof was of another instance, unless an admin attested "
                "it or the cost is final.",
     .run = run_attach},
    {.name = "record-actual",
     .operands = "LABEL USD",
     .operand_count = 2,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_EVIDENCE) |
                 CLI_BIT(CLI_LINE_ID) | CLI_BIT(CLI_PARTIAL),
     .summary = "record what it cost: a line of the bill",
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
