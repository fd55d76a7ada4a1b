/* Raises alarms of what a bill has found that costs money. Called by reconcile.c. */
#include "bill_alarm.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "budget/codings.h"
#include "budget/money.h"
#include "service.h"

enum { NAMES_SHOWN_BYTES = 512, LINE_BYTES = 1024 };

/* A frozen account has an alarm of its own (usage.c), and its sums are no bill's. */
static bool costs(const budget_finding *finding)
{
    switch (finding->kind) {
    case BUDGET_FINDING_MISSING_IN_LEDGER:
    case BUDGET_FINDING_DIFFERING:
    case BUDGET_FINDING_UNKNOWN:
    case BUDGET_FINDING_AMBIGUOUS:
        return finding->bill_usd_micro > finding->ledger_usd_micro;
    case BUDGET_FINDING_AFTER_THE_END: /* what is recorded already was charged all the same */
        return finding->bill_usd_micro > 0 && !finding->known;
    case BUDGET_FINDING_MATCHED:
    case BUDGET_FINDING_MISSING_IN_BILL:
    case BUDGET_FINDING_FROZEN:
    case BUDGET_FINDING_COUNT_:
        break;
    }
    return false;
}

/* A bill's label is any text, until a run has it. */
static void add_name(service_bill_names *names, const char *text)
{
    bool known = text[0] == '\0' || !budget_text_ok(text, BUDGET_LABEL_BYTES);
    for (size_t i = 0; i < names->count && !known; i++) {
        known = strcmp(names->texts[i], text) == 0;
    }
    if (!known && names->count < SERVICE_BILL_NAMES_MAX) {
        (void)snprintf(names->texts[names->count++], BUDGET_LABEL_BYTES, "%s", text);
    }
}

/* A sum that leaves what money may be stays at its limit: it is for a person to read. */
static void add_money(int64_t *sum, int64_t micro)
{
    if (!budget_money_add(*sum, micro, sum) || *sum > BUDGET_MONEY_MICRO_MAX) {
        *sum = BUDGET_MONEY_MICRO_MAX;
    }
}

void service_bill_note(service_bill_sums *sums, const budget_finding *finding)
{
    if (!costs(finding)) {
        return;
    }
    service_bill_sum *sum = &sums->kinds[finding->kind];
    sum->count++;
    sum->posted_count += finding->posted;
    add_money(&sum->bill_usd_micro, finding->bill_usd_micro);
    add_money(&sum->ledger_usd_micro, finding->ledger_usd_micro);
    add_name(&sum->labels, finding->label);
    add_name(&sum->instances, finding->instance_id);
}

static const char *what_to_do_about_more(const service_bill_sum *sum)
{
    if (sum->posted_count == sum->count) {
        return "that is more than the ledger had: find out why. The bill is posted";
    }
    return sum->posted_count == 0
               ? "that is more than the ledger had, and nothing of it is posted: find out why"
               : "that is more than the ledger had, and not all of it is posted: find out why";
}

static const char *what_to_do(budget_finding_kind kind, const service_bill_sum *sum)
{
    switch (kind) {
    case BUDGET_FINDING_MISSING_IN_LEDGER:
        return "the ledger knows no such run: somebody created it without a token. End it at the "
               "vendor, and find out who";
    case BUDGET_FINDING_DIFFERING:
        return what_to_do_about_more(sum);
    case BUDGET_FINDING_AFTER_THE_END:
        return "that is for a time after the proven end: look at the vendor's list, end the "
               "instance, then: budget-service terminated LABEL --evidence FILE";
    case BUDGET_FINDING_AMBIGUOUS:
        return "nothing says whose bill it is, so nothing of that is posted: reconcile with "
               "--vendor";
    case BUDGET_FINDING_UNKNOWN:
        return "those lines name neither a run nor an instance, so nothing of them is posted: look "
               "at the vendor's list";
    case BUDGET_FINDING_MATCHED:
    case BUDGET_FINDING_MISSING_IN_BILL:
    case BUDGET_FINDING_FROZEN:
    case BUDGET_FINDING_COUNT_:
        break;
    }
    return "look at it";
}

static void list_names(const service_bill_names *names, char text[NAMES_SHOWN_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (used + strlen(names->texts[i]) + sizeof ", ..." > NAMES_SHOWN_BYTES) {
            (void)snprintf(text + used, NAMES_SHOWN_BYTES - used, "...");
            return;
        }
        used += (size_t)snprintf(text + used, NAMES_SHOWN_BYTES - used, "%s%s", i > 0 ? ", " : "",
                                 names->texts[i]);
    }
}

static json_t *names_json(const service_bill_names *names)
{
    json_t *list = json_array();
    for (size_t i = 0; i < names->count; i++) {
        (void)json_array_append_new(list, json_string(names->texts[i]));
    }
    return list;
}

static void raise_one(budget_service *service, budget_finding_kind kind,
                      const service_bill_sum *sum, const char *vendor)
{
    char money[BUDGET_MONEY_BYTES];
    char names[NAMES_SHOWN_BYTES];
    char line[LINE_BYTES];
    const bool of_run = kind == BUDGET_FINDING_DIFFERING || kind == BUDGET_FINDING_AFTER_THE_END;
    budget_money_show(sum->bill_usd_micro, money);
    list_names(of_run || sum->instances.count == 0 ? &sum->labels : &sum->instances, names);
    json_t *alarm =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "event", "bill-finding", "finding",
                  budget_finding_name(kind), "vendor", vendor, "count", (json_int_t)sum->count,
                  "bill_usd_micro", (json_int_t)sum->bill_usd_micro, "ledger_usd_micro",
                  (json_int_t)sum->ledger_usd_micro, "labels", names_json(&sum->labels),
                  "instances", names_json(&sum->instances));
    (void)snprintf(line, sizeof line, "a bill%s%s has %s%s%s: %s", vendor[0] != '\0' ? " of " : "",
                   vendor, money, names[0] != '\0' ? " for " : "", names, what_to_do(kind, sum));
    service_unheard_add(service, alarm, line);
}

void service_bill_alarm(budget_service *service, const service_bill_sums *sums, const char *vendor)
{
    const bool named = vendor != NULL && budget_word_ok(vendor, BUDGET_NAME_BYTES);
    for (int i = 0; i < BUDGET_FINDING_COUNT_; i++) {
        if (sums->kinds[i].count > 0) {
            raise_one(service, (budget_finding_kind)i, &sums->kinds[i], named ? vendor : "");
        }
    }
}
