/* What the ranks that share a stage exchange in its passes: sums and largest values of the residual stream's
 * parts. Passes call these through rank_tp; run.c asks for a failure behind each pass. */
#include "base/clock.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

static void reduce(rank_pipeline *pipeline, float *at, size_t count, coll_reduce_op how)
{
    pipeline_exchange *exchange = &pipeline->exchange;
    const int64_t begun_ns = base_now_ns();
    if (exchange->failed != BASE_OK) {
        return;
    }
    exchange->failed = (base_status)coll_all_reduce(pipeline->tensor, at, at, count, COLL_FLOAT32,
                                                    how, coll_error_of(&exchange->error));
    exchange->ns += base_now_ns() - begun_ns;
    rank_trace_add(pipeline->trace, (rank_trace_span){.kind = RANK_TRACE_PARTS,
                                                      .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                                      .begin_ns = begun_ns,
                                                      .index = -1,
                                                      .bytes = count * sizeof *at});
}

static void add_up(void *user, float *at, size_t count)
{
    reduce(user, at, count, COLL_SUM);
}

static void find_largest(void *user, float *at, size_t count)
{
    reduce(user, at, count, COLL_MAX);
}

rank_tp pipeline_make_tp(rank_pipeline *pipeline)
{
    const rank_model_config *config = &pipeline->config;
    const rank_tp_ids ids =
        rank_tp_ids_of(config->vocab_size, config->tensor_ranks, config->tensor_rank);
    return (rank_tp){.rank = config->tensor_rank,
                     .ranks = config->tensor_ranks,
                     .vocab_first = ids.first,
                     .vocab_count = ids.count,
                     .all_reduce = add_up,
                     .all_reduce_max = find_largest,
                     .group = pipeline};
}

base_status pipeline_check_exchange(const rank_pipeline *pipeline, base_error *reterr)
{
    if (pipeline->exchange.failed != BASE_OK && reterr != NULL) {
        *reterr = pipeline->exchange.error;
    }
    return pipeline->exchange.failed;
}
