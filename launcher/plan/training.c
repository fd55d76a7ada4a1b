/* Adds up what a step of training needs and takes. Called by estimate.c. */
#include <math.h>

#include "plan/bill.h"
#include "plan/experts.h"
#include "plan/muon.h"
#include "plan/step.h"
#include "plan/times.h"
#include "plan/work.h"
#include "plan/zero.h"

enum {
    GRADIENT_BYTES = 4,
    MOMENT_BYTES = 8,   /* AdamW's two */
    OUTER_BYTES = 8,    /* of local steps: common parameters, and the outer steps' momentum */
    OUTER_MOVED = 36,   /* two read and one written for the changes, three and three for the step */
    SOFTMAX_FLOATS = 3, /* of a token: maximum, sum, the target's logit */
    HEAD_NORMS = 2,     /* of a layer: of queries and of keys */
    TASK_S_MAX = 1000,
};

/* The micro-batches' rows that a stage sends on: forward to the next, backward to the one before. */
static double sends(const launch_estimate *made, int stage)
{
    const int last = made->run.pipeline.stages * made->run.pipeline.chunks - 1;
    double count = 0;
    for (int at = stage; at <= last; at += made->run.pipeline.stages) {
        count += (at < last ? 1 : 0) + (at > 0 ? 1 : 0);
    }
    return count * made->run.pipeline.micro_batches;
}

/* So many of the most messages that one stage sends to another. Returns the seconds that they take. */
static double add_sends(const launch_ask *ask, launch_estimate *made, const char *what,
                        double times, double payload_bytes)
{
    const int64_t span = launch_layout_ranks(&made->layout);
    const launch_exchange of = {what, 2, span, times, payload_bytes};
    launch_bill_row *row = launch_bill_add(ask, made, &of, "send");
    row->sent_bytes = times * payload_bytes;
    row->took_s = times * launch_hop_s(launch_link_over(ask, &made->layout, span), payload_bytes);
    return row->took_s;
}

/* Of the matrix that the first stage and the last both have: a gradient for each micro-batch, which
 * the stages' tasks wait for, and their sum back. */
static double tied_bytes(const launch_ask *ask, const launch_layout *layout)
{
    const bool tied = layout->pipeline > 1 && ask->model.tied;
    const double params = (double)ask->model.vocab_size * (double)ask->model.width;
    return tied ? params * GRADIENT_BYTES / (double)layout->tensor : 0;
}

static void add_tied(const launch_ask *ask, launch_estimate *made)
{
    const double bytes = tied_bytes(ask, &made->layout);
    const double times = bytes > 0 ? made->run.pipeline.micro_batches : 0;
    (void)add_sends(ask, made, "tied gradient", times, bytes);
    const double back_s = add_sends(ask, made, "tied sum", bytes > 0 ? 1 : 0, bytes);
    made->gradients_s += back_s;
    made->gradients_exposed_s += back_s;
}

/* What a rank of a stage has of everything. */
typedef struct share {
    double params;            /* with adapters */
    double trained;           /* of those: the adapters', or all */
    double apart;             /* of those: experts that ranks share out */
    double activations_bytes; /* of one micro-batch in one chunk, in the mean */
    double forward_s;         /* all chunks' products */
    double backward_s;        /* without what it does again */
    double repeated_s;
    launch_stage part; /* all chunks of it */
} share;

/* A rank's tokens of a micro-batch: the most that one has. */
static double micro_tokens(const launch_ask *ask, const launch_layout *layout)
{
    return ceil((double)ask->batch * (double)ask->model.context / (double)layout->context_ranks);
}

/* What a part's products take for a micro-batch. */
typedef struct products {
    double forward_s;
    double backward_s; /* without what is done again */
    double repeated_s;
    double weights_s; /* of backward_s: what a schedule may put off */
} products;

static products time_products(const launch_ask *ask, const launch_layout *layout,
                              const launch_stage *part)
{
    const launch_model *model = &ask->model;
    const int tensor = (int)layout->tensor;
    const double tokens = micro_tokens(ask, layout);
    const double seen = launch_model_seen(model);
    const double adapters = launch_adapters_flops(&ask->adapters, part, tokens);
    const double forward = launch_stage_forward_flops(model, part, tensor, tokens, seen);
    const double backward =
        launch_stage_backward_flops(model, part, tensor, tokens, seen, ask->adapters.rank > 0);
    const double again = launch_stage_repeated_flops(model, part, tensor, tokens, seen);
    return (products){
        .forward_s = launch_products_s(ask, forward + adapters),
        .backward_s = launch_products_s(ask, backward + 3 * adapters),
        .repeated_s = ask->recompute ? launch_products_s(ask, again + adapters) : 0,
        .weights_s =
            launch_products_s(ask, launch_stage_weights_flops(model, part, tensor, tokens)),
    };
}

static double trained_params(const launch_ask *ask, const launch_layout *layout,
                             const launch_stage *part)
{
    return ask->adapters.rank > 0 ? launch_adapters_params(&ask->adapters, part)
                                  : launch_experts_held_params(ask, layout, part);
}

/* What a rank keeps of a micro-batch in one part. */
static double activation_bytes(const launch_ask *ask, const launch_estimate *made,
                               const launch_stage *part)
{
    const launch_layout *layout = &made->layout;
    const int tensor = (int)layout->tensor;
    const double tokens = micro_tokens(ask, layout);
    const double come = ask->recompute ? 0 : launch_experts_row_bytes(ask, layout, tokens);
    const double put_off =
        proto_pipeline_splits(&made->run.pipeline)
            ? launch_stage_put_off_bytes(&ask->model, part, tensor, tokens, ask->precision)
            : 0;
    return launch_stage_activation_bytes(&ask->model, part, tensor, tokens, ask->precision,
                                         ask->recompute) +
           (double)part->layers * come + put_off;
}

static share share_of(const launch_ask *ask, const launch_estimate *made, int stage)
{
    const int stages = made->run.pipeline.stages;
    const int chunks = made->run.pipeline.chunks;
    const launch_layout *layout = &made->layout;
    share own = {.params = 0};
    for (int at = stage; at < stages * chunks; at += stages) {
        const launch_stage part = launch_model_stage(&ask->model, stages * chunks, at);
        own.params += launch_experts_held_params(ask, layout, &part) +
                      launch_adapters_params(&ask->adapters, &part);
        own.trained += trained_params(ask, layout, &part);
        own.apart += launch_experts_apart_params(ask, layout, &part);
        own.activations_bytes += activation_bytes(ask, made, &part) / chunks;
        const products each = time_products(ask, layout, &part);
        own.forward_s += each.forward_s;
        own.backward_s += each.backward_s;
        own.repeated_s += each.repeated_s;
        own.part.layers += part.layers;
        own.part.embeds = own.part.embeds || part.embeds;
        own.part.answers = own.part.answers || part.answers;
    }
    return own;
}

/* Of a rank of a stage. */
static double work_bytes(const launch_ask *ask, const launch_layout *layout, const share *own)
{
    const double tokens = micro_tokens(ask, layout);
    const launch_work work = {.tokens = tokens,
                              .tensor = (int)layout->tensor,
                              .context_ranks = (int)layout->context_ranks,
                              .expert_ranks = (int)launch_layout_expert_ranks(layout),
                              .precision = ask->precision,
                              .adapter_rank = ask->adapters.rank,
                              .answers = own->part.answers,
                              .recompute = ask->recompute};
    return launch_work_training_bytes(&ask->model, &work) +
           (ask->recompute ? launch_experts_row_bytes(ask, layout, tokens) : 0);
}

void launch_step_training_memory(const launch_ask *ask, launch_estimate *made)
{
    const launch_layout *layout = &made->layout;
    const double micro_batches = made->run.pipeline.micro_batches;
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        const launch_zero_part part = {own.part, own.params, own.trained, own.apart};
        const double held = proto_pipeline_held(&made->run.pipeline, stage);
        const double bytes[LAUNCH_MEMORY_COUNT] = {
            [LAUNCH_MEMORY_WEIGHTS] = launch_zero_weight_bytes(ask, layout, &part),
            [LAUNCH_MEMORY_GRADIENTS] =
                launch_zero_gradient_bytes(ask, layout, &part, micro_batches),
            [LAUNCH_MEMORY_OPTIMIZER] =
                MOMENT_BYTES *
                    launch_zero_kept(ask, layout, PROTO_ZERO_MOMENTS, own.trained, own.apart) +
                (launch_ask_local_steps(ask) > 1 ? OUTER_BYTES * own.trained : 0) +
                launch_muon_room_bytes(ask),
            [LAUNCH_MEMORY_ACTIVATIONS] = own.activations_bytes * held,
            [LAUNCH_MEMORY_WORK] = work_bytes(ask, layout, &own),
        };
        double total = 0;
        for (int use = 0; use < LAUNCH_MEMORY_COUNT; use++) {
            total += bytes[use];
        }
        if (total > made->total_bytes) {
            made->total_bytes = total;
            made->stage = stage;
            for (int use = 0; use < LAUNCH_MEMORY_COUNT; use++) {
                made->memory_bytes[use] = bytes[use];
            }
        }
    }
}

/* Backward has as many as forward. One more where logits came from, and of each layer that is computed
 * again: behind attention, and behind an MLP whose sum has a norm. */
static double backward_sums(const launch_ask *ask, const launch_stage *part)
{
    const double again = !ask->recompute ? 0 : ask->model.after_norms ? 2 : 1;
    const double of_layer = launch_bill_layer_sums(&ask->model) + again;
    return of_layer * (double)part->layers + (part->answers ? 1 : 0);
}

/* How often backward exchanges what forward does once: again what a layer that is computed again needs. */
static double backward_exchanges(const launch_ask *ask)
{
    return ask->recompute ? 2 : 1;
}

/* Seconds of one exchange of each kind among the ranks that share a layer, and of a layer's two among those
 * that share tokens. */
typedef struct exchanges {
    double row_s;
    double softmax_s;
    double head_norms_s;
    double heads_s;
    launch_experts_times experts; /* of a layer */
} exchanges;

static double row_bytes(const launch_ask *ask, const launch_layout *layout)
{
    return micro_tokens(ask, layout) * (double)ask->model.width * LAUNCH_EXCHANGED_BYTES;
}

static double softmax_bytes(const launch_ask *ask, const launch_layout *layout)
{
    return micro_tokens(ask, layout) * SOFTMAX_FLOATS * sizeof(float);
}

/* The gradients of a layer's norms of heads: each rank has its own heads' part of them. */
static double head_norm_bytes(const launch_ask *ask)
{
    const double width = ask->model.head_norms ? (double)ask->model.head_width : 0;
    return HEAD_NORMS * width * LAUNCH_EXCHANGED_BYTES;
}

/* Attention's output of a rank's tokens: all of its heads. */
static double output_bytes(const launch_ask *ask, const launch_layout *layout)
{
    return micro_tokens(ask, layout) * (double)launch_model_queries(&ask->model) /
           (double)layout->tensor * LAUNCH_EXCHANGED_BYTES;
}

/* Queries, keys and values. Heads of keys and values go once for each head of queries that shares them, but where
 * each rank has all of these. */
static double qkv_bytes(const launch_ask *ask, const launch_layout *layout)
{
    const launch_model *model = &ask->model;
    const bool once = model->kv_heads % (layout->tensor * layout->context_ranks) == 0;
    const double keys = (double)(once ? model->kv_heads : model->heads) / (double)model->heads;
    return output_bytes(ask, layout) * (1 + 2 * keys);
}

static exchanges time_exchanges(const launch_ask *ask, const launch_layout *layout)
{
    const int ranks = (int)layout->context_ranks;
    const coll_tp_link *link = launch_link_over(ask, layout, layout->tensor);
    const coll_tp_link *shared = launch_link_over(ask, layout, layout->tensor * ranks);
    return (exchanges){
        .row_s = coll_allreduce_time_s(row_bytes(ask, layout), (int)layout->tensor, link),
        .softmax_s = coll_allreduce_time_s(softmax_bytes(ask, layout), (int)layout->tensor, link),
        .heads_s = (coll_allreduce_time_s(qkv_bytes(ask, layout), ranks, shared) +
                    coll_allreduce_time_s(output_bytes(ask, layout), ranks, shared)) /
                   2,
        .head_norms_s = ask->model.head_norms
                            ? coll_allreduce_time_s(head_norm_bytes(ask), (int)layout->tensor, link)
                            : 0,
        .experts = launch_experts_time(ask, layout, micro_tokens(ask, layout)),
    };
}

/* Adding a micro-batch's gradient to the others': m - 1 of m do, and two are read and one written. */
static double merge_s(const launch_ask *ask, const launch_estimate *made, double params)
{
    const double micro_batches = made->run.pipeline.micro_batches;
    const double kept = launch_zero_kept(ask, &made->layout, PROTO_ZERO_GRADIENTS, params, 0);
    return launch_reading_s(ask, 3 * GRADIENT_BYTES * kept) * (micro_batches - 1) / micro_batches;
}

/* What nothing hides of a part, in one direction each. */
static double forward_exchanges_s(const launch_ask *ask, const exchanges *each,
                                  const launch_stage *part)
{
    const double of_layer =
        each->heads_s + each->experts.tensor_forward_s + each->experts.rows_forward_s;
    return launch_bill_forward_sums(&ask->model, part) * each->row_s +
           (double)part->layers * of_layer + (part->answers ? each->softmax_s : 0);
}

static double backward_exchanges_s(const launch_ask *ask, const exchanges *each,
                                   const launch_stage *part)
{
    const double of_layer = each->head_norms_s + backward_exchanges(ask) * each->heads_s +
                            each->experts.tensor_backward_s + each->experts.rows_backward_s;
    return backward_sums(ask, part) * each->row_s + (double)part->layers * of_layer;
}

static base_status play(const launch_ask *ask, launch_estimate *made, base_error *reterr)
{
    const launch_layout *layout = &made->layout;
    const int all = made->run.pipeline.stages * made->run.pipeline.chunks;
    const exchanges each = time_exchanges(ask, layout);
    launch_pipeline_part parts[PROTO_PIPELINE_PARTS_MAX];
    for (int at = 0; at < all; at++) {
        const launch_stage part = launch_model_stage(&ask->model, all, at);
        const products own = time_products(ask, layout, &part);
        const double trained = trained_params(ask, layout, &part);
        const launch_stage blocks = {.layers = part.layers};
        const double weights_s =
            own.weights_s + merge_s(ask, made, trained_params(ask, layout, &blocks));
        const double forward_s = own.forward_s + forward_exchanges_s(ask, &each, &part);
        const double copied = part.answers ? 2 * tied_bytes(ask, layout) : 0; /* read and written */
        const double backward_s = own.backward_s + own.repeated_s +
                                  backward_exchanges_s(ask, &each, &part) +
                                  merge_s(ask, made, trained) + launch_reading_s(ask, copied);
        if (!(backward_s < TASK_S_MAX)) {
            return base_fail(reterr, BASE_ERR_LIMIT, "a micro-batch takes longer than %d s",
                             TASK_S_MAX);
        }
        parts[at] = (launch_pipeline_part){.forward_ns = llround(forward_s * 1e9),
                                           .backward_ns = llround(backward_s * 1e9),
                                           .weights_ns = llround(weights_s * 1e9)};
    }
    const int64_t span = launch_layout_ranks(layout);
    const coll_tp_link *link = launch_link_over(ask, layout, span);
    const double tied = tied_bytes(ask, layout);
    const double hop = launch_hop_s(link, row_bytes(ask, layout));
    const double tied_hop = tied > 0 ? launch_hop_s(link, tied) : 0;
    const launch_pipeline_costs costs = {.parts = parts,
                                         .hop_ns = llround(fmin(hop, TASK_S_MAX) * 1e9),
                                         .tied_ns = llround(fmin(tied_hop, TASK_S_MAX) * 1e9)};
    const proto_pipeline pipeline = made->run.pipeline;
    return launch_pipeline_run_make(&pipeline, &costs, &made->run, reterr);
}

/* All-reduces of rows that a rank of the stage takes part in, for one micro-batch. */
static double rows_of(const launch_ask *ask, const share *own)
{
    return launch_bill_forward_sums(&ask->model, &own->part) + backward_sums(ask, &own->part);
}

/* What backward computes of a micro-batch. */
static double backward_s(const share *own)
{
    return own->backward_s + own->repeated_s;
}

/* The exchanges of so many layers before attention and behind it, and of their gradients. */
static void add_heads(const launch_ask *ask, launch_estimate *made, double layers)
{
    const launch_layout *layout = &made->layout;
    launch_exchange of = {.what = "q, k and v",
                          .ranks = layout->context_ranks,
                          .span = layout->tensor * layout->context_ranks,
                          .times = (1 + backward_exchanges(ask)) * layers *
                                   made->run.pipeline.micro_batches,
                          .payload_bytes = qkv_bytes(ask, layout)};
    (void)launch_bill_halves(ask, made, of, "all_to_all");
    of.what = "attention";
    of.payload_bytes = output_bytes(ask, layout);
    (void)launch_bill_halves(ask, made, of, "all_to_all");
}

/* The rows of the bill; each is of the stage with most of its kind. */
static void add_bill(const launch_ask *ask, launch_estimate *made, const share *slowest)
{
    const launch_layout *layout = &made->layout;
    const double micro_batches = made->run.pipeline.micro_batches;
    double params = 0;
    double trained = 0;
    double rows = 0;
    double layers = 0;
    double streams = 0;
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        streams = fmax(streams, sends(made, stage));
        params = fmax(params, own.params);
        trained = fmax(trained, own.trained);
        rows = fmax(rows, rows_of(ask, &own));
        layers = fmax(layers, (double)own.part.layers);
    }
    launch_zero_bill(ask, made, &(launch_zero_part){slowest->part, params, trained, slowest->apart},
                     backward_s(slowest));
    (void)launch_bill_all_reduces(ask, made,
                                  (launch_exchange){"partial sums", layout->tensor, layout->tensor,
                                                    rows * micro_batches, row_bytes(ask, layout)});
    (void)launch_bill_all_reduces(ask, made,
                                  (launch_exchange){"softmax", layout->tensor, layout->tensor,
                                                    micro_batches, softmax_bytes(ask, layout)});
    (void)launch_bill_all_reduces(
        ask, made,
        (launch_exchange){"norms of heads", layout->tensor, layout->tensor,
                          ask->model.head_norms ? layers * micro_batches : 0,
                          head_norm_bytes(ask)});
    launch_experts_bill(ask, made, micro_tokens(ask, layout), layers * micro_batches);
    add_heads(ask, made, layers);
    (void)add_sends(ask, made, "activations", streams, row_bytes(ask, layout));
    add_tied(ask, made);
    /* parameters, gradient, both moments */
    made->optimizer_s = launch_reading_s(
        ask, 28 * launch_zero_kept(ask, layout, PROTO_ZERO_MOMENTS, trained, slowest->apart));
    launch_muon_bill(ask, made, (int64_t)layers);
    if (launch_ask_local_steps(ask) > 1) {
        made->optimizer_s +=
            launch_reading_s(ask, OUTER_MOVED * trained) / (double)ask->local_steps;
    }
}

/* The times of the stage that computes longest, and with it the step's. */
static void add_times(const launch_ask *ask, launch_estimate *made)
{
    const launch_layout *layout = &made->layout;
    const double micro_batches = made->run.pipeline.micro_batches;
    const exchanges each = time_exchanges(ask, layout);
    share slowest = {.forward_s = 0};
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        slowest = own.forward_s + backward_s(&own) > slowest.forward_s + backward_s(&slowest)
                      ? own
                      : slowest;
    }
    made->forward_s = slowest.forward_s;
    made->repeated_s = slowest.repeated_s * micro_batches;
    made->compute_s = (slowest.forward_s + slowest.backward_s) * micro_batches + made->repeated_s;
    made->merge_s = merge_s(ask, made, slowest.trained) * micro_batches;
    const double layers = (double)slowest.part.layers;
    const launch_experts_times *experts = &each.experts;
    made->tensor_s =
        micro_batches *
        (rows_of(ask, &slowest) * each.row_s +
         layers * (each.head_norms_s + experts->tensor_forward_s + experts->tensor_backward_s) +
         (slowest.part.answers ? each.softmax_s : 0));
    made->expert_s = micro_batches * layers * (experts->rows_forward_s + experts->rows_backward_s);
    made->context_s = micro_batches * (1 + backward_exchanges(ask)) * layers * each.heads_s;
    add_bill(ask, made, &slowest);
    const double whole_s = (double)made->run.result.step_ns / 1e9;
    const double busy_s =
        made->compute_s + made->merge_s + made->tensor_s + made->context_s + made->expert_s;
    made->waiting_s = layout->pipeline > 1 ? fmax(whole_s - busy_s, 0) : 0;
    made->step_s =
        whole_s + made->gradients_exposed_s + made->optimizer_s + made->parameters_exposed_s;
}

base_status launch_step_training(const launch_ask *ask, launch_estimate *made, base_error *reterr)
{
    const launch_layout *layout = &made->layout;
    made->run.pipeline = (proto_pipeline){
        .kind = layout->pipeline > 1 ? ask->schedule : PROTO_PIPELINE_1F1B,
        .stages = (int)layout->pipeline,
        .chunks = layout->pipeline > 1 ? (int)ask->chunks : 1,
        .micro_batches = (int)(ask->global_batch / (layout->data * ask->batch)),
    };
    base_status status = proto_pipeline_check(&made->run.pipeline, reterr);
    if (status == BASE_OK) {
        status = play(ask, made, reterr);
    }
    if (status == BASE_OK) {
        made->tokens = (double)ask->global_batch * (double)ask->model.context;
        add_times(ask, made);
        launch_step_training_memory(ask, made);
    }
    return status;
}
