/* Adds up what a step of decoding needs and takes. Called by estimate.c. */
#include <math.h>

#include "plan/bill.h"
#include "plan/int8.h"
#include "plan/step.h"
#include "plan/times.h"
#include "plan/work.h"

enum { BEST_BYTES = 16 /* a rank's most probable token and its logit */ };

/* Of a token's row of the embedding. */
static double row_bytes(const launch_ask *ask, double number_bytes)
{
    return ask->weights == PROTO_WEIGHTS_INT8 ? launch_int8_column_bytes(ask->model.width, 1)
                                              : (double)ask->model.width * number_bytes;
}

void launch_step_decoding(const launch_ask *ask, launch_estimate *made)
{
    const launch_model *model = &ask->model;
    const launch_layout *layout = &made->layout;
    const int tensor = (int)layout->tensor;
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const double number_bytes = ask->precision == PROTO_PRECISION_BFLOAT16 ? 2 : 4;
    const double batch = (double)ask->batch;
    const double cached = batch * (double)model->context * 2 * (double)launch_model_keys(model) *
                          (double)model->layers / tensor * number_bytes;
    const double row_payload = batch * (double)model->width * LAUNCH_EXCHANGED_BYTES;
    made->run.pipeline = (proto_pipeline){.stages = 1, .chunks = 1, .micro_batches = 1};
    made->tokens = batch * (double)layout->data;
    made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] =
        ask->weights == PROTO_WEIGHTS_INT8
            ? launch_int8_weight_bytes(model, tensor, number_bytes)
            : launch_stage_params(model, &whole, tensor) * number_bytes;
    made->memory_bytes[LAUNCH_MEMORY_CACHE] = cached;
    made->memory_bytes[LAUNCH_MEMORY_WORK] =
        launch_work_decoding_bytes(model, batch, tensor, ask->precision);
    made->total_bytes =
        made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] + cached + made->memory_bytes[LAUNCH_MEMORY_WORK];
    /* An embedding of its own is not read, but for the tokens' rows. The cache is half full in the
     * mean. */
    const double not_read =
        model->tied ? 0 : (double)model->vocab_size / tensor * row_bytes(ask, number_bytes);
    const double read = made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] - not_read + cached / 2;
    const double seen = (double)model->context / 2;
    made->compute_s = fmax(
        launch_reading_s(ask, read),
        launch_products_s(ask, launch_stage_forward_flops(model, &whole, tensor, batch, seen)));
    made->tensor_s =
        launch_bill_all_reduces(ask, made,
                                (launch_exchange){"partial sums", tensor, tensor,
                                                  launch_bill_forward_sums(&whole), row_payload});
    const launch_exchange best = {"best tokens", tensor, tensor, 1, batch * BEST_BYTES};
    launch_bill_row *row = launch_bill_add(ask, made, &best, "all_gather");
    row->sent_bytes = (tensor - 1) * best.payload_bytes;
    row->took_s = tensor > 1 ? launch_link_over(ask, layout, tensor)->latency_s : 0;
    made->tensor_s += row->took_s;
    made->step_s = made->compute_s + made->tensor_s;
}
