/* Prints a plan for people. Called by cli/plan_command.c. */
#include <inttypes.h>
#include <math.h>

#include "budget/money.h"
#include "pipeline/picture.h"
#include "plan/muon.h"
#include "plan/plan.h"

enum {
    TEXT_BYTES = 32,
    LAYOUTS_SHOWN = 10,
    LABELS = 10, /* of micro-batches in a picture */
    FLAGS_BYTES = 48,
};

static const double KILO = 1e3;

/* Three digits and a unit. */
static const char *scaled(double value, const char *const *units, int unit_count,
                          char text[TEXT_BYTES])
{
    int unit = 0;
    while (unit < unit_count - 1 && value >= 999.5) {
        value /= KILO;
        unit++;
    }
    const int decimals = value >= 99.95 || value == 0 || (unit == 0 && value == floor(value)) ? 0
                         : value >= 9.995                                                     ? 1
                                                                                              : 2;
    (void)snprintf(text, TEXT_BYTES, "%.*f %s", decimals, value, units[unit]);
    return text;
}

static const char *bytes(double value, char text[TEXT_BYTES])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    return scaled(value, units, sizeof units / sizeof units[0], text);
}

static const char *seconds(double value, char text[TEXT_BYTES])
{
    static const char *const units[] = {"us", "ms", "s"};
    static const double hour_s = 3600;
    if (value >= 48 * hour_s) {
        (void)snprintf(text, TEXT_BYTES, "%.1f days", value / (24 * hour_s));
    } else if (value >= hour_s) {
        (void)snprintf(text, TEXT_BYTES, "%.1f h", value / hour_s);
    } else {
        (void)scaled(value * KILO * KILO, units, sizeof units / sizeof units[0], text);
    }
    return text;
}

/* "--zero 2 --recompute". */
static const char *flags(int64_t zero, bool recompute, char text[FLAGS_BYTES])
{
    char stage[FLAGS_BYTES / 2] = "";
    if (zero > 0) {
        (void)snprintf(stage, sizeof stage, "--zero %" PRId64, zero);
    }
    (void)snprintf(text, FLAGS_BYTES, "%s%s%s", stage, zero > 0 && recompute ? " " : "",
                   recompute ? "--recompute" : "");
    return text;
}

/* The flags that a way adds to what was asked, or changes. */
static const char *way_flags(const launch_ask *ask, const launch_estimate *of, int way,
                             char text[FLAGS_BYTES])
{
    const int64_t zero = of->ways[way].zero;
    return flags(zero != launch_layout_zero(ask, &of->layout) ? zero : 0,
                 of->ways[way].recompute && !ask->recompute, text);
}

/* A GPT-2's line says nothing that follows from its width. */
static void print_model(const launch_plan *plan, FILE *stream)
{
    const launch_model *model = &plan->ask->model;
    (void)fprintf(stream, "model     %s: %" PRId64 " layers, width %" PRId64 ", %" PRId64 " heads",
                  plan->model_name, model->layers, model->width, model->heads);
    if (model->gated) {
        (void)fprintf(stream, " of %" PRId64 ", %" PRId64 " of keys and values, ",
                      model->head_width, model->kv_heads);
    }
    if (model->experts > 0) {
        (void)fprintf(stream, "%" PRId64 " of %" PRId64 " experts of %" PRId64, model->chosen,
                      model->experts, model->hidden);
    } else if (model->gated) {
        (void)fprintf(stream, "MLP %" PRId64, model->hidden);
    }
    (void)fprintf(stream, ", vocabulary %" PRId64 ", context %" PRId64, model->vocab_size,
                  model->context);
    if (model->context < model->context_max && model->gated) {
        (void)fprintf(stream, " of %" PRId64, model->context_max);
    }
    (void)fprintf(stream, "; %" PRId64 " parameters", launch_model_params(model));
    if (model->experts > 0) {
        (void)fprintf(stream, ", of which a token uses %" PRId64, launch_model_params_used(model));
    }
    if (plan->ask->adapters.rank > 0) {
        (void)fprintf(stream, ", frozen, beside %" PRId64 " of adapters: --lora %" PRId64,
                      launch_adapters_of_model(&plan->ask->adapters, &plan->ask->model),
                      plan->ask->adapters.rank);
    }
    (void)fprintf(stream, "\n");
}

/* Steps that replicas take alone. */
static void print_rounds(const launch_ask *ask, FILE *stream)
{
    if (launch_ask_local_steps(ask) > 1) {
        (void)fprintf(stream,
                      "round     %" PRId64
                      " steps that each replica takes alone; what follows is of the mean step\n",
                      ask->local_steps);
    }
}

static void print_layout(const launch_layout *layout, FILE *stream)
{
    char context[TEXT_BYTES] = "";
    char experts[TEXT_BYTES] = "";
    if (layout->context_ranks > 1) {
        (void)snprintf(context, TEXT_BYTES, "%" PRId64 " context x ", layout->context_ranks);
    }
    if (launch_layout_expert_ranks(layout) > 1) {
        (void)snprintf(experts, TEXT_BYTES, ", --expert-ranks %" PRId64, layout->expert_ranks);
    }
    (void)fprintf(stream,
                  "layout    %" PRId64 " ranks = %" PRId64 " data x %s%" PRId64 " tensor x %" PRId64
                  " pipeline%s\n",
                  launch_layout_ranks(layout), layout->data, context, layout->tensor,
                  layout->pipeline, experts);
}

static void print_head(const launch_plan *plan, FILE *stream)
{
    const launch_ask *ask = plan->ask;
    const launch_model *model = &ask->model;
    const launch_estimate *best = &plan->found->estimates[0];
    const launch_layout *layout = &best->layout;
    char texts[4][TEXT_BYTES];
    char with_text[FLAGS_BYTES];
    print_model(plan, stream);
    (void)fprintf(stream,
                  "device    %s: %.4g TFLOPS in %s, of which products reach %.0f %%; %s of memory, "
                  "%s/s\n",
                  plan->device_name, ask->device.flops[ask->precision] / 1e12,
                  proto_precision_name((int)ask->precision), 100 * ask->efficiency,
                  bytes(ask->device.memory_bytes, texts[0]),
                  bytes(ask->device.memory_bytes_per_s, texts[1]));
    (void)fprintf(stream,
                  "links     %s/s and %s inside a host of %" PRId64 ", %s/s and %s between hosts\n",
                  bytes(ask->device.inside.bandwidth_bytes_per_s, texts[0]),
                  seconds(ask->device.inside.latency_s, texts[1]), ask->device.host_ranks,
                  bytes(ask->device.between.bandwidth_bytes_per_s, texts[2]),
                  seconds(ask->device.between.latency_s, texts[3]));
    print_layout(layout, stream);
    if (ask->decode) {
        (void)fprintf(
            stream,
            "step      a token for each of %.0f sequences, %" PRId64 " on each replica%s%s\n",
            best->tokens, ask->batch,
            ask->weights == PROTO_WEIGHTS_CHECKPOINT ? "" : ", with --weights ",
            ask->weights == PROTO_WEIGHTS_CHECKPOINT ? "" : proto_weights_name((int)ask->weights));
    } else {
        const char *with = flags(launch_layout_zero(ask, layout), ask->recompute, with_text);
        const char *muon = launch_plans_muon(ask) ? "--optimizer muon" : "";
        (void)fprintf(stream,
                      "step      %.0f tokens: on each replica %d micro-batches of %" PRId64
                      " x %" PRId64 "%s%s%s%s\n",
                      best->tokens, best->run.pipeline.micro_batches, ask->batch, model->context,
                      with[0] != '\0' || muon[0] != '\0' ? ", with " : "", with,
                      with[0] != '\0' && muon[0] != '\0' ? " " : "", muon);
        print_rounds(ask, stream);
    }
}

/* Ends a layout's line. */
static void print_fit(const launch_ask *ask, const launch_estimate *of, FILE *stream)
{
    char text[FLAGS_BYTES];
    if (!of->fits && of->way_count == 0) {
        (void)fprintf(stream, "  does not fit");
    }
    for (int i = 0; i < of->way_count; i++) {
        (void)fprintf(stream, "%s%s", i == 0 ? "  fits with " : " or ",
                      way_flags(ask, of, i, text));
    }
    (void)fprintf(stream, "\n");
}

/* A column of ranks for those who have asked for some that share texts, and one for models with experts. The first
 * line is of the titles. */
static void print_columns(const launch_ask *ask, const launch_layout *layout, bool title,
                          FILE *stream)
{
    if (layout->context_ranks > 1 && title) {
        (void)fprintf(stream, " context");
    } else if (layout->context_ranks > 1) {
        (void)fprintf(stream, " %7" PRId64, layout->context_ranks);
    }
    if (ask->model.experts > 0 && !ask->decode && title) {
        (void)fprintf(stream, " expert-ranks");
    } else if (ask->model.experts > 0 && !ask->decode) {
        (void)fprintf(stream, " %12" PRId64, launch_layout_expert_ranks(layout));
    }
}

static void print_layouts(const launch_plan *plan, FILE *stream)
{
    char texts[2][TEXT_BYTES];
    if (plan->found->count == 1) {
        return;
    }
    (void)fprintf(stream, "\nLayouts of these ranks, by tokens/s; those that do not fit come last\n"
                          "  data");
    print_columns(plan->ask, &plan->found->estimates[0].layout, true, stream);
    (void)fprintf(stream, " tensor pipeline        step    tokens/s  bubble     memory\n");
    for (int i = 0; i < plan->found->count && i < LAYOUTS_SHOWN; i++) {
        const launch_estimate *each = &plan->found->estimates[i];
        (void)fprintf(stream, "%6" PRId64, each->layout.data);
        print_columns(plan->ask, &each->layout, false, stream);
        (void)fprintf(stream, " %6" PRId64 " %8" PRId64 " %11s %11.0f %5.1f %% %10s",
                      each->layout.tensor, each->layout.pipeline, seconds(each->step_s, texts[0]),
                      each->tokens / each->step_s, 100 * each->run.result.bubble,
                      bytes(each->total_bytes, texts[1]));
        print_fit(plan->ask, each, stream);
    }
    if (plan->found->count > LAYOUTS_SHOWN) {
        (void)fprintf(stream, "  and %d more\n", plan->found->count - LAYOUTS_SHOWN);
    }
}

/* Who looks for a layout that is not in the table learns why. */
static void print_left_out(const launch_found *found, FILE *stream)
{
    const launch_layout *one = &found->left_out_one;
    if (found->left_out == 0) {
        return;
    }
    (void)fprintf(stream, "%s  left out: ", found->count == 1 ? "\n" : "");
    if (found->left_out > 1) {
        (void)fprintf(stream, "%d layouts, such as ", found->left_out);
    }
    (void)fprintf(stream, "%" PRId64 " data x %" PRId64 " tensor x %" PRId64 " pipeline: %s\n",
                  one->data, one->tensor, one->pipeline, found->why);
}

static void print_memory(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    char texts[2][TEXT_BYTES];
    char way_text[FLAGS_BYTES];
    (void)fprintf(stream, "\nMemory of a rank");
    if (best->run.pipeline.stages > 1) {
        (void)fprintf(stream, " of stage %d, which needs most", best->stage);
    }
    (void)fprintf(stream, "\n");
    for (int use = 0; use < LAUNCH_MEMORY_COUNT; use++) {
        if (best->memory_bytes[use] > 0) {
            (void)fprintf(stream, "  %-12s %10s\n", launch_memory_name((launch_memory)use),
                          bytes(best->memory_bytes[use], texts[0]));
        }
    }
    (void)fprintf(stream, "  %-12s %10s of %s%s\n", "together", bytes(best->total_bytes, texts[0]),
                  bytes(plan->ask->device.memory_bytes, texts[1]),
                  best->fits ? "" : ": does not fit");
    for (int i = 0; i < best->way_count; i++) {
        (void)fprintf(stream, "  with %s it would fit: %s\n",
                      way_flags(plan->ask, best, i, way_text),
                      bytes(best->ways[i].total_bytes, texts[0]));
    }
}

static void print_bill(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    char texts[3][TEXT_BYTES];
    if (best->row_count == 0) {
        (void)fprintf(stream, "\nNothing is exchanged.\n");
        return;
    }
    (void)fprintf(stream,
                  "\nThe communication bill: one step, of the rank with most\n"
                  "  %-15s %-14s %5s %-6s %7s %10s %10s %10s\n",
                  "what", "operation", "ranks", "links", "times", "bytes each", "bytes sent",
                  "takes");
    for (int i = 0; i < best->row_count; i++) {
        const launch_bill_row *row = &best->rows[i];
        const bool whole = row->times == floor(row->times); /* else once in a round of steps */
        (void)fprintf(stream, "  %-15s %-14s %5" PRId64 " %-6s %7.*f %10s %10s %10s\n", row->what,
                      row->operation, row->ranks, row->between_hosts ? "hosts" : "inside",
                      whole ? 0 : 3, row->times, bytes(row->payload_bytes, texts[0]),
                      bytes(row->sent_bytes, texts[1]), seconds(row->took_s, texts[2]));
    }
}

/* The output over the vocabulary weighs as much as layers do. */
static void print_balance(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    const launch_model *model = &plan->ask->model;
    const int all = best->run.pipeline.stages * best->run.pipeline.chunks;
    (void)fprintf(stream,
                  "  layers: %" PRId64 " in the first %s, %" PRId64
                  " in the last: its output over the vocabulary is the work of %.1f layers\n",
                  launch_model_stage(model, all, 0).layers,
                  all > best->run.pipeline.stages ? "chunk" : "stage",
                  launch_model_stage(model, all, all - 1).layers,
                  launch_model_output_layers(model));
}

/* proto_pipeline_bubble's. */
static const char *bubble_formula(const proto_pipeline *pipeline)
{
    if (proto_pipeline_splits(pipeline)) {
        return pipeline->micro_batches < pipeline->stages ? "(2p-m-1)/(2m+2p-1)" : "(p-1)/(3m+p-1)";
    }
    return pipeline->chunks > 1 ? "(p-1)/(vm+p-1)" : "(p-1)/(m+p-1)";
}

static void print_pipeline(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    const proto_pipeline *pipeline = &best->run.pipeline;
    if (pipeline->stages == 1) {
        return;
    }
    (void)fprintf(stream,
                  "\nThe pipeline, %s: 0 1 2 ... forward of a micro-batch, a b c ... its backward, "
                  "%s. idle%s\n",
                  proto_pipeline_name((int)pipeline->kind),
                  proto_pipeline_splits(pipeline) ? "A B C ... its gradients of weights, " : "",
                  pipeline->micro_batches > LABELS ? " (0 follows 9, and a follows j)" : "");
    launch_pipeline_picture_text(&best->run, stream);
    (void)fprintf(stream,
                  "  bubble %.1f %% of the pipeline's time (the step without the gradients and the "
                  "optimizer at its end); of equal %s, by %s, %.1f %%\n",
                  100 * best->run.result.bubble,
                  proto_pipeline_splits(pipeline) ? "passes" : "stages", bubble_formula(pipeline),
                  100 * proto_pipeline_bubble(pipeline));
    (void)fprintf(stream, "  stage 0 holds the activations of %d %s at most, the last one of %d\n",
                  proto_pipeline_held(pipeline, 0),
                  pipeline->chunks > 1 ? "chunks" : "micro-batches",
                  proto_pipeline_held(pipeline, pipeline->stages - 1));
    print_balance(plan, stream);
}

static void print_share(const char *what, double took_s, double step_s, FILE *stream)
{
    char text[TEXT_BYTES];
    if (took_s > 0) {
        (void)fprintf(stream, "  %-24s %10s %6.1f %%\n", what, seconds(took_s, text),
                      100 * took_s / step_s);
    }
}

static void print_times(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    char text[TEXT_BYTES];
    (void)fprintf(stream, "\nA step, of the rank that computes longest\n");
    print_share("computing", best->compute_s, best->step_s, stream);
    print_share("  of it again", best->repeated_s, best->step_s, stream);
    print_share("adding gradients up", best->merge_s, best->step_s, stream);
    print_share("exchanges of tensors", best->tensor_s, best->step_s, stream);
    print_share("exchanges of heads", best->context_s, best->step_s, stream);
    print_share("exchanges of rows", best->expert_s, best->step_s, stream);
    print_share("bubble, and sends", best->waiting_s, best->step_s, stream);
    print_share("gradients, not hidden", best->gradients_exposed_s, best->step_s, stream);
    print_share("optimizer", best->optimizer_s, best->step_s, stream);
    print_share("  of it Newton-Schulz", best->newton_schulz_s, best->step_s, stream);
    print_share("parameters, not hidden", best->parameters_exposed_s, best->step_s, stream);
    (void)fprintf(stream, "  %-24s %10s          %.0f tokens/s\n", "together",
                  seconds(best->step_s, text), best->tokens / best->step_s);
}

/* The command that reserves what the steps need. */
static void print_reserve(const launch_plan *plan, FILE *stream)
{
    char usd[BUDGET_MONEY_BYTES];
    char price[BUDGET_MONEY_BYTES];
    launch_reserve reserve;
    if (!launch_plan_reserve(plan, &reserve)) {
        (void)fprintf(stream, "No single authorization is for so much, for so many hosts or for so "
                              "long.\n");
        return;
    }
    budget_money_format(reserve.usd_micro, usd);
    budget_money_format(reserve.price_micro_per_hour, price);
    (void)fprintf(stream,
                  "To reserve that: budget-service authorize LABEL %s --account ACCOUNT --job "
                  "JOB.json --instances %" PRId64 " --gpus %" PRId64
                  " --max-price %s --max-hours %.2f\n"
                  "  so long, rounded up, and %" PRId64
                  " s that the vendor may bill at least; what the machines need to start comes "
                  "on top\n",
                  usd, reserve.instances, reserve.gpus, price, (double)reserve.seconds / 3600,
                  plan->granularity_s);
    if (plan->granularity_s == LAUNCH_PLAN_GRANULARITY_S) {
        (void)fputs("  those 3600 s are assumed without --granularity SECONDS: give "
                    "granularity_seconds of the service's policy.json (init writes 60 for runpod "
                    "and vast)\n",
                    stream);
    }
}

static void print_money(const launch_plan *plan, FILE *stream)
{
    const launch_estimate *best = &plan->found->estimates[0];
    const launch_layout *layout = &best->layout;
    char text[BUDGET_MONEY_BYTES];
    char took[TEXT_BYTES];
    int64_t micro = 0;
    if (plan->steps == 0) {
        return;
    }
    const bool priced = launch_plan_cost(plan, &micro);
    const double whole_s = best->step_s * (double)plan->steps;
    (void)fprintf(stream, "\n%" PRId64 " steps take %s", plan->steps,
                  seconds(priced ? ceil(whole_s) : whole_s, took)); /* seconds begun are paid */
    if (!priced) {
        (void)fprintf(stream, "; what they cost %s\n",
                      plan->price_micro_per_hour > 0 ? "is beyond what the budget can count"
                                                     : "is not known without --price");
        return;
    }
    budget_money_show(micro, text);
    (void)fprintf(stream, " and cost %s: %" PRId64 " ranks for so long\n", text,
                  launch_layout_ranks(layout));
    if (best->fits) {
        print_reserve(plan, stream);
    }
}

static void print_on_cpus(const launch_plan *plan, FILE *stream)
{
    base_buffer text = {.data = NULL};
    if (launch_plan_on_cpus(plan, &plan->found->estimates[0].layout, &text) && !text.failed) {
        (void)fprintf(stream, "\nOn CPUs: %s\n", text.data);
    }
    base_buffer_fini(&text);
}

void launch_plan_print(const launch_plan *plan, FILE *stream)
{
    print_head(plan, stream);
    print_layouts(plan, stream);
    print_left_out(plan->found, stream);
    print_memory(plan, stream);
    print_bill(plan, stream);
    print_pipeline(plan, stream);
    print_times(plan, stream);
    print_money(plan, stream);
    print_on_cpus(plan, stream);
}
