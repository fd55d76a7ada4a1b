/* The price of a tensor-parallel step's all-reduces. The formulas and their sources stand in the
 * header; whoever predicts a decoding speed calls them. */
#include "coll/tensor_parallel.h"

double coll_allreduce_payload_bytes(double tokens, double d_model, double element_bytes)
{
    return tokens * d_model * element_bytes;
}

double coll_ring_allreduce_traffic_per_rank(double payload_bytes, int ranks)
{
    return 2.0 * (ranks - 1) * payload_bytes / ranks;
}

double coll_allreduce_time_s(double payload_bytes, int ranks, const coll_tp_link *link)
{
    const double traffic_bytes = coll_ring_allreduce_traffic_per_rank(payload_bytes, ranks);
    return (ranks - 1) * link->latency_s + traffic_bytes / link->bandwidth_bytes_per_s;
}

double coll_tp_comm_time_per_step(const coll_tp_step *step, int ranks, const coll_tp_link *link)
{
    const double payload_bytes =
        coll_allreduce_payload_bytes(step->tokens, step->d_model, step->element_bytes);
    return COLL_TP_ALL_REDUCES_PER_LAYER * step->layers *
           coll_allreduce_time_s(payload_bytes, ranks, link);
}

double coll_comm_fraction(double comm_s, double compute_s)
{
    return comm_s > 0 ? comm_s / (comm_s + compute_s) : 0;
}
