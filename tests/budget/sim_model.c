#include "sim_model.h"

int64_t sim_held(const sim_run *run)
{
    if (!run->granted || run->voided || (run->terminated && run->cost_known)) {
        return 0;
    }
    return run->posted >= run->amount ? 0 : run->amount - run->posted;
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
        sum += run->granted && below(model, run->account, account) ? run->posted : 0;
    }
    return sum;
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
    return run->deadline_ms != 0 ? now_ms < run->deadline_ms : now_ms / 1000 < run->exp_s;
}

static void begin(sim_run *run, int64_t now_ms)
{
    if (run->deadline_ms == 0) {
        run->deadline_ms = now_ms + INT64_C(3600) * 1000;
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

bool sim_void(sim_model *model, int run)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided || found->terminated || found->deadline_ms != 0 ||
        found->posted != 0) {
        return false;
    }
    found->voided = true;
    return true;
}

bool sim_actual(sim_model *model, int run, int64_t amount)
{
    sim_run *found = &model->runs[run];
    if (!found->granted) {
        return false;
    }
    found->posted += amount;
    found->cost_known = found->cost_known || found->posted != 0 || found->terminated;
    if (amount > 0 && found->posted > (found->voided ? 0 : found->amount)) {
        model->accounts[found->account].frozen = true;
    }
    return true;
}

bool sim_terminate(sim_model *model, int run)
{
    sim_run *found = &model->runs[run];
    if (!found->granted || found->voided) {
        return false;
    }
    found->terminated = true;
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
