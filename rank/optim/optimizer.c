/* The optimizer: computes the norm of the gradients and their scale, then runs AdamW on all
 * tensors at once, or on those that are not Muon's. Called by train/step.c. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "optim/muon.h"
#include "rank/optim.h"

/* Values that change at each step, at an address that the device reads and writes. */
typedef struct step_values {
    double tokens;
    double sum_squares;
    double norm;
    rank_adamw_step adamw;
} step_values;

/* Neighbouring elements of a piece that all decay, or all do not. */
typedef struct piece_run {
    size_t offset; /* in the model */
    size_t place;  /* in the moments */
    size_t count;
    bool decay;
} piece_run;

struct rank_optimizer {
    rank_device device;
    rank_optimizer_options options;
    size_t param_count; /* that moments are of */
    size_t *ends;       /* of neighbouring tensors that all decay, or all do not, in turns */
    size_t parts;
    bool decay;      /* the first part does */
    piece_run *runs; /* AdamW's; NULL: all parameters */
    size_t run_count;
    size_t run_room; /* places for them */
    rank_muon *muon; /* NULL: AdamW alone */
    float *first;    /* AdamW's moments */
    float *second;
    size_t moment_bytes; /* of both, as allocated */
    step_values *now;
    rank_signal *begun; /* on a device that has a clock: where the update is, else NULL */
    rank_signal *ended;
    float *params; /* of the update that is being enqueued */
    const float *grads;
    bool sum_is_given; /* now->sum_squares is set already; graphs keep what it was at first */
};

static base_status new_moments(rank_optimizer *optimizer, float **moments, base_error *reterr)
{
    const rank_device *device = &optimizer->device;
    const size_t size_bytes = optimizer->param_count * sizeof(float);
    void *memory = NULL;
    const base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_OPTIMIZER, size_bytes, &memory, reterr);
    if (status == BASE_OK) {
        device->backend->zero(device->queue, memory, size_bytes);
        optimizer->moment_bytes += size_bytes;
    }
    *moments = memory;
    return status;
}

/* Tensors lie one behind the other, in their order. */
static base_status find_parts(rank_optimizer *made, const rank_model_config *model,
                              base_error *reterr)
{
    const rank_held *held = made->options.held;
    const int tensors = rank_model_tensor_count(model);
    size_t end = 0;
    made->ends = calloc((size_t)tensors, sizeof *made->ends);
    if (made->ends == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    bool decay = false;
    for (int i = 0; i < tensors; i++) {
        rank_tensor tensor;
        rank_model_tensor(model, i, &tensor);
        if (!rank_held_has(held, tensor.offset)) {
            continue;
        }
        BASE_ASSERT(rank_held_place(held, tensor.offset) == end);
        if (end == 0) {
            made->decay = tensor.decay;
        }
        if (end == 0 || tensor.decay != decay) {
            made->parts++;
        }
        decay = tensor.decay;
        end += tensor.count;
        made->ends[made->parts - 1] = end;
    }
    BASE_ASSERT(end == made->param_count);
    return BASE_OK;
}

/* Adds the runs of [at, end), which is AdamW's. `place` is that of `at`. */
static void add_runs(rank_optimizer *made, size_t at, size_t end, size_t place)
{
    size_t part = 0;
    while (at < end) {
        while (made->ends[part] <= at) {
            part++;
        }
        const size_t run_end = base_min_size(made->ends[part], end);
        BASE_ASSERT(made->run_count < made->run_room);
        made->runs[made->run_count++] = (piece_run){.offset = at,
                                                    .place = place,
                                                    .count = run_end - at,
                                                    .decay = made->decay != (part % 2 > 0)};
        place += run_end - at;
        at = run_end;
    }
}

/* Ranges in ascending order. */
typedef struct piece_list {
    const rank_optimizer_piece *at;
    size_t count;
} piece_list;

/* Where pieces, what is AdamW's, and parts overlap: there are at most as many runs as all of them
 * have ends. With `packed` moments are of the pieces alone; else of all parameters. */
static base_status find_runs(rank_optimizer *made, const piece_list *pieces,
                             const piece_list *others, bool packed, base_error *reterr)
{
    size_t place = 0;
    size_t other = 0;
    made->run_room = pieces->count + others->count + made->parts;
    made->runs = calloc(made->run_room, sizeof *made->runs);
    if (made->runs == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    for (size_t i = 0; i < pieces->count; i++) {
        const rank_optimizer_piece *piece = &pieces->at[i];
        const size_t end = piece->offset + piece->count;
        while (other < others->count && others->at[other].offset < end) {
            const rank_optimizer_piece *own = &others->at[other];
            const size_t own_end = own->offset + own->count;
            const size_t at = base_max_size(own->offset, piece->offset);
            add_runs(made, at, base_min_size(own_end, end),
                     packed ? place + (at - piece->offset) : at);
            if (own_end > end) {
                break;
            }
            other++;
        }
        place += piece->count;
    }
    made->param_count = packed ? place : made->param_count;
    return BASE_OK;
}

/* Of the pieces, or all parameters, Muon has its matrices, and AdamW the rest. */
static base_status divide(rank_optimizer *made, const rank_model_config *model, base_error *reterr)
{
    const rank_optimizer_options *options = &made->options;
    const rank_optimizer_piece whole = {.offset = 0, .count = made->param_count};
    const piece_list all = {&whole, 1};
    const piece_list given = {options->pieces, options->piece_count};
    const piece_list *pieces = options->pieces != NULL ? &given : &all;
    if (options->muon.ranks == 0) {
        return options->pieces != NULL ? find_runs(made, pieces, &all, true, reterr) : BASE_OK;
    }
    base_status status = rank_muon_create(&made->device, model, options, &made->muon, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const size_t count = rank_muon_others(made->muon, NULL);
    rank_optimizer_piece *others = calloc(count + 1, sizeof *others);
    if (others == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    (void)rank_muon_others(made->muon, others);
    status = find_runs(made, pieces, &(piece_list){others, count}, options->pieces != NULL, reterr);
    free(others);
    return status;
}

static base_status fill(rank_optimizer *made, const rank_model_config *model, base_error *reterr)
{
    void *now = NULL;
    const rank_optimizer_options *options = &made->options;
    const rank_held *held = options->held;
    made->param_count = held != NULL ? held->count : rank_model_param_count(model);
    base_status status = find_parts(made, model, reterr);
    if (status == BASE_OK) {
        status = divide(made, model, reterr);
    }
    if (status == BASE_OK) {
        status = new_moments(made, &made->first, reterr);
    }
    if (status == BASE_OK) {
        status = new_moments(made, &made->second, reterr);
    }
    if (status == BASE_OK) {
        status = made->device.backend->alloc(made->device.queue, RANK_MEMORY_HOST,
                                             sizeof *made->now, &now, reterr);
    }
    made->now = now;
    if (status == BASE_OK) {
        *made->now = (step_values){.tokens = 0.0};
    }
    const rank_backend *backend = made->device.backend;
    if (status == BASE_OK && backend->signal_open != NULL) {
        status = backend->signal_open(made->device.queue, true, &made->begun, reterr);
    }
    if (status == BASE_OK && backend->signal_open != NULL) {
        status = backend->signal_open(made->device.queue, true, &made->ended, reterr);
    }
    return status;
}

void rank_optimizer_plan(size_t param_count, rank_memory_use *use)
{
    use->bytes[RANK_MEMORY_OPTIMIZER] += 2 * param_count * sizeof(float);
}

void rank_optimizer_plan_muon(const rank_model_config *model, const rank_muon_options *options,
                              rank_memory_use *use)
{
    rank_muon_plan(model, options, use);
}

base_status rank_optimizer_create(const rank_device *device, const rank_model_config *model,
                                  const rank_optimizer_options *options, rank_optimizer **optimizer,
                                  base_error *reterr)
{
    *optimizer = NULL;
    rank_optimizer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    made->device = *device;
    made->options = *options;
    const base_status status = fill(made, model, reterr);
    made->options.held = NULL;
    made->options.pieces = NULL;
    made->options.muon.stretches = NULL;
    if (status != BASE_OK) {
        rank_optimizer_destroy(made);
        return status;
    }
    *optimizer = made;
    return BASE_OK;
}

void rank_optimizer_destroy(rank_optimizer *optimizer)
{
    if (optimizer == NULL) {
        return;
    }
    const rank_device *device = &optimizer->device;
    device->backend->release(device->queue, optimizer->first);
    device->backend->release(device->queue, optimizer->second);
    device->backend->release(device->queue, optimizer->now);
    if (device->backend->signal_close != NULL) {
        device->backend->signal_close(optimizer->begun);
        device->backend->signal_close(optimizer->ended);
    }
    rank_muon_destroy(optimizer->muon);
    free(optimizer->ends);
    free(optimizer->runs);
    free(optimizer);
}

/* Of the update that was enqueued last. */
static rank_muon_step muon_step(const rank_optimizer *optimizer)
{
    const step_values *now = optimizer->now;
    return (rank_muon_step){.learning_rate = now->adamw.learning_rate,
                            .weight_decay = optimizer->options.adamw.weight_decay,
                            .grad_scale = now->adamw.grad_scale,
                            .params = optimizer->params,
                            .grads = optimizer->grads,
                            .momentum = optimizer->first,
                            .packed_params = optimizer->options.packed_params,
                            .packed_grads = optimizer->options.packed_grads};
}

/* Enqueues an update, which reads and writes *now: a rank_graph_work's. */
static void update(void *user)
{
    const rank_optimizer *optimizer = user;
    const float *grads = optimizer->grads;
    const rank_backend *backend = optimizer->device.backend;
    rank_queue *queue = optimizer->device.queue;
    step_values *now = optimizer->now;
    if (!optimizer->sum_is_given) {
        backend->sum_squares(queue, &(rank_sum_squares){.values = grads,
                                                        .count = optimizer->param_count,
                                                        .sum = &now->sum_squares});
    }
    backend->grad_scale(queue, &(rank_grad_scale){.sum_squares = &now->sum_squares,
                                                  .tokens = &now->tokens,
                                                  .norm_max = optimizer->options.norm_max,
                                                  .norm = &now->norm,
                                                  .scale = &now->adamw.grad_scale});
    const rank_adamw whole = {.config = &optimizer->options.adamw,
                              .step = &now->adamw,
                              .decay = optimizer->decay,
                              .count = optimizer->param_count,
                              .params = optimizer->params,
                              .grads = grads,
                              .first = optimizer->first,
                              .second = optimizer->second,
                              .rounded = optimizer->options.rounded,
                              .ends = optimizer->ends,
                              .parts = optimizer->parts};
    if (optimizer->runs == NULL) {
        backend->adamw(queue, &whole);
    }
    for (size_t i = 0; i < optimizer->run_count; i++) {
        const piece_run *run = &optimizer->runs[i];
        rank_adamw part = whole;
        part.decay = run->decay;
        part.count = run->count;
        part.params += optimizer->options.packed_params ? run->place : run->offset;
        part.grads += optimizer->options.packed_grads ? run->place : run->offset;
        part.first += run->place;
        part.second += run->place;
        part.ends = NULL;
        backend->adamw(queue, &part);
    }
    if (optimizer->muon != NULL) {
        const rank_muon_step step = muon_step(optimizer);
        rank_muon_update(optimizer->muon, &step);
    }
}

static void note(const rank_optimizer *optimizer, rank_signal *where)
{
    if (where != NULL) {
        optimizer->device.backend->signal_set(optimizer->device.queue, where);
    }
}

void rank_optimizer_step(rank_optimizer *optimizer, const rank_optimizer_values *values,
                         float *params, const float *grads)
{
    step_values *now = optimizer->now;
    now->tokens = values->tokens;
    now->adamw.step = values->step;
    now->adamw.learning_rate = values->learning_rate;
    optimizer->sum_is_given = values->sum_squares != NULL;
    if (optimizer->sum_is_given) {
        now->sum_squares = *values->sum_squares;
    }
    optimizer->params = params;
    optimizer->grads = grads;
    note(optimizer, optimizer->begun);
    (void)rank_graphs_do(optimizer->options.graphs,
                         &(rank_graph_work){
                             .key = {{RANK_GRAPH_UPDATE, (uintptr_t)params, (uintptr_t)grads}},
                             .queue = optimizer->device.queue,
                             .enqueue = update,
                             .user = optimizer,
                         });
    note(optimizer, optimizer->ended);
}

rank_optimizer_moments rank_optimizer_get_moments(const rank_optimizer *optimizer)
{
    return (rank_optimizer_moments){optimizer->first, optimizer->second};
}

rank_optimizer_piece rank_optimizer_share(const rank_optimizer *optimizer, int rank)
{
    return rank_muon_share(optimizer->muon, rank);
}

int rank_optimizer_rounds(const rank_optimizer *optimizer)
{
    return optimizer->muon != NULL ? rank_muon_rounds(optimizer->muon) : 0;
}

rank_muon_round rank_optimizer_round(const rank_optimizer *optimizer, int round, size_t *mine,
                                     size_t *parts)
{
    return rank_muon_round_of(optimizer->muon, round, mine, parts);
}

void rank_optimizer_begin_round(rank_optimizer *optimizer, int round)
{
    const rank_muon_step step = muon_step(optimizer);
    rank_muon_begin_round(optimizer->muon, round, &step);
}

void rank_optimizer_compute_round(rank_optimizer *optimizer, int round)
{
    rank_muon_compute_round(optimizer->muon, round);
}

void rank_optimizer_end_round(rank_optimizer *optimizer, int round)
{
    const rank_muon_step step = muon_step(optimizer);
    rank_muon_end_round(optimizer->muon, round, &step);
}

size_t rank_optimizer_moment_bytes(const rank_optimizer *optimizer)
{
    const size_t muon_bytes = optimizer->muon != NULL ? rank_muon_bytes(optimizer->muon) : 0;
    return optimizer->moment_bytes + muon_bytes;
}

double rank_optimizer_norm(const rank_optimizer *optimizer)
{
    return optimizer->now->norm;
}

int64_t rank_optimizer_device_ns(const rank_optimizer *optimizer)
{
    return optimizer->ended == NULL
               ? -1
               : optimizer->device.backend->signal_elapsed_ns(optimizer->begun, optimizer->ended);
}
