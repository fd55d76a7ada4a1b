/* A second, naive implementation of the ledger's rules. sim_story.c and sim_bill.c compare the
 * ledger with it. */
#include "sim_model.h"

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

int sim_which(int run, int number)
{
    return number / 2 % sim_instances(run);
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

void sim_run_on(sim_run *run, int64_t now_ms)
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

bool sim_create(sim_model *model, int run, bool placed, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!can_run(found, now_ms) || found->created || sim_frozen(model, found->account)) {
        return false;
    }
    found->created = true;
    found->placed = found->placed || placed;
    begin(found, now_ms);
    return true;
}

bool sim_attach(sim_model *model, int run, int which, bool placed, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided || which > found->attached) {
        return false;
    }
    found->placed = found->placed || placed;
    if (which == found->attached) {
        found->attached++;
        sim_run_on(found, now_ms);
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

void sim_look(sim_model *model, sim_run *run, const sim_run *before, bool billed)
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
    sim_look(model, found, &before, false);
    if (found->cost) { /* and not: so far, it cost nothing */
        sim_run_on(found, now_ms);
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
    sim_look(model, found, &before, true);
    sim_run_on(found, now_ms);
    return true;
}

bool sim_terminate(sim_model *model, int run, int described, bool there, int64_t now_ms)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided) {
        return false;
    }
    if (described != 0 && (!there || !found->placed || described < sim_instances(run) ||
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
