/* What communication costs a tensor-parallel transformer step, in five formulas.
 *
 * A block that is split the Megatron way needs two all-reduces in its forward pass: one behind the
 * attention's output projection, one behind the MLP's second product. Each one sums an activation
 * row of d_model elements for every token of the step. All functions are pure, any thread may call
 * them, and none checks its arguments: each says the range that it is meant for.
 *
 * The all-reduce is a ring: in no other does the busiest rank send less. A link has two
 * parameters, latency and bandwidth. The model has one class of links, and leaves out waiting for a
 * slow rank. coll_cost_us (coll/tune.h) prices each algorithm of this library on measured links.
 *
 * Sources: two all-reduces per block: Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
 * The ring's traffic: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69 (2009). Latency plus bytes over bandwidth: Thakur, Rabenseifner and Gropp,
 * "Optimization of collective communication operations in MPICH", IJHPCA 19 (2005), section 3. */
#ifndef COLL_TENSOR_PARALLEL_H
#define COLL_TENSOR_PARALLEL_H

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { COLL_TP_ALL_REDUCES_PER_LAYER = 2 };

/* The link between neighbours of the ring. */
typedef struct coll_tp_link {
    double latency_s;             /* >= 0: an all-reduce of a few bytes between two ranks */
    double bandwidth_bytes_per_s; /* > 0: what a rank sends while it receives as much */
} coll_tp_link;

/* One step of a decoder: one token per sequence when it decodes, a chunk when it prefills. */
typedef struct coll_tp_step {
    int layers;           /* >= 0 */
    double tokens;        /* >= 0: of all sequences together */
    double d_model;       /* >= 0: elements of an activation row */
    double element_bytes; /* 2 for bfloat16, 4 for float32 */
} coll_tp_step;

/* Bytes of one all-reduce: tokens × d_model × element_bytes. Exact below 2^53. */
double coll_allreduce_payload_bytes(double tokens, double d_model, double element_bytes);

/* Bytes that each rank sends, and receives, in a ring all-reduce: 2 · (N − 1) / N · payload for
 * N = ranks >= 1. Nothing for one rank, one payload for two, and less than two for any number. */
double coll_ring_allreduce_traffic_per_rank(double payload_bytes, int ranks);

/* Seconds of one ring all-reduce of payload_bytes over ranks >= 1:
 *
 *     (N − 1) · latency_s  +  2 · (N − 1) / N · payload / bandwidth
 *
 * A ring has 2 · (N − 1) rounds, and two ranks' all-reduce, whose time latency_s is,
 * two of them. */
double coll_allreduce_time_s(double payload_bytes, int ranks, const coll_tp_link *link);

/* Seconds that the blocks' all-reduces of one step take, one after the other:
 * 2 · layers · coll_allreduce_time_s. An embedding that is sharded by vocabulary has one more,
 * which a caller adds by coll_allreduce_time_s. */
double coll_tp_comm_time_per_step(const coll_tp_step *step, int ranks, const coll_tp_link *link);

/* The share of a step that is communication, where neither hides the other: comm / (comm +
 * compute), from 0 to 1. Both are seconds, >= 0; 0 where both are 0. */
double coll_comm_fraction(double comm_s, double compute_s);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
