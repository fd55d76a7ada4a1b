/* How a model with experts spreads the tokens of the last steps. Called by prepare.c, step.c and finish.c. */
#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"

enum { LAST_STEPS = 100 };

static size_t load_count(const trainer *self)
{
    return (size_t)self->config.layers * (size_t)rank_model_experts(&self->config).count;
}

base_status trainer_loads_make(trainer *self, base_error *reterr)
{
    if (load_count(self) == 0) {
        return BASE_OK;
    }
    self->loads = calloc(load_count(self), sizeof *self->loads);
    return self->loads != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for loads of experts");
}

void trainer_loads_begin(trainer *self)
{
    const int64_t left = self->job->train.steps - (int64_t)self->steps_done;
    if (self->loads != NULL && (left == LAST_STEPS || self->steps_done == self->first_step)) {
        memset(self->loads, 0, load_count(self) * sizeof *self->loads);
        self->loads_first = self->steps_done;
    }
}

/* A layer's loads become shares of all its rows' choices. */
static void share(const double *loads, size_t experts, float *shares)
{
    double sum = 0.0;
    for (size_t e = 0; e < experts; e++) {
        sum += loads[e];
    }
    for (size_t e = 0; e < experts; e++) {
        shares[e] = (float)(sum > 0.0 ? loads[e] / sum : 0.0);
    }
}

base_status trainer_put_experts(trainer *self, trainer_experts *experts,
                                Ringfence__Control__Finished *finished, base_error *reterr)
{
    const rank_experts of = rank_model_experts(&self->config);
    const size_t count = (size_t)of.count;
    if (self->loads == NULL) {
        return BASE_OK;
    }
    const base_status status = trainer_sum(self, self->loads, load_count(self), reterr);
    if (status != BASE_OK || self->worker->identity.rank != 0) {
        return status;
    }
    experts->message = (Ringfence__Control__Experts)RINGFENCE__CONTROL__EXPERTS__INIT;
    experts->message.count = (uint32_t)of.count;
    experts->message.chosen = (uint32_t)of.chosen;
    experts->message.router_loss = self->config.router_loss;
    experts->message.steps = self->steps_done - self->loads_first;
    experts->message.loads = experts->loads;
    experts->message.n_loads = load_count(self) <= PROTO_LOADS_MAX ? load_count(self) : 0;
    for (size_t first = 0; first < experts->message.n_loads; first += count) {
        share(self->loads + first, count, experts->loads + first);
    }
    finished->experts = &experts->message;
    return BASE_OK;
}
