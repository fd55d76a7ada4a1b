/* Adds up what ranks hold and exchange that have parts of a model's experts. Called by training.c. */
#include "plan/experts.h"

#include "plan/bill.h"
#include "plan/times.h"

enum { EXCHANGES = 5, MOVES = 2 /* of a row: to its expert, and back */ };

static bool are_shared_out(const launch_layout *layout)
{
    return launch_layout_expert_ranks(layout) > 1;
}

double launch_experts_held_params(const launch_ask *ask, const launch_layout *layout,
                                  const launch_stage *part)
{
    const int tensor = (int)layout->tensor;
    const double experts = launch_stage_expert_params(&ask->model, part, tensor);
    return launch_stage_params(&ask->model, part, tensor) - experts +
           experts / (double)launch_layout_expert_ranks(layout);
}

double launch_experts_apart_params(const launch_ask *ask, const launch_layout *layout,
                                   const launch_stage *part)
{
    const double experts = launch_stage_expert_params(&ask->model, part, (int)layout->tensor);
    return are_shared_out(layout) ? experts / (double)launch_layout_expert_ranks(layout) : 0;
}

/* Rows at experts: as many as a rank's tokens make come to it, if all experts get equally many. */
static double rows_of(const launch_ask *ask, double tokens)
{
    return tokens * (double)launch_model_mlps_used(&ask->model);
}

double launch_experts_row_bytes(const launch_ask *ask, const launch_layout *layout, double tokens)
{
    return are_shared_out(layout) ? rows_of(ask, tokens) * (double)ask->model.width * sizeof(float)
                                  : 0;
}

/* Of a layer with a micro-batch. */
typedef struct exchange {
    const char *what;
    const char *operation; /* NULL: an all-reduce */
    int64_t ranks;
    double payload_bytes;
    double forward; /* times */
    double backward;
} exchange;

/* Returns how many there are. */
static int list_exchanges(const launch_ask *ask, const launch_layout *layout, double tokens,
                          exchange list[EXCHANGES])
{
    const double weights = rows_of(ask, tokens) * LAUNCH_EXCHANGED_BYTES;
    const double rows = weights * (double)ask->model.width;
    const double counts = (double)ask->model.experts * sizeof(int32_t);
    const double again = ask->recompute ? 1 : 0; /* rows go to experts once more */
    const int64_t ranks = launch_layout_expert_ranks(layout);
    const exchange all[EXCHANGES] = {
        {"expert results", NULL, layout->tensor, rows, 1, 1},
        {"expert weights", NULL, layout->tensor, weights, 0, 1},
        {"row counts", "all_to_all", ranks, counts, 1, 0},
        {"expert rows", "all_to_all", ranks, rows, MOVES, MOVES + again},
        {"row weights", "all_to_all", ranks, weights, 0, MOVES},
    };
    for (int i = 0; i < EXCHANGES; i++) {
        list[i] = all[i];
    }
    return ask->model.experts > 0 ? EXCHANGES : 0;
}

launch_experts_times launch_experts_time(const launch_ask *ask, const launch_layout *layout,
                                         double tokens)
{
    exchange list[EXCHANGES];
    launch_experts_times sum = {.rows_forward_s = 0};
    const int count = list_exchanges(ask, layout, tokens, list);
    for (int i = 0; i < count; i++) {
        const coll_tp_link *link = launch_link_over(ask, layout, list[i].ranks);
        const double all_reduce_s =
            coll_allreduce_time_s(list[i].payload_bytes, (int)list[i].ranks, link);
        const double each_s = list[i].operation == NULL ? all_reduce_s : all_reduce_s / 2;
        if (list[i].operation == NULL) {
            sum.tensor_forward_s += list[i].forward * each_s;
            sum.tensor_backward_s += list[i].backward * each_s;
        } else {
            sum.rows_forward_s += list[i].forward * each_s;
            sum.rows_backward_s += list[i].backward * each_s;
        }
    }
    return sum;
}

void launch_experts_bill(const launch_ask *ask, launch_estimate *made, double tokens, double times)
{
    exchange list[EXCHANGES];
    const int count = list_exchanges(ask, &made->layout, tokens, list);
    for (int i = 0; i < count; i++) {
        const launch_exchange of = {list[i].what, list[i].ranks, list[i].ranks,
                                    (list[i].forward + list[i].backward) * times,
                                    list[i].payload_bytes};
        if (list[i].operation == NULL) {
            (void)launch_bill_all_reduces(ask, made, of);
        } else {
            (void)launch_bill_halves(ask, made, of, list[i].operation);
        }
    }
}
