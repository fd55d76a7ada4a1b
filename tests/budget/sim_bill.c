/* Bills and persons of the simulation. In an honest story the vendor charges in lines that come to
 * what was reserved at most, some as late as its settling time, and every bill has all of them so
 * far; in the others lines change, come again, are credits of any size and for any time. */
#include <stdio.h>
#include <string.h>

#include "budget/reconcile.h"
#include "sim_disk.h"
#include "sim_story.h"

enum { BILL_LINES_MAX = SIM_RUNS * SIM_LINES };

/* Lines of even numbers have their id in each run, and always name the instance; those of odd
 * numbers have one of their own. */
static void name_line(sim_line *line)
{
    if (line->number % 2 == 0) {
        (void)snprintf(line->id, sizeof line->id, "%d", line->number);
    } else {
        (void)snprintf(line->id, sizeof line->id, "%d.%d", line->run, line->number);
    }
}

/* Another line, of an honest vendor: what all come to is from 0 to what was reserved. */
static void charge(sim *self, sim_run *run)
{
    int64_t sum = 0;
    const int64_t settled_ms = run->ended_ms + INT64_C(1000) * SIM_SETTLING_S;
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
    const bool credit = sim_pick(self, 5) == 0;
    run->true_lines[run->true_count++] =
        credit ? -(int64_t)sim_pick(self, (uint32_t)sum + 1)
               : (sim_pick(self, 3) == 0 ? left : (int64_t)sim_pick(self, (uint32_t)left + 1));
    run->true_complete = run->terminated && !credit && sim_pick(self, 2) == 0;
}

static int honest_lines(sim *self, sim_line lines[BILL_LINES_MAX])
{
    int count = 0;
    for (int i = 0; i < SIM_RUNS; i++) {
        sim_run *run = &self->model.runs[i];
        if (sim_pick(self, 4) == 0) {
            charge(self, run);
        }
        for (int k = 0; k < run->true_count; k++) {
            const bool last = run->true_complete && k == run->true_count - 1;
            lines[count] = (sim_line){.run = i, .number = k, .amount = run->true_lines[k]};
            lines[count].until_s = last ? (run->ended_ms + 999) / 1000 : 0;
            name_line(&lines[count++]);
        }
    }
    return count;
}

static int any_lines(sim *self, sim_line lines[BILL_LINES_MAX])
{
    int count = 0;
    const int64_t now_s = sim_now_ms(self) / 1000;
    for (int n = 1 + (int)sim_pick(self, 3); n > 0; n--) {
        const int run = sim_pick_run(self);
        const sim_run *found = &self->model.runs[run];
        for (int k = 0; k < SIM_LINES; k++) {
            const int64_t amounts[] = {found->amount / 4,  10000,   found->by_hand, 4100000,
                                       -found->amount / 5, -9000000};
            bool there = false;
            for (int i = 0; i < count; i++) {
                there = there || (lines[i].run == run && lines[i].number == k);
            }
            if (there || sim_pick(self, 3) != 0) {
                continue;
            }
            lines[count] = (sim_line){.run = run, .number = k};
            lines[count].amount = found->known[k] && sim_pick(self, 8) != 0
                                      ? found->billed[k]
                                      : amounts[sim_pick(self, sim_pick(self, 4) == 0 ? 6 : 3)];
            lines[count].at_s = now_s - (int64_t)sim_pick(self, 4000);
            lines[count].until_s =
                sim_pick(self, 2) == 0 ? 0 : lines[count].at_s + (int64_t)sim_pick(self, 4000);
            name_line(&lines[count++]);
        }
    }
    return count;
}

static budget_charge charge_of(sim *self, const sim_line *line)
{
    budget_charge made = {.usd_micro = line->amount, .at_s = line->at_s, .until_s = line->until_s};
    (void)snprintf(made.label, sizeof made.label, "run-%d", line->run);
    (void)snprintf(made.line_id, sizeof made.line_id, "%s", line->id);
    if (line->number % 2 == 0 || sim_pick(self, 2) == 0) {
        (void)snprintf(made.instance_id, sizeof made.instance_id, "pod-%d", line->run);
    }
    return made;
}

bool sim_bill(sim *self)
{
    sim_line lines[BILL_LINES_MAX];
    budget_charge charges[BILL_LINES_MAX];
    budget_reconciled result;
    const int64_t now_s = sim_now_ms(self) / 1000;
    const int count = self->honest ? honest_lines(self, lines) : any_lines(self, lines);
    const int64_t as_of_s =
        sim_pick(self, 3) != 0 ? now_s : now_s - 2000 + (int64_t)sim_pick(self, 100000);
    for (int i = 0; i < count; i++) {
        charges[i] = charge_of(self, &lines[i]);
    }
    const budget_reconcile_options options = {
        .as_of_s = as_of_s, .policy = self->policy, .charges = charges, .count = (size_t)count};
    const sim_counts counts = sim_reconcile(&self->model, lines, count, as_of_s, sim_now_ms(self));
    if (budget_reconcile_run(self->ledger, NULL, &options, &result, &self->error) != BASE_OK) {
        return sim_disk_stopped() || sim_broken(self, "reconcile: %s", self->error.message);
    }
    const sim_counts got = {
        .matched = (int)result.counts[BUDGET_FINDING_MATCHED],
        .differing = (int)result.counts[BUDGET_FINDING_DIFFERING],
        .strays = (int)result.counts[BUDGET_FINDING_MISSING_IN_LEDGER],
        .passed_over = (int)result.passed_over,
        .recorded = (int)result.recorded,
    };
    if (memcmp(&got, &counts, sizeof got) != 0) {
        return sim_broken(self,
                          "reconcile: %d matched, %d differing, %d strays, %d passed over, %d "
                          "recorded; the model says %d, %d, %d, %d and %d",
                          got.matched, got.differing, got.strays, got.passed_over, got.recorded,
                          counts.matched, counts.differing, counts.strays, counts.passed_over,
                          counts.recorded);
    }
    return true;
}

/* What the vendor shows that is not recorded yet; final when it will show no more. */
static bool honest_person(sim *self, int run, budget_actual *actual)
{
    sim_run *found = &self->model.runs[run];
    int64_t due = -sim_total(found);
    charge(self, found);
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
    budget_actual actual = {
        .label = label, .usd_micro = amounts[sim_pick(self, 5)], .final = sim_pick(self, 2) == 0};
    sim_line line = {.run = run, .number = 1};
    bool granted = false;
    name_line(&line);
    if (self->honest) {
        if (!honest_person(self, run, &actual)) {
            return true;
        }
    } else if (sim_pick(self, 4) == 0) {
        line.amount = sim_pick(self, 4) == 0 ? -6000000 : actual.usd_micro;
        actual.usd_micro = actual.billed_usd_micro = line.amount;
        actual.line_id = line.id;
    }
    granted = actual.line_id != NULL
                  ? sim_actual_line(&self->model, &line, !actual.final)
                  : sim_actual(&self->model, run, actual.usd_micro, !actual.final);
    return sim_same_verdict(
        self, "record-actual",
        budget_ledger_record_actual(self->ledger, NULL, &actual, &answer, &self->error), &answer,
        granted);
}
