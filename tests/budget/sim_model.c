/* A second, naive implementation of the ledger's rules. sim_story.c and sim_bill.c compare the
 * ledger with it. */
#include "sim_model.h"

#include <string.h>

const sim_vendor sim_vendors[SIM_VENDORS] = {{"runpod", 1800, 60}, {"vast", 3600, 600}};

int sim_vendor_of(int run)
{
    return run % SIM_VENDORS;
}

int sim_instance_of(int run)
{
    return run / SIM_VENDORS;
}

int sim_instances(int run)
{
    return sim_instance_of(run) % 3 == 0 ? 2 : 1;
}

int64_t sim_total(const sim_run *run)
{
    int64_t total = run->by_hand;
    for (int i = 0; i < SIM_LINES; i++) {
        total += run->known[i] ? run->billed[i] : 0;
    }
    return total;
}

static int64_t posted_of(const sim_run *run)
{
    return sim_total(run) > 0 ? sim_total(run) : 0;
}

int64_t sim_start_s(const sim_run *run)
{
    return run->created || run->attempt > 0 ? run->deadline_ms / 1000 - 3600 : run->exp_s - 900;
}

int64_t sim_held(const sim_run *run)
{
    if (!run->granted || run->voided || (run->terminated && run->final)) {
        return 0;
    }
    return posted_of(run) >= run->amount ? 0 : run->amount - posted_of(run);
}

static bool below(const sim_model *model, int account, int above)
{
    for (; account >= 0; account = model->accounts[account].parent) {
        if (account == above) {
            return true;
        }
    }
    return false;
}

int64_t sim_reserved(const sim_model *model, int account)
{
    int64_t sum = 0;
    for (int i = 0; i < SIM_RUNS; i++) {
        sum += below(model, model->runs[i].account, account) ? sim_held(&model->runs[i]) : 0;
    }
    return sum;
}

int64_t sim_posted(const sim_model *model, int account)
{
    int64_t sum = 0;
    for (int i = 0; i < SIM_RUNS; i++) {
        const sim_run *run = &model->runs[i];
        sum += run->granted && below(model, run->account, account) ? posted_of(run) : 0;
    }
    return sum;
}

int64_t sim_left(const sim_model *model, int account)
{
    int64_t least = INT64_MAX;
    for (; account >= 0; account = model->accounts[account].parent) {
        const int64_t left = model->accounts[account].cap - sim_posted(model, account) -
                             sim_reserved(model, account);
        least = left < least ? left : least;
    }
    return least;
}

bool sim_frozen(const sim_model *model, int account)
{
    for (; account >= 0; account = model->accounts[account].parent) {
        if (model->accounts[account].frozen) {
            return true;
        }
    }
    return false;
}

bool sim_authorize(sim_model *model, int run, int account, int64_t amount, int64_t exp_s)
{
    sim_run *made = &model->runs[run];
    if (made->granted || sim_frozen(model, account)) {
        return false;
    }
    for (int i = account; i >= 0; i = model->accounts[i].parent) {
        if (sim_posted(model, i) + sim_reserved(model, i) + amount > model->accounts[i].cap) {
            return false;
        }
    }
    *made = (sim_run){
        .granted = true, .asked = true, .account = account, .amount = amount, .exp_s = exp_s};
    return true;
}

static bool can_run(const sim_run *run, int64_t now_ms)
{
    if (!run->granted || run->voided || run->terminated || run->expired) {
        return false;
    }
    if (run->deadline_ms != 0 && now_ms >= run->deadline_ms) {
        return false;
    }
    return run->created || run->attempt > 0 || now_ms / 1000 < run->exp_s;
}

static void begin(sim_run *run, int64_t now_ms)
{
    if (run->deadline_ms == 0) {
        run->deadline_ms = now_ms + INT64_C(3600) * 1000;
    }
}

/* It may be running, whoever let it. */
static void run_on(sim_run *run, int64_t now_ms)
{
    if (!run->terminated && !run->voided) {
        begin(run, now_ms);
    }
}

bool sim_redeem(sim_model *model, int run, int rank, int attempt, int key, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (rank < 0 || rank >= SIM_RANKS || attempt < 1 || attempt > SIM_ATTEMPTS ||
        !can_run(found, now_ms) || (found->key != 0 && found->key != key) ||
        (attempt != found->attempt && attempt != found->attempt + 1)) {
        return false;
    }
    if (found->seen[attempt][rank]) {
        return true;
    }
    if (sim_frozen(model, found->account)) {
        return false;
    }
    found->seen[attempt][rank] = true;
    found->attempt = attempt;
    found->key = key;
    begin(found, now_ms);
    return true;
}

bool sim_create(sim_model *model, int run, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!can_run(found, now_ms) || found->created || sim_frozen(model, found->account)) {
        return false;
    }
    found->created = true;
    begin(found, now_ms);
    return true;
}

bool sim_attach(sim_model *model, int run, int which, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided || which > found->attached) {
        return false;
    }
    if (which == found->attached) {
        found->attached++;
        run_on(found, now_ms);
    }
    return true;
}

bool sim_void(sim_model *model, int run)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided || found->terminated || found->deadline_ms != 0 ||
        found->cost || found->attached > 0) {
        return false;
    }
    found->voided = true;
    return true;
}

static int64_t used_of(const sim_run *run)
{
    return sim_held(run) + posted_of(run);
}

/* After something was added to what it cost: must a person look? */
static void look(sim_model *model, sim_run *run, const sim_run *before, bool billed)
{
    const int64_t added = sim_total(run) - sim_total(before);
    run->cost = run->cost || billed || sim_total(run) != 0;
    if ((added > 0 && sim_total(run) > (run->voided ? 0 : run->amount)) ||
        (added < 0 && sim_total(run) < 0) ||
        (used_of(run) > used_of(before) && sim_left(model, run->account) < 0)) {
        model->accounts[run->account].frozen = true;
    }
}

static void say_final(sim_run *run, bool partial)
{
    if (run->terminated && !partial) {
        run->final = true;
        run->refuted = false;
    }
}

bool sim_actual(sim_model *model, int run, int64_t amount, bool partial, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!found->granted) {
        return false;
    }
    const sim_run before = *found;
    found->by_hand += amount;
    say_final(found, partial);
    look(model, found, &before, false);
    if (found->cost) { /* and not: so far, it cost nothing */
        run_on(found, now_ms);
    }
    return true;
}

bool sim_actual_line(sim_model *model, const sim_line *line, bool partial, int64_t now_ms)
{
    sim_run *found = &model->runs[line->run];
    if (!found->granted) {
        return false;
    }
    if (found->known[line->number]) {
        return found->billed[line->number] == line->amount;
    }
    const sim_run before = *found;
    found->known[line->number] = true;
    found->billed[line->number] = line->amount;
    say_final(found, partial);
    look(model, found, &before, true);
    run_on(found, now_ms);
    return true;
}

bool sim_terminate(sim_model *model, int run, int described, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided) {
        return false;
    }
    if (described != 0 && (described < sim_instances(run) ||
                           (found->attached != 0 && described != found->attached))) {
        return false;
    }
    const bool anew = !found->terminated || found->refuted;
    found->attested = described == 0 && (found->attested || anew);
    found->ended_ms = anew ? now_ms : found->ended_ms;
    found->terminated = true;
    found->refuted = false;
    return true;
}

/* ---- bills ---- */

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
        if (model->runs[run].attached == 0 || sim_instance_of(run) != sim_instance_of(line->run)) {
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

/* Bills name the first instance only. */
static bool final_by(const sim_run *run, int instances, const sim_vendor *vendor,
                     const sim_line *lines, int count, int64_t as_of_ms)
{
    int64_t until_s = 0;
    bool from_the_start = false;
    const int64_t start_s = sim_start_s(run) + vendor->granularity_s + CLOCKS_DIFFER_S;
    const bool known = instances == 1 || run->attached == instances || run->attested;
    for (int i = 0; i < count; i++) {
        const bool over = lines[i].until_s * 1000 <= as_of_ms;
        from_the_start = from_the_start || (lines[i].amount > 0 && lines[i].at_s <= start_s);
        until_s =
            over && lines[i].amount > 0 && lines[i].until_s > until_s ? lines[i].until_s : until_s;
    }
    return run->terminated && !run->voided && as_of_ms >= run->ended_ms &&
           ((instances == 1 && from_the_start && until_s * 1000 >= run->ended_ms) ||
            (known && as_of_ms >= run->ended_ms + 1000 * vendor->settling_s));
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
                look(model, run, &before, true);
                before = *run;
            }
        }
    }
    if (at_once && recorded > 0) {
        look(model, run, &before, true);
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
    run->final =
        run->final || (counts->ambiguous == 0 && counts->passed_over == 0 && !refuted &&
                       final_by(run, sim_instances(number_of_run), vendor, lines, count, as_of_ms));
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
                run_on(&model->runs[run], now_ms);
            }
        }
    }
    return counts;
}

int sim_expire(sim_model *model, int64_t now_ms)
{
    int count = 0;
    for (int i = 0; i < SIM_RUNS; i++) {
        sim_run *run = &model->runs[i];
        if (run->granted && !run->voided && !run->terminated && !run->expired &&
            run->deadline_ms != 0 && now_ms >= run->deadline_ms) {
            run->expired = true;
            count++;
        }
    }
    return count;
}
