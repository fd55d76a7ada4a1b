/* How a model with experts spreads the tokens of a step, and of the last steps. Called by prepare.c, sums.c, step.c and
 * finish.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "train/trainer.h"

enum { LAST_STEPS = 100 };

static size_t load_count(const trainer *self)
{
    return (size_t)self->config.layers * (size_t)rank_model_experts(&self->config).count;
}

/* Those that ranks tell each other, and the record has. */
static size_t told_count(const trainer *self)
{
    return load_count(self) <= PROTO_LOADS_MAX ? load_count(self) : 0;
}

base_status trainer_loads_make(trainer *self, base_error *reterr)
{
    trainer_loads *loads = &self->loads;
    const size_t count = load_count(self);
    if (count == 0) {
        return BASE_OK;
    }
    loads->step = calloc(count, sizeof *loads->step);
    loads->last = calloc(count, sizeof *loads->last);
    loads->sums = calloc(TRAINER_SUMS_MAX + told_count(self), sizeof *loads->sums);
    return loads->step != NULL && loads->last != NULL && loads->sums != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for loads of experts");
}

void trainer_loads_free(trainer *self)
{
    free(self->loads.step);
    free(self->loads.last);
    free(self->loads.sums);
}

void trainer_loads_begin(trainer *self)
{
    trainer_loads *loads = &self->loads;
    const int64_t left = self->job->train.steps - (int64_t)self->steps_done;
    if (loads->step == NULL) {
        return;
    }
    memset(loads->step, 0, load_count(self) * sizeof *loads->step);
    if (left == LAST_STEPS || self->steps_done == self->first_step) {
        memset(loads->last, 0, load_count(self) * sizeof *loads->last);
        loads->first = self->steps_done;
    }
}

base_status trainer_loads_sum(const trainer *self, double *values, size_t count, base_error *reterr)
{
    const trainer_loads *loads = &self->loads;
    const size_t told = told_count(self);
    BASE_ASSERT(count <= TRAINER_SUMS_MAX);
    memcpy(loads->sums, values, count * sizeof *values);
    memcpy(loads->sums + count, loads->step, told * sizeof *values);
    const base_status status = trainer_sum(self, loads->sums, count + told, reterr);
    if (status != BASE_OK) {
        return status;
    }
    memcpy(values, loads->sums, count * sizeof *values);
    memcpy(loads->step, loads->sums + count, told * sizeof *values);
    for (size_t i = 0; i < told; i++) {
        loads->last[i] += loads->step[i];
    }
    return BASE_OK;
}

static double sum_of(const double *loads, size_t experts)
{
    double sum = 0.0;
    for (size_t e = 0; e < experts; e++) {
        sum += loads[e];
    }
    return sum;
}

double trainer_loads_busiest(const trainer *self)
{
    const size_t experts = (size_t)rank_model_experts(&self->config).count;
    const size_t told = self->loads.step != NULL ? told_count(self) : 0;
    double busiest = 0.0;
    for (size_t i = 0; i < told; i++) {
        const double *loads = self->loads.step;
        const double sum = sum_of(loads + i / experts * experts, experts);
        const double times = sum > 0.0 ? loads[i] * (double)experts / sum : 0.0;
        busiest = times > busiest ? times : busiest;
    }
    return busiest;
}

/* A layer's loads become shares of all its rows' choices. */
static void share(const double *loads, size_t experts, float *shares)
{
    const double sum = sum_of(loads, experts);
    for (size_t e = 0; e < experts; e++) {
        shares[e] = (float)(sum > 0.0 ? loads[e] / sum : 0.0);
    }
}

void trainer_put_experts(const trainer *self, trainer_experts *experts,
                         Ringfence__Control__Finished *finished)
{
    const rank_experts of = rank_model_experts(&self->config);
    const size_t count = (size_t)of.count;
    if (self->loads.step == NULL || self->worker->identity.rank != 0) {
        return;
    }
    experts->message = (Ringfence__Control__Experts)RINGFENCE__CONTROL__EXPERTS__INIT;
    experts->message.count = (uint32_t)of.count;
    experts->message.chosen = (uint32_t)of.chosen;
    experts->message.router_loss = self->config.router_loss;
    experts->message.steps = self->steps_done - self->loads.first;
    experts->message.loads = experts->loads;
    experts->message.n_loads = told_count(self);
    for (size_t first = 0; first < experts->message.n_loads; first += count) {
        share(self->loads.last + first, count, experts->loads + first);
    }
    finished->experts = &experts->message;
}
