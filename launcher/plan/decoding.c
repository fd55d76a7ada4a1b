/* Adds up what a step of decoding needs and takes. Called by estimate.c. */
#include <math.h>

#include "plan/bill.h"
#include "plan/blocks.h"
#include "plan/step.h"
#include "plan/times.h"
#include "plan/work.h"

enum { BEST_BYTES = 16 /* a rank's most probable token and its logit */ };

/* Of a token's row of the embedding. */
static double row_bytes(const launch_ask *ask, double number_bytes)
{
    return ask->weights == PROTO_WEIGHTS_CHECKPOINT
               ? (double)ask->model.width * number_bytes
               : launch_blocks_column_bytes(launch_blocks_words(ask->weights), ask->model.width, 1);
}

/* Of all weights. A router is float32 whatever the matrices are. */
static double weight_bytes(const launch_ask *ask, int tensor, double number_bytes)
{
    const launch_model *model = &ask->model;
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const double bytes =
        ask->weights == PROTO_WEIGHTS_CHECKPOINT
            ? launch_stage_params(model, &whole, tensor) * number_bytes
            : launch_blocks_weight_bytes(model, ask->weights, tensor, number_bytes);
    return bytes + launch_model_router_params(model) * (sizeof(float) - number_bytes);
}

/* Of those that a step does not read: an embedding of its own, but for the tokens' rows, and experts to which no token
 * goes. A token takes any one with a chance of chosen / experts. */
static double unread_bytes(const launch_ask *ask, int tensor, double number_bytes)
{
    const launch_model *model = &ask->model;
    const launch_stage whole = {.layers = model->layers};
    const double embedding =
        model->tied ? 0 : (double)model->vocab_size / tensor * row_bytes(ask, number_bytes);
    const double experts = ask->weights == PROTO_WEIGHTS_CHECKPOINT
                               ? launch_stage_expert_params(model, &whole, tensor) * number_bytes
                               : launch_blocks_expert_bytes(model, ask->weights, tensor);
    const double idle = model->experts > 0 ? pow(1 - (double)model->chosen / (double)model->experts,
                                                 (double)ask->batch)
                                           : 0;
    return embedding + experts * idle;
}

/* Of a token, on the ranks that share its layers. Returns the seconds that they take. */
static double add_sums(const launch_ask *ask, launch_estimate *made)
{
    const launch_model *model = &ask->model;
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const int64_t tensor = made->layout.tensor;
    const double row = (double)ask->batch * (double)model->width * LAUNCH_EXCHANGED_BYTES;
    const double layers_of_experts = model->experts > 0 ? (double)model->layers : 0;
    const double sums_s =
        launch_bill_all_reduces(ask, made,
                                (launch_exchange){"partial sums", tensor, tensor,
                                                  launch_bill_forward_sums(model, &whole), row});
    return sums_s + launch_bill_all_reduces(ask, made,
                                            (launch_exchange){"expert results", tensor, tensor,
                                                              layers_of_experts,
                                                              (double)model->chosen * row});
}

void launch_step_decoding(const launch_ask *ask, launch_estimate *made)
{
    const launch_model *model = &ask->model;
    const launch_layout *layout = &made->layout;
    const int tensor = (int)layout->tensor;
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const double number_bytes = ask->precision == PROTO_PRECISION_BFLOAT16 ? 2 : 4;
    const double batch = (double)ask->batch;
    const double seen = launch_model_seen(model);
    const double keys =
        (double)(launch_model_keys(model) * launch_model_key_copies(model, tensor)) / tensor;
    const double cached =
        batch * (double)model->context * 2 * keys * (double)model->layers * number_bytes;
    made->run.pipeline = (proto_pipeline){.stages = 1, .chunks = 1, .micro_batches = 1};
    made->tokens = batch * (double)layout->data;
    made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] = weight_bytes(ask, tensor, number_bytes);
    made->memory_bytes[LAUNCH_MEMORY_CACHE] = cached;
    made->memory_bytes[LAUNCH_MEMORY_WORK] =
        launch_work_decoding_bytes(model, batch, tensor, ask->precision);
    made->total_bytes =
        made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] + cached + made->memory_bytes[LAUNCH_MEMORY_WORK];
    const double read = made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] -
                        unread_bytes(ask, tensor, number_bytes) +
                        cached * seen / (double)model->context;
    made->compute_s = fmax(
        launch_reading_s(ask, read),
        launch_products_s(ask, launch_stage_forward_flops(model, &whole, tensor, batch, seen)));
    made->tensor_s = add_sums(ask, made);
    const launch_exchange best = {"best tokens", tensor, tensor, 1, batch * BEST_BYTES};
    launch_bill_row *row = launch_bill_add(ask, made, &best, "all_gather");
    row->sent_bytes = (tensor - 1) * best.payload_bytes;
    row->took_s = tensor > 1 ? launch_link_over(ask, layout, tensor)->latency_s : 0;
    made->tensor_s += row->took_s;
    made->step_s = made->compute_s + made->tensor_s;
}
