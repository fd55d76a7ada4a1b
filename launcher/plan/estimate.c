/* Adds up what one layout needs and takes. Called by search.c, and for the layout that is shown. */
#include "plan/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "plan/work.h"

enum {
    GRADIENT_BYTES = 4,
    MOMENT_BYTES = 8,    /* AdamW's two */
    EXCHANGED_BYTES = 4, /* ranks exchange float32, so that sums do not depend on who rounds */
    BEST_BYTES = 16,     /* a rank's most probable token and its logit */
    SOFTMAX_FLOATS = 3,  /* of a token: maximum, sum, the target's logit */
    BUCKET_BYTES = 25 << 20,
    TASK_S_MAX = 1000,
};

const char *launch_memory_name(launch_memory use)
{
    static const char *const names[] = {"weights",     "gradients", "optimizer",
                                        "activations", "cache",     "work"};
    return names[use];
}

/* ---- links ---- */

/* Whether every group of `span` neighbouring ranks lies inside a host. */
static bool is_inside(const launch_ask *ask, const launch_layout *layout, int64_t span)
{
    const int64_t ranks = layout->data * layout->tensor * layout->pipeline;
    return ranks <= ask->device.host_ranks || ask->device.host_ranks % span == 0;
}

static const coll_tp_link *link_over(const launch_ask *ask, const launch_layout *layout,
                                     int64_t span)
{
    return is_inside(ask, layout, span) ? &ask->device.inside : &ask->device.between;
}

/* Until a neighbour has a message: half of what two ranks' all-reduce takes, which is two of them. */
static double hop_s(const coll_tp_link *link, double bytes)
{
    return link->latency_s / 2 + bytes / link->bandwidth_bytes_per_s;
}

static double products_s(const launch_ask *ask, double flops)
{
    return flops / (ask->device.flops[ask->precision] * ask->efficiency);
}

static double reading_s(const launch_ask *ask, double bytes)
{
    return bytes / (ask->device.memory_bytes_per_s * ask->memory_efficiency);
}

/* ---- the bill ---- */

/* An exchange of a rank with others, all of them among `span` neighbours. */
typedef struct exchange {
    const char *what;
    int64_t ranks;
    int64_t span;
    double times;
    double payload_bytes;
} exchange;

static launch_bill_row *add_row(const launch_ask *ask, launch_estimate *made, const exchange *of,
                                const char *operation)
{
    launch_bill_row *row = &made->rows[made->row_count];
    *row = (launch_bill_row){.what = of->what,
                             .operation = operation,
                             .ranks = of->ranks,
                             .between_hosts = !is_inside(ask, &made->layout, of->span),
                             .times = of->times,
                             .payload_bytes = of->payload_bytes};
    made->row_count += of->ranks > 1 && of->times > 0 ? 1 : 0;
    return row;
}

/* Returns the seconds that they take. */
static double add_all_reduces(const launch_ask *ask, launch_estimate *made, exchange of)
{
    launch_bill_row *row = add_row(ask, made, &of, "all_reduce");
    const int ranks = (int)of.ranks;
    row->sent_bytes = of.times * coll_ring_allreduce_traffic_per_rank(of.payload_bytes, ranks);
    row->took_s = of.times * coll_allreduce_time_s(of.payload_bytes, ranks,
                                                   link_over(ask, &made->layout, of.span));
    return row->took_s;
}

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

static void add_sends(const launch_ask *ask, launch_estimate *made, double payload_bytes)
{
    const launch_layout *layout = &made->layout;
    const int64_t span = layout->tensor * layout->data * layout->pipeline;
    double most = 0;
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        most = fmax(most, sends(made, stage));
    }
    const exchange of = {"activations", layout->pipeline > 1 ? 2 : 1, span, most, payload_bytes};
    launch_bill_row *row = add_row(ask, made, &of, "send");
    row->sent_bytes = of.times * payload_bytes;
    row->took_s = of.times * hop_s(link_over(ask, layout, span), payload_bytes);
}

/* ---- one step of training ---- */

/* What a rank of a stage has of everything. */
typedef struct share {
    double params;
    double activations_bytes; /* of one micro-batch in one chunk, in the mean */
    double forward_s;         /* all chunks' products */
    double repeated_s;        /* those that backward does again */
    int64_t layers;
    bool embeds;
    bool answers;
} share;

static double micro_tokens(const launch_ask *ask)
{
    return (double)ask->batch * (double)ask->model.context;
}

/* What a part's products take for a micro-batch. */
typedef struct products {
    double forward_s;
    double repeated_s; /* in backward, beside twice as much as forward */
} products;

static products time_products(const launch_ask *ask, const launch_stage *part, int tensor)
{
    const launch_model *model = &ask->model;
    const double tokens = micro_tokens(ask);
    const double seen = (double)model->context / 2;
    return (products){
        .forward_s = products_s(ask, launch_stage_forward_flops(model, part, tensor, tokens, seen)),
        .repeated_s =
            ask->recompute
                ? products_s(ask, launch_stage_repeated_flops(model, part, tensor, tokens, seen))
                : 0,
    };
}

static share share_of(const launch_ask *ask, const launch_estimate *made, int stage)
{
    const int stages = made->run.pipeline.stages;
    const int chunks = made->run.pipeline.chunks;
    const int tensor = (int)made->layout.tensor;
    const double tokens = micro_tokens(ask);
    share own = {.params = 0};
    for (int at = stage; at < stages * chunks; at += stages) {
        const launch_stage part = launch_model_stage(&ask->model, stages * chunks, at);
        own.params += launch_stage_params(&ask->model, &part, tensor);
        own.activations_bytes += launch_stage_activation_bytes(&ask->model, &part, tensor, tokens,
                                                               ask->precision, ask->recompute) /
                                 chunks;
        const products each = time_products(ask, &part, tensor);
        own.forward_s += each.forward_s;
        own.repeated_s += each.repeated_s;
        own.layers += part.layers;
        own.embeds = own.embeds || part.embeds;
        own.answers = own.answers || part.answers;
    }
    return own;
}

static void add_memory(const launch_ask *ask, launch_estimate *made)
{
    const double weight_bytes = ask->precision == PROTO_PRECISION_BFLOAT16 ? 6 : 4;
    /* micro-batches are added up as a tree: a gradient for each level */
    const double trees = 1 + floor(log2(made->run.pipeline.micro_batches));
    /* an all-reduce has a piece from each replica, and their sum */
    const double data = (double)made->layout.data;
    const double pieces = data > 1 ? 1 + 1 / data : 0;
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        const double held = proto_pipeline_held(&made->run.pipeline, stage);
        const double bytes[LAUNCH_MEMORY_COUNT] = {
            [LAUNCH_MEMORY_WEIGHTS] = own.params * weight_bytes,
            [LAUNCH_MEMORY_GRADIENTS] = own.params * GRADIENT_BYTES * (trees + pieces),
            [LAUNCH_MEMORY_OPTIMIZER] = own.params * MOMENT_BYTES,
            [LAUNCH_MEMORY_ACTIVATIONS] = own.activations_bytes * held,
            [LAUNCH_MEMORY_WORK] = launch_work_training_bytes(
                &ask->model, &(launch_work){.tokens = micro_tokens(ask),
                                            .tensor = (int)made->layout.tensor,
                                            .precision = ask->precision,
                                            .answers = own.answers,
                                            .recompute = ask->recompute}),
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

/* All-reduces of whole rows, going forward. One more where tokens are looked up. */
static double forward_sums(const launch_stage *part)
{
    return COLL_TP_ALL_REDUCES_PER_LAYER * (double)part->layers + (part->embeds ? 1 : 0);
}

/* Backward has as many. One more where logits came from, and of each layer that is computed again:
 * behind attention. */
static double backward_sums(const launch_ask *ask, const launch_stage *part)
{
    const double of_layer = COLL_TP_ALL_REDUCES_PER_LAYER + (ask->recompute ? 1 : 0);
    return of_layer * (double)part->layers + (part->answers ? 1 : 0);
}

/* Seconds of one exchange of each kind among the ranks that share a layer. */
typedef struct sums {
    double row_s;
    double softmax_s;
} sums;

static double row_bytes(const launch_ask *ask)
{
    return micro_tokens(ask) * (double)ask->model.width * EXCHANGED_BYTES;
}

static double softmax_bytes(const launch_ask *ask)
{
    return micro_tokens(ask) * SOFTMAX_FLOATS * sizeof(float);
}

static sums time_sums(const launch_ask *ask, const launch_layout *layout)
{
    const coll_tp_link *link = link_over(ask, layout, layout->tensor);
    return (sums){
        .row_s = coll_allreduce_time_s(row_bytes(ask), (int)layout->tensor, link),
        .softmax_s = coll_allreduce_time_s(softmax_bytes(ask), (int)layout->tensor, link),
    };
}

/* Adding a micro-batch's gradient to the others': m - 1 of m do, and two are read and one written. */
static double merge_s(const launch_ask *ask, const launch_estimate *made, double params)
{
    const double micro_batches = made->run.pipeline.micro_batches;
    return reading_s(ask, 3 * GRADIENT_BYTES * params) * (micro_batches - 1) / micro_batches;
}

static base_status play(const launch_ask *ask, launch_estimate *made, base_error *reterr)
{
    const launch_layout *layout = &made->layout;
    const int all = made->run.pipeline.stages * made->run.pipeline.chunks;
    const sums each = time_sums(ask, layout);
    int64_t forward_ns[PROTO_PIPELINE_PARTS_MAX];
    int64_t backward_ns[PROTO_PIPELINE_PARTS_MAX];
    for (int at = 0; at < all; at++) {
        const launch_stage part = launch_model_stage(&ask->model, all, at);
        const products own = time_products(ask, &part, (int)layout->tensor);
        const double params = launch_stage_params(&ask->model, &part, (int)layout->tensor);
        const double forward_s =
            own.forward_s + forward_sums(&part) * each.row_s + (part.answers ? each.softmax_s : 0);
        const double backward_s = 2 * own.forward_s + own.repeated_s +
                                  backward_sums(ask, &part) * each.row_s +
                                  merge_s(ask, made, params);
        if (!(backward_s < TASK_S_MAX)) {
            return base_fail(reterr, BASE_ERR_LIMIT, "a micro-batch takes longer than %d s",
                             TASK_S_MAX);
        }
        forward_ns[at] = llround(forward_s * 1e9);
        backward_ns[at] = llround(backward_s * 1e9);
    }
    const int64_t span = layout->tensor * layout->data * layout->pipeline;
    const double hop = hop_s(link_over(ask, layout, span), row_bytes(ask));
    const launch_pipeline_costs costs = {.forward_ns = forward_ns,
                                         .backward_ns = backward_ns,
                                         .hop_ns = llround(fmin(hop, TASK_S_MAX) * 1e9)};
    const proto_pipeline pipeline = made->run.pipeline;
    return launch_pipeline_run_make(&pipeline, &costs, &made->run, reterr);
}

/* All-reduces of rows that a rank of the stage takes part in, for one micro-batch. */
static double rows_of(const launch_ask *ask, const share *own)
{
    const launch_stage all = {
        .layers = own->layers, .embeds = own->embeds, .answers = own->answers};
    return forward_sums(&all) + backward_sums(ask, &all);
}

/* What backward computes of a micro-batch. */
static double backward_s(const share *own)
{
    return 2 * own->forward_s + own->repeated_s;
}

/* The rows of the bill; each is of the stage with most of its kind. */
static void add_bill(const launch_ask *ask, launch_estimate *made, const share *slowest)
{
    const launch_layout *layout = &made->layout;
    const double micro_batches = made->run.pipeline.micro_batches;
    double params = 0;
    double rows = 0;
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        params = fmax(params, own.params);
        rows = fmax(rows, rows_of(ask, &own));
    }
    const double gradient_bytes = params * GRADIENT_BYTES;
    const double buckets = ceil(gradient_bytes / BUCKET_BYTES);
    const double tied_bytes = (double)ask->model.vocab_size * (double)ask->model.width *
                              GRADIENT_BYTES / (double)layout->tensor;
    made->gradients_s =
        add_all_reduces(ask, made,
                        (exchange){"gradients", layout->data, layout->tensor * layout->data,
                                   buckets, gradient_bytes / buckets});
    (void)add_all_reduces(ask, made,
                          (exchange){"partial sums", layout->tensor, layout->tensor,
                                     rows * micro_batches, row_bytes(ask)});
    (void)add_all_reduces(
        ask, made,
        (exchange){"softmax", layout->tensor, layout->tensor, micro_batches, softmax_bytes(ask)});
    add_sends(ask, made, row_bytes(ask));
    const double tied_s = add_all_reduces(
        ask, made,
        (exchange){"tied embedding", layout->pipeline > 1 && ask->model.tied ? 2 : 1,
                   layout->tensor * layout->data * layout->pipeline, 1, tied_bytes});
    made->optimizer_s = reading_s(ask, 28 * params); /* parameters, gradient, both moments */
    /* the last micro-batch's backward pass hides all buckets but the last one */
    made->gradients_exposed_s =
        fmax(made->gradients_s - backward_s(slowest), made->gradients_s / fmax(buckets, 1)) +
        tied_s;
    made->gradients_s += tied_s;
}

/* The times of the stage that computes longest, and with it the step's. */
static void add_times(const launch_ask *ask, launch_estimate *made)
{
    const launch_layout *layout = &made->layout;
    const double micro_batches = made->run.pipeline.micro_batches;
    const sums each = time_sums(ask, layout);
    share slowest = {.forward_s = 0};
    for (int stage = 0; stage < made->run.pipeline.stages; stage++) {
        const share own = share_of(ask, made, stage);
        slowest = own.forward_s + backward_s(&own) > slowest.forward_s + backward_s(&slowest)
                      ? own
                      : slowest;
    }
    made->forward_s = slowest.forward_s;
    made->repeated_s = slowest.repeated_s * micro_batches;
    made->compute_s = 3 * slowest.forward_s * micro_batches + made->repeated_s;
    made->merge_s = merge_s(ask, made, slowest.params) * micro_batches;
    made->tensor_s = micro_batches *
                     (rows_of(ask, &slowest) * each.row_s + (slowest.answers ? each.softmax_s : 0));
    add_bill(ask, made, &slowest);
    const double whole_s = (double)made->run.result.step_ns / 1e9;
    const double busy_s = made->compute_s + made->merge_s + made->tensor_s;
    made->waiting_s = layout->pipeline > 1 ? fmax(whole_s - busy_s, 0) : 0;
    made->step_s = whole_s + made->gradients_exposed_s + made->optimizer_s;
}

static base_status estimate_training(const launch_ask *ask, launch_estimate *made,
                                     base_error *reterr)
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
        add_memory(ask, made);
    }
    return status;
}

/* ---- one step of decoding ---- */

static void estimate_decoding(const launch_ask *ask, launch_estimate *made)
{
    const launch_model *model = &ask->model;
    const launch_layout *layout = &made->layout;
    const int tensor = (int)layout->tensor;
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const double number_bytes = ask->precision == PROTO_PRECISION_BFLOAT16 ? 2 : 4;
    const double batch = (double)ask->batch;
    const double cached = batch * (double)model->context * 2 * (double)launch_model_keys(model) *
                          (double)model->layers / tensor * number_bytes;
    const double row_payload = batch * (double)model->width * EXCHANGED_BYTES;
    made->run.pipeline = (proto_pipeline){.stages = 1, .chunks = 1, .micro_batches = 1};
    made->tokens = batch * (double)layout->data;
    made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] =
        launch_stage_params(model, &whole, tensor) * number_bytes;
    made->memory_bytes[LAUNCH_MEMORY_CACHE] = cached;
    made->memory_bytes[LAUNCH_MEMORY_WORK] =
        launch_work_decoding_bytes(model, batch, tensor, ask->precision);
    made->total_bytes =
        made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] + cached + made->memory_bytes[LAUNCH_MEMORY_WORK];
    /* An embedding of its own is not read, but for the tokens' rows. The cache is half full in the
     * mean. */
    const double not_read =
        model->tied ? 0 : (double)model->vocab_size * (double)model->width / tensor * number_bytes;
    const double read = made->memory_bytes[LAUNCH_MEMORY_WEIGHTS] - not_read + cached / 2;
    const double seen = (double)model->context / 2;
    made->compute_s =
        fmax(reading_s(ask, read),
             products_s(ask, launch_stage_forward_flops(model, &whole, tensor, batch, seen)));
    made->tensor_s = add_all_reduces(
        ask, made, (exchange){"partial sums", tensor, tensor, forward_sums(&whole), row_payload});
    const exchange best = {"best tokens", tensor, tensor, 1, batch * BEST_BYTES};
    launch_bill_row *row = add_row(ask, made, &best, "all_gather");
    row->sent_bytes = (tensor - 1) * best.payload_bytes;
    row->took_s = tensor > 1 ? link_over(ask, layout, tensor)->latency_s : 0;
    made->tensor_s += row->took_s;
    made->step_s = made->compute_s + made->tensor_s;
}

/* What a rank of a training would hold with recompute. */
static double with_recompute(const launch_ask *ask, const launch_estimate *made)
{
    launch_ask again = *ask;
    launch_estimate other = *made;
    again.recompute = true;
    other.total_bytes = 0;
    add_memory(&again, &other);
    return other.total_bytes;
}

base_status launch_estimate_make(const launch_ask *ask, const launch_layout *layout,
                                 launch_estimate *estimate, base_error *reterr)
{
    *estimate = (launch_estimate){.layout = *layout};
    base_status status = launch_layout_check(ask, layout, reterr);
    if (status == BASE_OK && ask->decode) {
        estimate_decoding(ask, estimate);
    } else if (status == BASE_OK) {
        status = estimate_training(ask, estimate, reterr);
    }
    estimate->fits = estimate->total_bytes <= ask->device.memory_bytes;
    if (status == BASE_OK && !estimate->fits && !ask->decode && !ask->recompute) {
        const double least = with_recompute(ask, estimate);
        estimate->recompute_bytes = least <= ask->device.memory_bytes ? least : 0;
    }
    return status;
}

void launch_estimate_fini(launch_estimate *estimate)
{
    launch_pipeline_run_fini(&estimate->run);
}
