/* How the simulation's second implementation of the rules takes a bill. Part of sim_model.c. */
#include "sim_model.h"

#include <string.h>

enum { STRAY = -1, AMBIGUOUS = -2 };

static bool has_runs_of_other_vendors(const sim_model *model, int run)
{
    for (int i = 0; i < SIM_RUNS; i++) {
        if (model->runs[i].granted && !model->runs[i].voided &&
            sim_vendor_of(i) != sim_vendor_of(run)) {
            return true;
        }
    }
    return false;
}

/* The run that the line is about, as far as the line and the ledger say. */
static int owner_of(const sim_model *model, const sim_line *line)
{
    if (line->labelled && model->runs[line->run].granted) {
        return line->vendor == SIM_NO_VENDOR || line->vendor == sim_vendor_of(line->run) ? line->run
                                                                                         : STRAY;
    }
    for (int run = 0; run < SIM_RUNS && line->placed; run++) {
        if (model->runs[run].attached <= sim_which(line->run, line->number) ||
            sim_instance_of(run) != sim_instance_of(line->run)) {
            continue;
        }
        if (line->vendor == SIM_NO_VENDOR) {
            return has_runs_of_other_vendors(model, run) ? AMBIGUOUS : run;
        }
        if (line->vendor == sim_vendor_of(run)) {
            return run;
        }
    }
    return STRAY;
}

/* How a run's lines on a bill stand beside what is recorded. */
typedef struct sim_news {
    int64_t sum; /* beyond the lines recorded before */
    int changed;
    int shrunk; /* of the changed ones */
    int fresh;
} sim_news;

static sim_news news_of(const sim_run *run, const sim_line *lines, int count)
{
    sim_news news = {0};
    for (int i = 0; i < count; i++) {
        const int number = lines[i].number;
        const int64_t more = lines[i].amount - (run->known[number] ? run->billed[number] : 0);
        news.sum += more;
        news.fresh += !run->known[number];
        news.changed += run->known[number] && more != 0;
        news.shrunk += run->known[number] && more < 0;
    }
    return news;
}

static bool is_billed(const sim_run *run)
{
    bool billed = false;
    for (int i = 0; i < SIM_LINES; i++) {
        billed = billed || run->known[i];
    }
    return billed;
}

/* Do they need nobody to look? billed: by a bill before. */
static bool agrees(const sim_run *run, bool billed, const sim_news *news)
{
    if (run->by_hand == 0 && (!run->final || billed)) {
        return news->shrunk == 0;
    }
    const int64_t off = news->sum - run->by_hand;
    return (off < 0 ? -off : off) <= 5000 * (int64_t)(news->fresh + news->changed);
}

enum { CLOCKS_DIFFER_S = 300 };

/* Is this instance billed from the beginning to the end? A line that names none counts if there is one. */
static bool billed_whole(const sim_run *run, int number_of_run, int which, const sim_line *lines,
                         int count, int64_t as_of_ms)
{
    bool from_the_start = false;
    bool to_the_end = false;
    const sim_vendor *vendor = &sim_vendors[sim_vendor_of(number_of_run)];
    const int64_t start_s = sim_start_s(run) + vendor->granularity_s + CLOCKS_DIFFER_S;
    for (int i = 0; i < count; i++) {
        const int64_t until_ms = lines[i].until_s * 1000;
        const bool its = sim_instances(number_of_run) == 1 ||
                         (lines[i].placed && sim_which(number_of_run, lines[i].number) == which);
        if (its && lines[i].amount > 0) {
            from_the_start = from_the_start || lines[i].at_s <= start_s;
            to_the_end = to_the_end || (until_ms >= run->ended_ms && until_ms <= as_of_ms);
        }
    }
    return from_the_start && to_the_end;
}

static bool final_by(const sim_run *run, int number_of_run, const sim_line *lines, int count,
                     int64_t as_of_ms)
{
    const int instances = sim_instances(number_of_run);
    const bool known = instances == 1 || run->attached == instances;
    const int64_t settling_s = sim_vendors[sim_vendor_of(number_of_run)].settling_s;
    bool whole = known;
    for (int which = 0; which < instances; which++) {
        whole = whole && billed_whole(run, number_of_run, which, lines, count, as_of_ms);
    }
    return run->terminated && !run->voided && as_of_ms >= run->ended_ms &&
           (whole || ((known || run->attested) && as_of_ms >= run->ended_ms + 1000 * settling_s));
}

static bool goes_on_after_the_end(const sim_run *run, int64_t granularity_s, const sim_line *lines,
                                  int count)
{
    for (int i = 0; i < count; i++) {
        if (run->terminated && lines[i].amount > 0 &&
            lines[i].at_s > run->ended_ms / 1000 + granularity_s + CLOCKS_DIFFER_S) {
            return true;
        }
    }
    return false;
}

/* Takes the lines over, one by one, or all at once. */
static void record_all(sim_model *model, sim_run *run, const sim_line *lines, int count,
                       bool at_once, sim_counts *counts)
{
    sim_run before = *run;
    int recorded = 0;
    for (int i = 0; i < count; i++) {
        const int number = lines[i].number;
        if (!run->known[number] || run->billed[number] != lines[i].amount) {
            run->known[number] = true;
            run->billed[number] = lines[i].amount;
            run->by_hand = 0;
            recorded++;
            if (!at_once) {
                sim_look(model, run, &before, true);
                before = *run;
            }
        }
    }
    if (at_once && recorded > 0) {
        sim_look(model, run, &before, true);
    }
    counts->recorded += recorded;
}

/* One run's lines, those that add to it first. */
static void reconcile_run(sim_model *model, int number_of_run, const sim_line *lines, int count,
                          int64_t as_of_ms, sim_counts *counts)
{
    sim_run *run = &model->runs[number_of_run];
    const sim_vendor *vendor = &sim_vendors[sim_vendor_of(number_of_run)];
    const bool goes_on = goes_on_after_the_end(run, vendor->granularity_s, lines, count);
    const bool refuted = goes_on || run->refuted;
    counts->after_the_end += refuted;
    const sim_news news = news_of(run, lines, count);
    const bool billed = is_billed(run);
    const bool agreed = agrees(run, billed, &news);
    if (agreed || (news.sum > 0 && news.sum > run->by_hand)) { /* a bill of more is a fact */
        record_all(model, run, lines, count, run->by_hand != 0 || news.shrunk > 0, counts);
    }
    if (!agreed) {
        counts->differing++;
        run->refuted = refuted && !run->final;
        return;
    }
    run->refuted = refuted && !run->final;
    if (sim_total(run) - run->by_hand < 0) {
        counts->differing++;
        return;
    }
    counts->matched++;
    run->final = run->final || (counts->ambiguous == 0 && counts->passed_over == 0 && !refuted &&
                                final_by(run, number_of_run, lines, count, as_of_ms));
}

/* What adds to the run before what takes off it, then by id. */
static bool comes_after(const sim_run *run, const sim_line *left, const sim_line *right)
{
    const bool less = left->amount < run->billed[left->number];
    if (less != (right->amount < run->billed[right->number])) {
        return less;
    }
    return strcmp(left->id, right->id) > 0;
}

sim_counts sim_reconcile(sim_model *model, const sim_line *lines, int count, int64_t as_of_s,
                         int64_t now_ms)
{
    sim_counts counts = {0};
    int owners[SIM_RUNS * SIM_LINES];
    const int64_t as_of_ms = as_of_s < now_ms / 1000 ? as_of_s * 1000 : now_ms;
    for (int i = 0; i < count; i++) {
        const bool later = lines[i].at_s > as_of_s;
        owners[i] = later ? STRAY : owner_of(model, &lines[i]);
        counts.passed_over += later;
        counts.strays += !later && owners[i] == STRAY;
        counts.ambiguous += owners[i] == AMBIGUOUS;
    }
    for (int run = 0; run < SIM_RUNS; run++) {
        sim_line its[SIM_LINES];
        int its_count = 0;
        for (int i = 0; i < count; i++) {
            if (owners[i] == run) {
                int at = its_count++;
                for (; at > 0 && comes_after(&model->runs[run], &its[at - 1], &lines[i]); at--) {
                    its[at] = its[at - 1];
                }
                its[at] = lines[i];
            }
        }
        if (its_count > 0) {
            reconcile_run(model, run, its, its_count, as_of_ms, &counts);
            if (model->runs[run].cost) {
                sim_run_on(&model->runs[run], now_ms);
            }
        }
    }
    return counts;
}
