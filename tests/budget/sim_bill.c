/* Bills and persons of the simulation. In an honest story the vendors charge in lines that come to
 * what was reserved at most, some as late as their settling time. Every bill has all of a run's so far,
 * the last of them perhaps grown, or those since some time, until the run has settled. In the others
 * lines change, come again, are credits of any size and for any time, and name the wrong vendor. Lines
 * name their run, or only its instance, which another run has at the other vendor. */
#include <stdio.h>
#include <string.h>

#include "budget/reconcile.h"
#include "sim_disk.h"
#include "sim_story.h"

enum { BILL_LINES_MAX = SIM_RUNS * SIM_LINES };

/* Lines of even numbers have their id in each run, and always name the instance; those of odd
 * numbers have one of their own at the vendor. The other vendor has all of these ids too. */
static void name_line(sim *self, sim_line *line)
{
    const int instance = sim_instance_of(line->run);
    line->placed = line->number % 2 == 0 || !line->labelled || sim_pick(self, 2) == 0;
    if (line->number % 2 == 0) {
        (void)snprintf(line->id, sizeof line->id, "%d", line->number);
    } else {
        (void)snprintf(line->id, sizeof line->id, "%d.%d", instance, line->number);
    }
}

/* Another line, of an honest vendor, or more on its last one, whose hour goes on: what all come to
 * is from 0 to what was reserved. */
static void charge(sim *self, int number)
{
    int64_t sum = 0;
    sim_run *run = &self->model.runs[number];
    const int64_t settled_ms = run->ended_ms + 1000 * sim_vendors[sim_vendor_of(number)].settling_s;
    for (int i = 0; i < run->true_count; i++) {
        sum += run->true_lines[i];
    }
    if (run->terminated && sim_now_ms(self) >= settled_ms) {
        run->true_complete = true;
    }
    if (run->deadline_ms == 0 || run->true_complete || run->true_count == SIM_LINES) {
        return;
    }
    const int64_t left = sum >= 0 ? run->amount - sum : run->amount;
    if (run->true_count > 0 && run->true_lines[run->true_count - 1] > 0 && sim_pick(self, 3) == 0) {
        run->true_lines[run->true_count - 1] += (int64_t)sim_pick(self, (uint32_t)left + 1);
        return;
    }
    /* The ledger knows no credit of an instance that nobody attached, but more of another one. */
    const bool credit = sim_pick(self, 5) == 0 && sim_instances(number) == 1;
    const int64_t latest_ms = run->terminated ? run->ended_ms : sim_now_ms(self);
    const bool first = run->true_count == 0 ||
                       sim_which(number, run->true_count) != sim_which(number, run->true_count - 1);
    run->true_at_s[run->true_count] = first ? sim_start_s(run) : latest_ms / 1000;
    run->true_lines[run->true_count++] =
        credit ? -(int64_t)sim_pick(self, (uint32_t)sum + 1)
               : (sim_pick(self, 3) == 0 ? left : (int64_t)sim_pick(self, (uint32_t)left + 1));
    run->true_complete = run->terminated && !credit && sim_pick(self, 2) == 0;
}

/* What a bill tells about vendors. */
typedef struct bill_kind {
    int vendor;        /* whose bill it is; SIM_NO_VENDOR: it does not say */
    bool lines_say_it; /* its lines do, and it is of both */
} bill_kind;

/* Since when an honest bill has the lines of a run. A person reconciles from the beginning what has
 * settled: then no later bill is needed. */
static int64_t begin_of_bill(sim *self, int number)
{
    const sim_run *run = &self->model.runs[number];
    const int64_t settled_ms = run->ended_ms + 1000 * sim_vendors[sim_vendor_of(number)].settling_s;
    const bool settled = run->terminated && sim_now_ms(self) >= settled_ms;
    return settled || sim_pick(self, 3) != 0 || run->true_count == 0
               ? 0
               : run->true_at_s[sim_pick(self, (uint32_t)run->true_count)];
}

/* Of the lines of its instance. */
static bool is_last(int run, int number, int count)
{
    bool last = true;
    for (int k = number + 1; k < count; k++) {
        last = last && sim_which(run, k) != sim_which(run, number);
    }
    return last;
}

/* In half of the pods vendors know no labels, whoever's they are. */
static int honest_lines(sim *self, bill_kind kind, sim_line lines[BILL_LINES_MAX])
{
    int count = 0;
    for (int i = 0; i < SIM_RUNS; i++) {
        sim_run *run = &self->model.runs[i];
        if (kind.vendor != SIM_NO_VENDOR && kind.vendor != sim_vendor_of(i)) {
            continue;
        }
        if (sim_pick(self, 4) == 0) {
            charge(self, i);
        }
        const int64_t since_s = begin_of_bill(self, i);
        for (int k = 0; k < run->true_count; k++) {
            const bool last = run->true_complete && is_last(i, k, run->true_count);
            if (run->true_at_s[k] < since_s) {
                continue;
            }
            lines[count] = (sim_line){.run = i, .number = k, .amount = run->true_lines[k]};
            lines[count].at_s = run->true_at_s[k];
            lines[count].until_s = last ? (run->ended_ms + 999) / 1000 : 0;
            lines[count].labelled = sim_instance_of(i) % 2 != 0;
            lines[count].vendor = kind.lines_say_it ? sim_vendor_of(i) : kind.vendor;
            name_line(self, &lines[count++]);
        }
    }
    return count;
}

/* Is a line of it, or of the other vendor's run with its instance, on a bill that may confuse the
 * two? */
static bool is_on(const sim_line *lines, int count, bool confused, int run, int number)
{
    for (int i = 0; i < count; i++) {
        if ((lines[i].run == run && lines[i].number == number) ||
            (confused && lines[i].run != run &&
             sim_instance_of(lines[i].run) == sim_instance_of(run))) {
            return true;
        }
    }
    return false;
}

static int any_lines(sim *self, bill_kind kind, sim_line lines[BILL_LINES_MAX])
{
    int count = 0;
    const int64_t now_s = sim_now_ms(self) / 1000;
    for (int n = 1 + (int)sim_pick(self, 3); n > 0; n--) {
        const int run = sim_pick_run(self);
        const sim_run *found = &self->model.runs[run];
        for (int k = 0; k < SIM_LINES; k++) {
            const int64_t amounts[] = {found->amount / 4,  10000,   found->by_hand, 4100000,
                                       -found->amount / 5, -9000000};
            if (is_on(lines, count, !kind.lines_say_it, run, k) || sim_pick(self, 3) != 0) {
                continue;
            }
            lines[count] = (sim_line){.run = run, .number = k, .labelled = sim_pick(self, 3) != 0};
            lines[count].vendor = kind.lines_say_it ? sim_vendor_of(run) : kind.vendor;
            lines[count].amount = found->known[k] && sim_pick(self, 8) != 0
                                      ? found->billed[k]
                                      : amounts[sim_pick(self, sim_pick(self, 4) == 0 ? 6 : 3)];
            lines[count].at_s = now_s - (int64_t)sim_pick(self, sim_pick(self, 3) == 0 ? 60 : 4000);
            lines[count].until_s =
                sim_pick(self, 2) == 0 ? 0 : lines[count].at_s + (int64_t)sim_pick(self, 4000);
            name_line(self, &lines[count++]);
        }
    }
    return count;
}

static budget_charge charge_of(const sim_line *line, bool lines_say_it)
{
    budget_charge made = {.usd_micro = line->amount, .at_s = line->at_s, .until_s = line->until_s};
    (void)snprintf(made.line_id, sizeof made.line_id, "%s", line->id);
    if (line->labelled) {
        (void)snprintf(made.label, sizeof made.label, "run-%d", line->run);
    }
    if (line->placed) {
        sim_name_instance(line->run, sim_which(line->run, line->number), made.instance_id);
    }
    if (lines_say_it) {
        (void)snprintf(made.vendor, sizeof made.vendor, "%s", sim_vendors[line->vendor].name);
    }
    return made;
}

/* A bill of an honest vendor agreed. Then what it has charged is posted, to the last micro-dollar, of each
 * run of which no charge is left that neither this bill has nor one before had. */
static bool bill_is_posted(sim *self, const sim_line *lines, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t due = 0;
        bool shown = true;
        const sim_run *run = &self->model.runs[lines[i].run];
        for (int k = 0; k < run->true_count; k++) {
            due += run->true_lines[k];
            shown = shown && (is_on(lines, count, false, lines[i].run, k) ||
                              (run->known[k] && run->billed[k] == run->true_lines[k]));
        }
        if (shown && sim_total(run) != due) {
            return sim_broken(self, "run-%d is billed %lld, and %lld are posted", lines[i].run,
                              (long long)due, (long long)sim_total(run));
        }
    }
    return true;
}

bool sim_bill(sim *self)
{
    sim_line lines[BILL_LINES_MAX];
    budget_charge charges[BILL_LINES_MAX];
    budget_reconciled result;
    const int64_t now_s = sim_now_ms(self) / 1000;
    const uint32_t pick = sim_pick(self, 6);
    const bill_kind kind = {.vendor = pick < SIM_VENDORS ? (int)pick : SIM_NO_VENDOR,
                            .lines_say_it = pick < 4 && pick >= SIM_VENDORS};
    const int count = self->honest ? honest_lines(self, kind, lines) : any_lines(self, kind, lines);
    const int64_t as_of_s =
        sim_pick(self, 3) != 0 ? now_s : now_s - 2000 + (int64_t)sim_pick(self, 100000);
    for (int i = 0; i < count; i++) {
        charges[i] = charge_of(&lines[i], kind.lines_say_it);
    }
    const budget_reconcile_options options = {
        .as_of_s = as_of_s,
        .vendor = kind.vendor != SIM_NO_VENDOR ? sim_vendors[kind.vendor].name : NULL,
        .policy = self->policy,
        .charges = charges,
        .count = (size_t)count,
    };
    const sim_counts counts = sim_reconcile(&self->model, lines, count, as_of_s, sim_now_ms(self));
    if (budget_reconcile_run(self->ledger, NULL, &options, &result, &self->error) != BASE_OK) {
        return sim_disk_stopped() || sim_broken(self, "reconcile: %s", self->error.message);
    }
    const sim_counts got = {
        .matched = (int)result.counts[BUDGET_FINDING_MATCHED],
        .differing = (int)result.counts[BUDGET_FINDING_DIFFERING],
        .strays = (int)result.counts[BUDGET_FINDING_MISSING_IN_LEDGER],
        .ambiguous = (int)result.counts[BUDGET_FINDING_AMBIGUOUS],
        .after_the_end = (int)result.counts[BUDGET_FINDING_AFTER_THE_END],
        .passed_over = (int)result.passed_over,
        .recorded = (int)result.recorded,
    };
    if (memcmp(&got, &counts, sizeof got) != 0) {
        return sim_broken(
            self,
            "reconcile: %d matched, %d differing, %d strays, %d ambiguous, %d after "
            "the end, %d passed over, %d recorded; the model says %d, %d, %d, %d, %d, "
            "%d and %d",
            got.matched, got.differing, got.strays, got.ambiguous, got.after_the_end,
            got.passed_over, got.recorded, counts.matched, counts.differing, counts.strays,
            counts.ambiguous, counts.after_the_end, counts.passed_over, counts.recorded);
    }
    return !self->honest ||
           counts.differing + counts.strays + counts.ambiguous + counts.passed_over > 0 ||
           bill_is_posted(self, lines, count);
}

/* What the vendor shows that is not recorded yet; final when it will show no more. */
static bool honest_person(sim *self, int run, budget_ledger_actual *actual)
{
    sim_run *found = &self->model.runs[run];
    int64_t due = -sim_total(found);
    charge(self, run);
    for (int i = 0; i < found->true_count; i++) {
        due += found->true_lines[i];
    }
    actual->usd_micro = due;
    actual->final = found->true_complete;
    return due >= 0;
}

bool sim_person(sim *self, int run)
{
    char label[32];
    budget_answer answer;
    (void)snprintf(label, sizeof label, "run-%d", run);
    const int64_t amounts[] = {0, 10000, self->model.runs[run].amount / 2, 4100000, -700000};
    budget_ledger_actual actual = {
        .label = label, .usd_micro = amounts[sim_pick(self, 5)], .final = sim_pick(self, 2) == 0};
    sim_line line = {.run = run, .number = 1, .labelled = true};
    bool granted = false;
    name_line(self, &line);
    if (self->honest) {
        if (!honest_person(self, run, &actual)) {
            return true;
        }
    } else if (sim_pick(self, 4) == 0) {
        line.amount = sim_pick(self, 4) == 0 ? -6000000 : actual.usd_micro;
        actual.usd_micro = actual.billed_usd_micro = line.amount;
        actual.line_id = line.id;
    }
    granted =
        actual.line_id != NULL
            ? sim_actual_line(&self->model, &line, !actual.final, sim_now_ms(self))
            : sim_actual(&self->model, run, actual.usd_micro, !actual.final, sim_now_ms(self));
    return sim_same_verdict(
        self, "record-actual",
        budget_ledger_record_actual(self->ledger, NULL, &actual, &answer, &self->error), &answer,
        granted);
}
