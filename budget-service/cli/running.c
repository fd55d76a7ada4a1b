/* The command running: which instances may still be billed. Run by the table of commands in options.c;
 * entries as text and JSON for reading.c too. */
#include <inttypes.h>
#include <stdlib.h>

#include "budget/time.h"
#include "cli.h"
#include "entry.h"

enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 24 * 3600, CENT = 10000, SPAN_BYTES = 48 };

/* "43 min", "2 h 5 min", "3 days"; without a sign. Returns text. */
static const char *span_text(int64_t seconds, char text[SPAN_BYTES])
{
    const int64_t span = seconds < 0 ? -seconds : seconds;
    if (span < MINUTE_S) {
        (void)snprintf(text, SPAN_BYTES, "%" PRId64 " s", span);
    } else if (span < HOUR_S) {
        (void)snprintf(text, SPAN_BYTES, "%" PRId64 " min", span / MINUTE_S);
    } else if (span < 2 * DAY_S) {
        (void)snprintf(text, SPAN_BYTES, "%" PRId64 " h %" PRId64 " min", span / HOUR_S,
                       span % HOUR_S / MINUTE_S);
    } else {
        (void)snprintf(text, SPAN_BYTES, "%" PRId64 " days", span / DAY_S);
    }
    return text;
}

void entry_put_instances(const budget_entry *entry, FILE *stream)
{
    const int64_t count = (int64_t)entry->instance_ids.count;
    for (int64_t i = 0; i < count; i++) {
        (void)fprintf(stream, "%s%s", i > 0 ? " " : "", entry->instance_ids.texts[i]);
    }
    if (count < entry->instances) {
        (void)fprintf(stream, "%s(%" PRId64 " of %" PRId64 " attached)", count > 0 ? " " : "",
                      count, entry->instances);
    }
}

json_t *entry_json(const budget_entry *entry)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < entry->instance_ids.count; i++) {
        (void)json_array_append_new(ids, json_string(entry->instance_ids.texts[i]));
    }
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:b, s:s, s:s, "
        "s:b, s:s}",
        "label", entry->label, "account", entry->account, "jti", entry->jti, "state", entry->state,
        "authorized_usd_micro", (json_int_t)entry->authorized_usd_micro, "reserved_usd_micro",
        (json_int_t)entry->reserved_usd_micro, "mode", entry->mode, "vendor", entry->vendor,
        "vendor_account", entry->vendor_account, "instance_type", entry->instance_type,
        "instance_id", entry->instance_id, "instance_ids", ids, "instances",
        (json_int_t)entry->instances, "max_price_usd_micro_per_hour",
        (json_int_t)entry->max_price_usd_micro_per_hour, "price_derived", entry->price_derived,
        "client", entry->client, "evidence", entry->evidence, "attested", entry->attested,
        "authorized_at", cli_time(entry->authorized_at));
    const struct {
        const char *name;
        int64_t time_s;
    } times[] = {{"redeemed_at", entry->redeemed_at},
                 {"began_at", entry->began_at},
                 {"deadline", entry->deadline},
                 {"terminated_at", entry->terminated_at}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        (void)json_object_set_new(object, times[i].name,
                                  times[i].time_s != 0 ? json_string(cli_time(times[i].time_s))
                                                       : json_null());
    }
    /* an unknown cost is unknown, never zero */
    (void)json_object_set_new(object, "actual_usd_micro",
                              entry->actual_known ? json_integer(entry->actual_usd_micro)
                                                  : json_null());
    if (entry->credit_usd_micro != 0) {
        (void)json_object_set_new(object, "credit_usd_micro",
                                  json_integer(entry->credit_usd_micro));
    }
    return object;
}

/* ---- running ---- */

typedef struct running_sink {
    json_t *entries; /* NULL: text */
    long count;
    long past; /* of them past their deadline */
} running_sink;

/* What the instances of a run may have cost by now: price × time × instances. Negative: not known. */
static int64_t estimate(const budget_entry *entry, int64_t now_s)
{
    int64_t micro = 0;
    const int64_t seconds = now_s > entry->began_at ? now_s - entry->began_at : 0;
    return entry->began_at != 0 && entry->max_price_usd_micro_per_hour > 0 &&
                   budget_money_cost(entry->max_price_usd_micro_per_hour, entry->instances, seconds,
                                     &micro)
               ? micro
               : -1;
}

static void put_deadline(const budget_entry *entry, int64_t now_s)
{
    char span[SPAN_BYTES];
    if (entry->deadline == 0) {
        (void)printf("no deadline");
    } else if (now_s < entry->deadline) {
        (void)printf("until %s, in %s", cli_time(entry->deadline),
                     span_text(entry->deadline - now_s, span));
    } else {
        (void)printf("until %s, PAST by %s", cli_time(entry->deadline),
                     span_text(now_s - entry->deadline, span));
    }
}

static void show_running(void *user, const budget_entry *entry)
{
    running_sink *sink = user;
    const int64_t now_s = entry->read_at != 0 ? entry->read_at : budget_time_now();
    const int64_t micro = estimate(entry, now_s);
    sink->count++;
    sink->past += entry->deadline != 0 && now_s >= entry->deadline;
    if (sink->entries != NULL) {
        json_t *object = entry_json(entry);
        (void)json_object_set_new(object, "left_seconds",
                                  entry->deadline != 0 ? json_integer(entry->deadline - now_s)
                                                       : json_null());
        (void)json_object_set_new(object, "estimated_usd_micro",
                                  micro >= 0 ? json_integer(micro) : json_null());
        (void)json_array_append_new(sink->entries, object);
        return;
    }
    (void)printf("%s  %s  %s: ", entry->label, entry->account, entry->vendor);
    entry_put_instances(entry, stdout);
    (void)printf("; since %s, ", cli_time(entry->began_at));
    put_deadline(entry, now_s);
    if (micro >= 0) {
        (void)printf("; about %s by now, at %s/h%s\n", cli_usd((micro + CENT / 2) / CENT * CENT),
                     cli_usd(entry->max_price_usd_micro_per_hour),
                     entry->price_derived ? ", which is what the amount pays for and no quote"
                                          : "");
    } else {
        (void)printf("; cost by now unknown\n");
    }
}

static int running(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    running_sink sink = {.entries = args->json ? json_array() : NULL};
    const budget_selection selection = {.account = args->options[CLI_ACCOUNT], .running = true};
    const budget_verdict verdict = budget_list(client, &selection, show_running, &sink, &why);
    int exit_code = cli_list(args, client, verdict, &why, "running", sink.entries);
    if (exit_code != BASE_EXIT_DONE) {
        return exit_code;
    }
    if (!args->json && sink.count == 0) {
        (void)printf("nothing runs that may be billed\n");
    } else if (!args->json) {
        (void)printf(
            "%ld may still be billed, %ld past the deadline. Costs are estimates: price × "
            "time × instances. To end one: budget-service end LABEL; or at the vendor, then: "
            "budget-service terminated LABEL --evidence FILE\n",
            sink.count, sink.past);
    }
    return sink.count > 0 && args->options[CLI_CHECK] != NULL ? BASE_EXIT_NEEDS_ATTENTION
                                                              : BASE_EXIT_DONE;
}

static const cli_command commands[] = {
    {.name = "running",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_ACCOUNT) | CLI_BIT(CLI_CHECK),
     .summary = "instances that may still be billed",
     .details =
         "Of each run: label, account, vendor, instances, since when, until when, and what it "
         "may have cost by now.\nWith --check the exit code is 8 if there is one.",
     .key = "request",
     .ask = running},
};
const cli_group cli_running_group = {"Running", commands, sizeof commands / sizeof commands[0]};
