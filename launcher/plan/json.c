/* Prints a plan as JSON. Called by cli/plan_command.c. */
#include <jansson.h>

#include "budget/money.h"
#include "plan/plan.h"

static json_t *layout_json(const launch_layout *layout)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "data", (json_int_t)layout->data, "context_ranks",
                     (json_int_t)layout->context_ranks, "expert_ranks",
                     (json_int_t)launch_layout_expert_ranks(layout), "tensor",
                     (json_int_t)layout->tensor, "pipeline", (json_int_t)layout->pipeline);
}

static json_t *on_cpus_json(const launch_plan *plan, const launch_layout *layout)
{
    base_buffer text = {.data = NULL};
    json_t *command = launch_plan_on_cpus(plan, layout, &text) && !text.failed
                          ? json_string(text.data)
                          : json_null();
    base_buffer_fini(&text);
    return command;
}

/* Empty: it fits as it is, or no way is known. */
static json_t *ways_json(const launch_estimate *estimate)
{
    json_t *list = json_array();
    for (int i = 0; i < estimate->way_count; i++) {
        const launch_way *way = &estimate->ways[i];
        (void)json_array_append_new(
            list, json_pack("{s:I, s:b, s:f}", "zero", (json_int_t)way->zero, "recompute",
                            way->recompute, "memory_bytes", way->total_bytes));
    }
    return list;
}

static json_t *layouts_json(const launch_plan *plan)
{
    json_t *list = json_array();
    for (int i = 0; i < plan->found->count; i++) {
        const launch_estimate *each = &plan->found->estimates[i];
        (void)json_array_append_new(
            list, json_pack("{s:o, s:I, s:f, s:f, s:f, s:f, s:b, s:o, s:o}", "layout",
                            layout_json(&each->layout), "zero",
                            (json_int_t)launch_layout_zero(plan->ask, &each->layout), "step_s",
                            each->step_s, "tokens_per_s", each->tokens / each->step_s, "bubble",
                            each->run.result.bubble, "memory_bytes", each->total_bytes, "fits",
                            each->fits, "fits_with", ways_json(each), "on_cpus",
                            on_cpus_json(plan, &each->layout)));
    }
    return list;
}

static json_t *left_out_json(const launch_found *found)
{
    return found->left_out == 0 ? json_null()
                                : json_pack("{s:o, s:s}", "layout",
                                            layout_json(&found->left_out_one), "why", found->why);
}

static json_t *memory_json(const launch_estimate *best)
{
    json_t *uses = json_object();
    for (int use = 0; use < LAUNCH_MEMORY_COUNT; use++) {
        (void)json_object_set_new(uses, launch_memory_name((launch_memory)use),
                                  json_real(best->memory_bytes[use]));
    }
    return uses;
}

static json_t *bill_json(const launch_estimate *best)
{
    json_t *rows = json_array();
    for (int i = 0; i < best->row_count; i++) {
        const launch_bill_row *row = &best->rows[i];
        (void)json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:I, s:b, s:f, s:f, s:f, s:f}", "what", row->what, "operation",
                      row->operation, "ranks", (json_int_t)row->ranks, "between_hosts",
                      row->between_hosts, "times", row->times, "payload_bytes", row->payload_bytes,
                      "sent_bytes", row->sent_bytes, "took_s", row->took_s));
    }
    return rows;
}

static json_t *pipeline_json(const launch_estimate *best)
{
    const proto_pipeline *pipeline = &best->run.pipeline;
    if (best->run.spans == NULL) {
        return json_null();
    }
    json_t *held = json_array();
    for (int stage = 0; stage < pipeline->stages; stage++) {
        (void)json_array_append_new(held, json_integer(proto_pipeline_held(pipeline, stage)));
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:o}", "schedule",
                     proto_pipeline_name((int)pipeline->kind), "stages", pipeline->stages, "chunks",
                     pipeline->chunks, "micro_batches", pipeline->micro_batches, "bubble",
                     best->run.result.bubble, "bubble_of_equal_stages",
                     proto_pipeline_bubble(pipeline), "held", held);
}

static json_t *cost_json(const launch_plan *plan)
{
    char text[BUDGET_MONEY_BYTES];
    int64_t micro = 0;
    if (!launch_plan_cost(plan, &micro)) {
        return json_null();
    }
    budget_money_format(micro, text);
    return json_string(text);
}

/* What budget-service is to be asked for. */
static json_t *reserve_json(const launch_plan *plan)
{
    char usd[BUDGET_MONEY_BYTES];
    char price[BUDGET_MONEY_BYTES];
    launch_reserve reserve;
    if (!plan->found->estimates[0].fits || !launch_plan_reserve(plan, &reserve)) {
        return json_null();
    }
    budget_money_format(reserve.usd_micro, usd);
    budget_money_format(reserve.price_micro_per_hour, price);
    return json_pack("{s:s, s:I, s:I, s:s, s:I, s:I}", "usd", usd, "instances",
                     (json_int_t)reserve.instances, "gpus", (json_int_t)reserve.gpus,
                     "max_price_usd", price, "max_seconds", (json_int_t)reserve.seconds,
                     "granularity_seconds", (json_int_t)plan->granularity_s);
}

/* null: the model is trained. */
static json_t *adapters_json(const launch_plan *plan)
{
    const int64_t rank = plan->ask->adapters.rank;
    return rank == 0
               ? json_null()
               : json_pack(
                     "{s:I, s:s?, s:I}", "rank", (json_int_t)rank, "targets",
                     plan->lora_targets[0] != '\0' ? plan->lora_targets : NULL, "parameters",
                     (json_int_t)launch_adapters_of_model(&plan->ask->adapters, &plan->ask->model));
}

/* Of matrices. */
static const char *weight_type(const launch_ask *ask)
{
    return ask->weights == PROTO_WEIGHTS_CHECKPOINT ? proto_precision_name((int)ask->precision)
                                                    : proto_weights_name((int)ask->weights);
}

static json_t *model_json(const launch_plan *plan)
{
    const launch_model *model = &plan->ask->model;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I}", "name",
        plan->model_name, "layers", (json_int_t)model->layers, "width", (json_int_t)model->width,
        "heads", (json_int_t)model->heads, "kv_heads", (json_int_t)model->kv_heads, "head_width",
        (json_int_t)model->head_width, "mlp_width", (json_int_t)model->hidden, "experts",
        (json_int_t)model->experts, "experts_per_token", (json_int_t)model->chosen, "tied",
        model->tied, "vocab_size", (json_int_t)model->vocab_size, "context",
        (json_int_t)model->context, "parameters", (json_int_t)launch_model_params(model),
        "parameters_used", (json_int_t)launch_model_params_used(model));
}

base_status launch_plan_print_json(const launch_plan *plan, FILE *stream, base_error *reterr)
{
    const launch_estimate *best = &plan->found->estimates[0];
    json_t *root = json_pack(
        "{s:o, s:o, s:s, s:s, s:o, s:s, s:I, s:I, s:b, s:f, s:b, s:o, s:f, s:i, s:o, s:o, s:o, "
        "s:{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}, s:o, s:o, s:o, "
        "s:o, "
        "s:i, "
        "s:o}",
        "model", model_json(plan), "lora", adapters_json(plan), "weight_type",
        weight_type(plan->ask), "device", plan->device_name, "layout", layout_json(&best->layout),
        "optimizer", proto_optimizer_name((int)plan->ask->optimizer), "zero",
        (json_int_t)launch_layout_zero(plan->ask, &best->layout), "local_steps",
        (json_int_t)launch_ask_local_steps(plan->ask), "recompute", plan->ask->recompute,
        "memory_bytes", best->total_bytes, "fits", best->fits, "fits_with", ways_json(best),
        "tokens_per_step", best->tokens, "stage", best->stage, "memory", memory_json(best), "bill",
        bill_json(best), "pipeline", pipeline_json(best), "step", "computing_s", best->compute_s,
        "computing_again_s", best->repeated_s, "adding_up_s", best->merge_s, "tensor_exchanges_s",
        best->tensor_s, "context_exchanges_s", best->context_s, "expert_exchanges_s",
        best->expert_s, "waiting_s", best->waiting_s, "gradients_s", best->gradients_s,
        "gradients_exposed_s", best->gradients_exposed_s, "optimizer_s", best->optimizer_s,
        "newton_schulz_s", best->newton_schulz_s, "parameters_s", best->parameters_s,
        "parameters_exposed_s", best->parameters_exposed_s, "step_s", best->step_s, "cost_usd",
        cost_json(plan), "authorize", reserve_json(plan), "on_cpus",
        on_cpus_json(plan, &best->layout), "layouts", layouts_json(plan), "left_out",
        plan->found->left_out, "left_out_first", left_out_json(plan->found));
    const bool written = root != NULL && json_dumpf(root, stream, JSON_INDENT(2)) == 0;
    json_decref(root);
    (void)fputc('\n', stream);
    return written ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "cannot write the plan as JSON");
}
