/* Prices the exchanges of a step. Called by training.c, experts.c, zero.c and decoding.c. */
#include "plan/bill.h"

#include "plan/times.h"

launch_bill_row *launch_bill_add(const launch_ask *ask, launch_estimate *made,
                                 const launch_exchange *of, const char *operation)
{
    launch_bill_row *row = &made->rows[made->row_count];
    *row = (launch_bill_row){.what = of->what,
                             .operation = operation,
                             .ranks = of->ranks,
                             .between_hosts = !launch_link_is_inside(ask, &made->layout, of->span),
                             .times = of->times,
                             .payload_bytes = of->payload_bytes};
    made->row_count += of->ranks > 1 && of->times > 0 ? 1 : 0;
    return row;
}

/* `part` of what all-reduces send and take. */
static double add_priced(const launch_ask *ask, launch_estimate *made, const launch_exchange *of,
                         const char *operation, double part)
{
    launch_bill_row *row = launch_bill_add(ask, made, of, operation);
    const coll_tp_link *link = launch_link_over(ask, &made->layout, of->span);
    const double times = part * of->times;
    const int ranks = (int)of->ranks;
    row->sent_bytes = times * coll_ring_allreduce_traffic_per_rank(of->payload_bytes, ranks);
    row->took_s = times * coll_allreduce_time_s(of->payload_bytes, ranks, link);
    return row->took_s;
}

double launch_bill_all_reduces(const launch_ask *ask, launch_estimate *made, launch_exchange of)
{
    return add_priced(ask, made, &of, "all_reduce", 1);
}

double launch_bill_halves(const launch_ask *ask, launch_estimate *made, launch_exchange of,
                          const char *operation)
{
    return add_priced(ask, made, &of, operation, 0.5);
}

double launch_bill_layer_sums(const launch_model *model)
{
    return COLL_TP_ALL_REDUCES_PER_LAYER - (model->experts > 0 ? 1 : 0);
}

double launch_bill_forward_sums(const launch_model *model, const launch_stage *part)
{
    return launch_bill_layer_sums(model) * (double)part->layers + (part->embeds ? 1 : 0);
}
