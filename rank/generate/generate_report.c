/* What a run of rank_generate took, for its callers. Called by generate.c. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "generate/generation.h"

/* The costs without warm-up. */
static rank_engine_costs get_costs(const generation *g)
{
    rank_engine_costs costs = rank_engine_get_costs(g->engine);
    costs.steps -= g->cold.steps;
    costs.tokens -= g->cold.tokens;
    costs.sampled -= g->cold.sampled;
    costs.drafted -= g->cold.drafted;
    costs.accepted -= g->cold.accepted;
    costs.preemptions -= g->cold.preemptions;
    costs.step_ns -= g->cold.step_ns;
    costs.draft_ns -= g->cold.draft_ns;
    costs.gather_ns -= g->cold.gather_ns;
    costs.all_reduce.count -= g->cold.all_reduce.count;
    costs.all_reduce.bytes -= g->cold.all_reduce.bytes;
    costs.all_reduce.ns -= g->cold.all_reduce.ns;
    return costs;
}

/* By this rank's clock. */
static void write_pace(const generation *g, rank_generate_report *report)
{
    double first_ns = 0;
    double later_ns = 0;
    double firsts = 0;
    double laters = 0;
    for (size_t i = 0; i < g->pace_count; i++) {
        const pace *one = &g->paces[i];
        if (one->drawn > 0) {
            first_ns += (double)(one->first_ns - one->began_ns);
            later_ns += (double)(one->last_ns - one->first_ns);
            firsts += 1;
            laters += (double)(one->drawn - 1);
        }
    }
    report->ttft_ms = firsts > 0 ? first_ns / firsts / (double)BASE_NS_PER_MS : (double)NAN;
    report->per_token_ms = laters > 0 ? later_ns / laters / (double)BASE_NS_PER_MS : (double)NAN;
}

/* Rank 0 also hands out what the steps have cost one by one. */
static void write_trace(const generation *g, rank_generate_report *report)
{
    const rank_generate_options *options = g->options;
    const rank_step_share *shares = rank_step_trace_shares(g->trace);
    size_t count = 0;
    const rank_step_cost *steps = rank_step_trace_steps(g->trace, &count);
    report->traced = shares != NULL;
    if (shares != NULL) {
        report->share = shares[coll_comm_rank(options->comm)];
    }
    if (options->on_steps != NULL && count > 0) {
        options->on_steps(options->steps_user, steps, count);
    }
}

void generation_write_memory(const generation *g, rank_generate_report *report)
{
    const rank_graphs_info graphs = rank_engine_get_graphs(g->engine);
    *report = (rank_generate_report){
        .weight_type = g->options->type,
        .model_elements = rank_model_param_count(g->options->config),
        .memory = rank_engine_get_memory(g->engine),
        .costs = get_costs(g),
        .graphs = graphs.captures,
        .replays = graphs.replays,
    };
    (void)snprintf(report->capture_failure, sizeof report->capture_failure, "%s", graphs.failure);
}

void generation_write_report(const generation *g, rank_generate_report *report)
{
    generation_write_memory(g, report);
    write_pace(g, report);
    write_trace(g, report);
}
