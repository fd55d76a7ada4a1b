/* Adds up what ZeRO leaves on each copy of the model, and prices its exchanges. Called by training.c. */
#include "plan/zero.h"

#include <math.h>

#include "plan/bill.h"

enum {
    FLOAT_BYTES = 4,   /* of a parameter, of a gradient */
    ROUNDED_BYTES = 2, /* of a parameter's copy in bfloat16 */
    BUCKET_BYTES = 25 << 20,
    CUT_PARAMS = 1024, /* ranks cut at multiples of so many */
};

/* Ranks that have the same experts. */
static int64_t expert_copies(const launch_layout *layout)
{
    return launch_layout_copies(layout) / launch_layout_expert_ranks(layout);
}

/* Of so many parameters, those of the copy with most: ranks share out whole blocks, and the last
 * one may be short. */
static double shard_of(double params, double copies)
{
    const double blocks = ceil(params / CUT_PARAMS);
    const double least = floor(blocks / copies);
    const double more =
        blocks - least * copies; /* copies with a block more: the last one, then others */
    const double last = params - (blocks - least - (more > 0)) * CUT_PARAMS;
    const double others = copies > 1 ? (least + (more > 1)) * CUT_PARAMS : 0;
    return fmax(last, others);
}

double launch_zero_kept(const launch_ask *ask, const launch_layout *layout, proto_zero stage,
                        double params, double apart)
{
    return launch_layout_zero(ask, layout) < stage ? params
           : apart > 0 ? (params - apart) / (double)launch_layout_copies(layout) +
                             apart / (double)expert_copies(layout)
                       : shard_of(params, (double)launch_layout_copies(layout));
}

/* What is gathered, and whose gradients backward makes, one after the other. In parameters. */
typedef struct sizes {
    double layer;
    double embedding;
    double output;  /* with the final norm */
    double tied;    /* the matrix that is in both; 0: each has its own */
    double largest; /* of the three */
} sizes;

static sizes sizes_of(const launch_ask *ask, const launch_layout *layout, const launch_stage *part)
{
    const launch_model *model = &ask->model;
    const int tensor = (int)layout->tensor;
    sizes of = {.layer = launch_stage_params(model, &(launch_stage){.layers = 1}, tensor)};
    if (part->embeds) {
        of.embedding = launch_stage_params(model, &(launch_stage){.embeds = true}, tensor);
    }
    if (part->answers) {
        of.output = launch_stage_params(model, &(launch_stage){.answers = true}, tensor);
    }
    if (part->embeds && part->answers && model->tied) {
        of.tied = (double)model->vocab_size * (double)model->width / tensor;
    }
    of.largest = fmax(of.layer, fmax(of.embedding, of.output));
    return of;
}

/* A layer, and what comes next: the rank's own pieces of both are in its shard. */
double launch_zero_weight_bytes(const launch_ask *ask, const launch_layout *layout,
                                const launch_zero_part *part)
{
    const double rounded = ask->precision == PROTO_PRECISION_BFLOAT16 ? ROUNDED_BYTES : 0;
    const double copies = (double)launch_layout_copies(layout);
    const sizes of = sizes_of(ask, layout, &part->stage);
    if (launch_layout_zero(ask, layout) < PROTO_ZERO_PARAMETERS) {
        return part->params * (FLOAT_BYTES + rounded);
    }
    const double gathered =
        of.layer + (part->stage.layers > 1 ? of.largest : fmax(of.embedding, of.output));
    return shard_of(part->params, copies) * FLOAT_BYTES +
           gathered * ((copies - 1) / copies * FLOAT_BYTES + rounded);
}

/* Of an exchange of so many parameters' gradients: a piece from each copy, and their sum. */
static double pieces(double params, int64_t copies)
{
    return copies > 1 ? params * (1 + 1 / (double)copies) : 0;
}

double launch_zero_gradient_bytes(const launch_ask *ask, const launch_layout *layout,
                                  const launch_zero_part *part, double micro_batches)
{
    /* micro-batches are added up as a tree: a gradient for each level */
    const double trees = 1 + floor(log2(micro_batches));
    const double copies = (double)launch_layout_copies(layout);
    const sizes of = sizes_of(ask, layout, &part->stage);
    if (launch_layout_zero(ask, layout) < PROTO_ZERO_GRADIENTS) {
        return FLOAT_BYTES * (part->trained * trees +
                              pieces(part->trained - part->apart, launch_layout_copies(layout)) +
                              pieces(part->apart, expert_copies(layout)));
    }
    /* backward adds to a tied matrix's gradient first and last, so it has that one all the time */
    const double whole =
        of.tied + fmax(of.layer, fmax(of.embedding - of.tied, of.output - of.tied));
    return FLOAT_BYTES * (trees * shard_of(part->trained, copies) + whole + of.largest);
}

static launch_exchange exchange_of(const launch_estimate *made, const char *what, double times,
                                   double params)
{
    const int64_t copies = launch_layout_copies(&made->layout);
    return (launch_exchange){.what = what,
                             .ranks = copies,
                             .span = made->layout.tensor * copies,
                             .times = times,
                             .payload_bytes = params * LAUNCH_EXCHANGED_BYTES};
}

static double gather(const launch_ask *ask, launch_estimate *made, const char *what, double times,
                     double params)
{
    return launch_bill_halves(ask, made, exchange_of(made, what, times, params), "all_gather");
}

/* Gathers whatever a micro-batch needs while it computes. Returns what they leave of its backward pass. */
static double gather_layers(const launch_ask *ask, launch_estimate *made, const launch_stage *part,
                            double backward_s)
{
    const sizes of = sizes_of(ask, &made->layout, part);
    const double micro_batches = made->run.pipeline.micro_batches;
    const double layers = (double)part->layers;
    /* backward finds the output and the last layer in place */
    const double each = 2 * layers - 1;
    const double layers_s = gather(ask, made, "layers", each * micro_batches, of.layer);
    const double embedding_s = gather(ask, made, "embedding", micro_batches, of.embedding);
    const double output_s = gather(ask, made, "output", micro_batches, of.output);
    const double layer_s = layers_s / (each * micro_batches);
    const double ends_s = (embedding_s + output_s) / micro_batches;
    const double forward_exposed_s = layers * layer_s + ends_s - made->forward_s;
    const double backward_left_s = backward_s - (layers - 1) * layer_s;
    /* a step begins with gathers that have nothing to hide behind */
    const double first_s = embedding_s / micro_batches + layer_s;
    made->parameters_s = layers_s + embedding_s + output_s;
    made->parameters_exposed_s = fmax(micro_batches * forward_exposed_s, first_s) +
                                 micro_batches * fmax(-backward_left_s, 0);
    return fmax(backward_left_s, 0);
}

static double buckets_of(double params)
{
    return fmax(ceil(params * FLOAT_BYTES / BUCKET_BYTES), 1);
}

/* An exchange between the ranks that have the same experts, if ranks share them out. */
static launch_exchange own_exchange(const launch_estimate *made, const char *what, double times,
                                    double apart)
{
    const double buckets = buckets_of(apart);
    launch_exchange own = exchange_of(made, what, apart > 0 ? times * buckets : 0, apart / buckets);
    own.ranks = expert_copies(&made->layout);
    return own;
}

/* Sums of gradients over the copies, so often; of experts that ranks share out, over those that have the same. Of
 * local steps: of what they have changed, once for all. Returns the seconds that they take. */
static double add_gradients(const launch_ask *ask, launch_estimate *made,
                            const launch_zero_part *part, double rounds)
{
    const double local = (double)launch_ask_local_steps(ask);
    const double common = part->trained - part->apart;
    const double buckets = buckets_of(common);
    const launch_exchange gradients = exchange_of(made, local > 1 ? "changes" : "gradients",
                                                  rounds * buckets / local, common / buckets);
    const launch_exchange own = own_exchange(made, "expert gradient", rounds, part->apart);
    return launch_layout_zero(ask, &made->layout) == 0
               ? launch_bill_all_reduces(ask, made, gradients) +
                     launch_bill_all_reduces(ask, made, own)
               : launch_bill_halves(ask, made, gradients, "reduce_scatter") +
                     launch_bill_halves(ask, made, own, "reduce_scatter");
}

/* The parameters that have been updated, of all copies. Returns the seconds. */
static double gather_updated(const launch_ask *ask, launch_estimate *made,
                             const launch_zero_part *part)
{
    const double common = part->trained - part->apart;
    const double buckets = buckets_of(common);
    return gather(ask, made, "parameters", buckets, common / buckets) +
           launch_bill_halves(ask, made, own_exchange(made, "experts", 1, part->apart),
                              "all_gather");
}

void launch_zero_bill(const launch_ask *ask, launch_estimate *made, const launch_zero_part *part,
                      double backward_s)
{
    const int64_t stage = launch_layout_zero(ask, &made->layout);
    const bool each = stage >= PROTO_ZERO_GRADIENTS || part->apart > 0; /* of each micro-batch */
    const double rounds = each ? (double)made->run.pipeline.micro_batches : 1;
    const double buckets = buckets_of(part->trained);
    const double local = (double)launch_ask_local_steps(ask);
    made->gradients_s = add_gradients(ask, made, part, rounds);
    double hides_s = backward_s;
    if (stage == PROTO_ZERO_PARAMETERS) {
        hides_s = gather_layers(ask, made, &part->stage, backward_s);
    } else if (stage > 0) {
        made->parameters_s = gather_updated(ask, made, part);
        made->parameters_exposed_s = made->parameters_s;
    }
    if (local > 1) { /* they are known when the last step has ended */
        made->gradients_exposed_s = made->gradients_s;
        return;
    }
    /* backward hides all buckets but the step's last one */
    const double round_s = made->gradients_s / rounds;
    made->gradients_exposed_s = fmax(rounds * (round_s - hides_s), round_s / buckets);
}
