/* The commands reconcile, export and audit. Run by the table of commands in options.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "budget/bill.h"
#include "budget/time.h"
#include "cli.h"
#include "export_text.h"
#include "offline_audit.h"

enum { BILL_AGE_S_MAX = 3600 }; /* an older bill says nothing of --as-of */

/* A bill, and what it was read as. */
typedef struct read_bill {
    budget_bill bill;
    const budget_bill_format *format; /* NULL: neither the bill nor an option says it */
    budget_charge *charges;
    int exit_code; /* if it cannot be read */
} read_bill;

/* What --format and --vendor say of the bytes, or they themselves. Nothing is assumed: a bill of
 * another vendor has none of this one's runs, and would be an all-clear. */
static base_status find_format(const cli_args *args, const void *bytes, size_t size_bytes,
                               const budget_bill_format **format, base_error *reterr)
{
    const char *name = args->options[CLI_FORMAT];
    if (name != NULL) {
        const base_status status = budget_bill_format_parse(name, format, reterr);
        return status == BASE_OK ? status : base_error_prepend(reterr, status, "--format");
    }
    *format = budget_bill_format_guess(bytes, size_bytes, args->options[CLI_VENDOR]);
    return *format != NULL
               ? BASE_OK
               : base_fail(
                     reterr, BASE_ERR_INVALID,
                     "nothing in the bill says whose it is (it has no lines, or none with "
                     "podId or instance_id): say --vendor runpod, --vendor vast, or --format. "
                     "RunPod's has podId if it is asked for with grouping=podId");
}

static base_status parse_bill(const cli_args *args, const void *bytes, size_t size_bytes,
                              read_bill *bill, base_error *reterr)
{
    base_status status = find_format(args, bytes, size_bytes, &bill->format, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_bill *sent = &bill->bill;
    sent->as_of = args->values.as_of_s;
    sent->vendor = args->options[CLI_VENDOR] != NULL ? args->options[CLI_VENDOR]
                                                     : budget_bill_format_vendor(bill->format);
    status =
        budget_bill_parse(bytes, size_bytes, bill->format, &bill->charges, &sent->count, reterr);
    sent->charges = bill->charges;
    if (status == BASE_OK && sent->count == 0 && args->options[CLI_FORMAT] == NULL &&
        args->options[CLI_VENDOR] == NULL) {
        bill->format = NULL;
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "the bill has no lines; if that is so, say --vendor or --format");
    }
    return status;
}

/* A bill says nothing of the time after its file was written, or after its newest line began: neither that
 * a run was not billed any more, nor that an hour of it is over. A bill that a cron job did not get anew
 * is refused, because its runs would settle by it. */
static base_status bound_as_of(const char *path, budget_bill *bill, base_error *reterr)
{
    struct stat file;
    char written[BUDGET_TIME_BYTES];
    if (stat(path, &file) != 0 || !S_ISREG(file.st_mode)) {
        return BASE_OK;
    }
    int64_t newest_s = file.st_mtim.tv_sec + (file.st_mtim.tv_nsec > 0);
    for (size_t i = 0; i < bill->count; i++) {
        newest_s = bill->charges[i].at_s > newest_s ? bill->charges[i].at_s : newest_s;
    }
    const int64_t now_s = budget_time_now();
    const int64_t as_of_s = bill->as_of < now_s ? bill->as_of : now_s;
    if (as_of_s - newest_s > BILL_AGE_S_MAX) {
        budget_time_format(newest_s, written);
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written at %s, and says nothing of the time after that: fetch it "
                         "again, or give --as-of %s",
                         written, written);
    }
    bill->as_of = bill->as_of < newest_s ? bill->as_of : newest_s;
    return BASE_OK;
}

/* Reads the bill's file; bill->charges is the caller's to free, also on failure. */
static base_status read_file(const cli_args *args, read_bill *bill, base_error *reterr)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    base_status status =
        base_file_read(args->options[CLI_BILL], BUDGET_BILL_BYTES_MAX, &bytes, &size_bytes, reterr);
    bill->exit_code = cli_unread(status, BASE_EXIT_ERROR);
    if (status == BASE_OK) {
        status = parse_bill(args, bytes, size_bytes, bill, reterr);
        if (status == BASE_OK) {
            status = bound_as_of(args->options[CLI_BILL], &bill->bill, reterr);
        }
        if (status != BASE_OK) {
            status = base_error_prepend(reterr, status, "%s", args->options[CLI_BILL]);
        }
    }
    free(bytes);
    return status;
}

typedef struct difference_sink {
    bool json;
    json_t *differences;
} difference_sink;

static void show_difference(void *user, const budget_difference *difference)
{
    const difference_sink *sink = user;
    if (sink->json) {
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "kind", difference->kind, "label",
                                difference->label, "instance_id", difference->instance_id,
                                "line_id", difference->line_id, "ledger_usd_micro",
                                (json_int_t)difference->ledger_usd_micro, "bill_usd_micro",
                                (json_int_t)difference->bill_usd_micro);
        if (difference->account[0] != '\0') {
            (void)json_object_set_new(row, "account", json_string(difference->account));
            (void)json_object_set_new(row, "message", json_string(difference->message));
        }
        (void)json_array_append_new(sink->differences, row);
        return;
    }
    (void)printf("%-18s %-28s %-20s %12s %12s\n", difference->kind,
                 difference->label[0] != '\0' ? difference->label : "-",
                 difference->instance_id[0] != '\0' ? difference->instance_id : "-",
                 cli_usd(difference->ledger_usd_micro), cli_usd(difference->bill_usd_micro));
    if (difference->account[0] != '\0') {
        cli_frozen(difference->account, difference->message);
    }
}

static void show_counts(const cli_args *args, const budget_reconciliation *result)
{
    (void)printf("%" PRIu64 " matched, %" PRIu64 " missing in the bill, %" PRIu64
                 " missing in the ledger, %" PRIu64 " differing, %" PRIu64 " unknown\n",
                 result->matched, result->missing_in_bill, result->missing_in_ledger,
                 result->differing, result->unknown);
    if (result->differing > 0) {
        (void)printf("%" PRIu64 " differing: a bill that says something new, and more, is posted, "
                     "because it is a fact; one of "
                     "less is not: if it is right, record-actual LABEL -USD takes the difference "
                     "off\n",
                     result->differing);
    }
    if (result->ambiguous > 0) {
        (void)printf("%" PRIu64 " ambiguous: the ledger has runs of several vendors, and an "
                     "instance alone does not say whose it is; nothing of %s is posted. Say "
                     "it with --vendor, or in a column vendor (csv) or x_Vendor (focus-csv). A "
                     "run authorized without a vendor: --vendor cloud, or its label in the "
                     "line\n",
                     result->ambiguous, result->ambiguous == 1 ? "it" : "them");
    }
    if (result->after_the_end > 0) {
        (void)printf(
            "%" PRIu64 " whose proven end is refuted: billed after it, here or on a bill "
            "before, or proven of an instance that attach --replaces has set right. It may "
            "still cost: look at the vendor's list, end it, and send new evidence: "
            "budget-service terminated LABEL --evidence FILE\n",
            result->after_the_end);
    }
    if (result->frozen > 0) {
        (void)printf("%" PRIu64 " frozen: the bill is posted; find out why it cost that much, and "
                     "acknowledge. Until then nothing is granted there\n",
                     result->frozen);
    }
    if (result->unsettled > 0) {
        (void)printf("%" PRIu64
                     " matched, ended, and not final yet: %s stays reserved. Reconcile a "
                     "bill that shows it from its beginning to its end, or one of later "
                     "(settling_hours of the policy), or say that no more comes: "
                     "budget-service record-actual LABEL 0\n",
                     result->unsettled, cli_usd(result->unsettled_usd_micro));
    }
    if (result->passed_over > 0) {
        (void)printf("%" PRIu64 " line%s passed over, so no cost is final by this bill: the period "
                     "begins after %s\n",
                     result->passed_over, result->passed_over == 1 ? "" : "s",
                     cli_time(args->values.as_of_s));
    }
}

static int show_reconciliation(const cli_args *args, const read_bill *bill,
                               const budget_reconciliation *result, json_t *differences)
{
    const bool all = result->missing_in_bill == 0 && result->missing_in_ledger == 0 &&
                     result->differing == 0 && result->unknown == 0 && result->ambiguous == 0 &&
                     result->after_the_end == 0 && result->frozen == 0;
    const int exit_code = all ? BASE_EXIT_DONE : BASE_EXIT_NOT_RECONCILED;
    if (!args->json) {
        show_counts(args, result);
        return exit_code;
    }
    (void)cli_object(json_pack(
        "{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:O}", "format",
        budget_bill_format_name(bill->format), "vendor", bill->bill.vendor, "matched",
        (json_int_t)result->matched, "missing_in_bill", (json_int_t)result->missing_in_bill,
        "missing_in_ledger", (json_int_t)result->missing_in_ledger, "differing",
        (json_int_t)result->differing, "unknown", (json_int_t)result->unknown, "ambiguous",
        (json_int_t)result->ambiguous, "after_the_end", (json_int_t)result->after_the_end, "frozen",
        (json_int_t)result->frozen, "passed_over", (json_int_t)result->passed_over, "unsettled",
        (json_int_t)result->unsettled, "unsettled_usd_micro",
        (json_int_t)result->unsettled_usd_micro, "reconciled", all, "differences", differences));
    return exit_code;
}

static void show_head(const cli_args *args, const read_bill *bill)
{
    const char *vendor = bill->bill.vendor;
    (void)printf("%s: %zu line%s, read as %s, of %s%s\n", args->options[CLI_BILL], bill->bill.count,
                 bill->bill.count == 1 ? "" : "s", budget_bill_format_name(bill->format),
                 vendor != NULL ? "vendor " : "any vendor", vendor != NULL ? vendor : "");
    (void)printf("%-18s %-28s %-20s %12s %12s\n", "", "label", "instance", "ledger", "bill");
}

static int send_bill(const cli_args *args, const read_bill *bill)
{
    int exit_code = BASE_EXIT_ERROR;
    budget_reconciliation result = {0};
    base_error why = {0};
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client == NULL) {
        return exit_code;
    }
    difference_sink sink = {.json = args->json, .differences = json_array()};
    if (!args->json) {
        show_head(args, bill);
    }
    const budget_verdict verdict =
        budget_reconcile(client, &bill->bill, show_difference, &sink, &result, &why);
    exit_code = verdict == BUDGET_GRANTED
                    ? show_reconciliation(args, bill, &result, sink.differences)
                    : cli_refused(args, client, verdict, &why, NULL);
    json_decref(sink.differences);
    budget_client_close(client);
    return exit_code;
}

static int run_reconcile(const cli_args *args)
{
    read_bill bill = {0};
    base_error error = {0};
    int exit_code = BASE_EXIT_DONE;
    const base_status status = read_file(args, &bill, &error);
    if (status == BASE_OK) {
        exit_code = send_bill(args, &bill);
    } else if (status == BASE_ERR_INVALID &&
               bill.format == NULL) { /* an option is missing, or wrong */
        exit_code = cli_error(args, BASE_EXIT_USAGE, "%s", error.message);
    } else {
        exit_code = cli_error(args, bill.exit_code, "%s", error.message);
    }
    free(bill.charges);
    return exit_code;
}

/* Gathers the export's text, so that --json and --out get it whole. */
static int finish_export(const cli_args *args, const char *format, const char *text)
{
    base_error error = {0};
    const char *out = args->options[CLI_OUT];
    if (out != NULL && base_file_write(out, text, strlen(text), &error) != BASE_OK) {
        return cli_status(args, &error);
    }
    if (args->json) {
        return cli_object(out != NULL ? json_pack("{s:s, s:s}", "format", format, "out", out)
                                      : json_pack("{s:s, s:s}", "format", format, "text", text));
    }
    if (out == NULL) {
        (void)fputs(text, stdout);
    }
    return fflush(stdout) == 0 ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}

static int run_export(const cli_args *args)
{
    int exit_code = BASE_EXIT_USAGE;
    export_format format;
    char *text = NULL;
    base_error why = {0};
    if (!export_format_parse(args->options[CLI_FORMAT], &format)) {
        return cli_error(args, BASE_EXIT_USAGE, "--format: jsonl, hledger or markdown");
    }
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client == NULL) {
        return exit_code;
    }
    const budget_verdict verdict = export_text(client, format, &text, &why);
    exit_code = verdict == BUDGET_GRANTED ? finish_export(args, args->options[CLI_FORMAT], text)
                                          : cli_refused(args, client, verdict, &why, NULL);
    free(text);
    budget_client_close(client);
    return exit_code;
}

static void show_audit_json(const budget_audit_report *result)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < budget_audit_report_kept(result); i++) {
        (void)json_array_append_new(findings, json_string(result->findings[i]));
    }
    (void)cli_object(json_pack("{s:b, s:I, s:I, s:s, s:I, s:o, s:s}", "good", result->good, "rows",
                               (json_int_t)result->rows, "bad_sequence",
                               (json_int_t)result->bad_sequence, "finding", result->findings[0],
                               "finding_count", (json_int_t)result->finding_count, "findings",
                               findings, "digest", result->digest));
}

static void show_findings(const budget_audit_report *result)
{
    if (result->bad_sequence != 0) {
        (void)printf("BAD from row %" PRIu64 " on: %s\n", result->bad_sequence,
                     result->findings[0]);
    } else {
        (void)printf("BAD: %s\n", result->findings[0]);
    }
    const size_t kept = budget_audit_report_kept(result);
    for (size_t i = 1; i < kept; i++) {
        (void)printf("     %s\n", result->findings[i]);
    }
    if (result->finding_count > kept) {
        (void)printf("     and %" PRIu64 " more\n", result->finding_count - kept);
    }
    if (result->digest[0] != '\0') {
        (void)printf("to accept exactly this: budget-service serve --accept-audit %s\n",
                     result->digest);
    }
}

static int show_audit(const cli_args *args, const budget_audit_report *result)
{
    if (args->json) {
        show_audit_json(result);
    } else if (result->good) {
        (void)printf("good: %" PRIu64 " rows\n", result->rows);
    } else {
        show_findings(result);
    }
    return result->good ? BASE_EXIT_DONE : BASE_EXIT_NEEDS_ATTENTION;
}

/* The service's own audit while it runs; else, where the directory is ours, one of a copy. */
static int run_audit(const cli_args *args)
{
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    budget_audit_report result = {0};
    base_error why = {0};
    if (!cli_dir(args, dir, &exit_code)) {
        return exit_code;
    }
    const char *checkpoint = args->options[CLI_CHECKPOINT];
    if (checkpoint != NULL && access(checkpoint, R_OK) != 0) {
        return cli_error(args, BASE_EXIT_USAGE, "--checkpoint: cannot open %s: %s", checkpoint,
                         strerror(errno));
    }
    const base_status status = offline_audit(dir, checkpoint, &result, &why);
    if (status == BASE_OK) {
        return show_audit(args, &result);
    }
    if (status == BASE_ERR_BUSY && checkpoint != NULL) {
        return cli_error(args, BASE_EXIT_ERROR,
                         "--checkpoint: the service runs; stop it first, or audit a copy of %s",
                         dir);
    }
    if ((status != BASE_ERR_BUSY && status != BASE_ERR_NOTFOUND) || checkpoint != NULL) {
        return cli_status(args, &why);
    }
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client == NULL) {
        return exit_code;
    }
    why = (base_error){0};
    const budget_verdict verdict = budget_audit(client, &result, &why);
    exit_code = verdict == BUDGET_GRANTED ? show_audit(args, &result)
                                          : cli_refused(args, client, verdict, &why, NULL);
    budget_client_close(client);
    return exit_code;
}

static const cli_command commands[] = {
    {.name = "reconcile",
     .operands = "",
     .required = CLI_BIT(CLI_BILL) | CLI_BIT(CLI_AS_OF),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_FORMAT) | CLI_BIT(CLI_VENDOR),
     .summary = "compare the vendor's bill with the ledger; exit 7 unless all matches",
     .details = "Formats: runpod-json, vast-json, focus-csv, csv. If none is given, the bill must "
                "say it: by podId,\ninstance_id or its columns. --vendor: whose bill it is; "
                "runpod-json and vast-json say it\nthemselves. Only its authorizations are "
                "expected on the bill (default: all but local ones).\nRun it again if the answer "
                "is lost: a line is recorded once.",
     .run = run_reconcile},
    {.name = "export",
     .operands = "",
     .required = CLI_BIT(CLI_FORMAT),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_OUT),
     .summary = "the ledger as jsonl, hledger or markdown",
     .details = "jsonl: a line for each authorization, cost, end and void. hledger: a journal of "
                "what was posted. markdown: the "
                "phase's budget page.",
     .run = run_export},
    {.name = "audit",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_CHECKPOINT),
     .summary = "walk the whole ledger again; names the first bad row (exit 8)",
     .details =
         "While the service runs, it does that itself and goes on. Else a copy of the ledger is "
         "audited;\nwith --checkpoint also against a copy of the directory's checkpoints that was "
         "kept elsewhere.",
     .run = run_audit},
};
const cli_group cli_report_group = {"Reports", commands, sizeof commands / sizeof commands[0]};
