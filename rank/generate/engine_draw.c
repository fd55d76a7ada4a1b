/* Drawing the tokens of a step: this rank's sample records, and what follows of all ranks'. Called by
 * engine.c. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "generate/engine_parts.h"
#include "ringfence/coll_error.h"

/* The logits of the rows that are sampled, for the host. */
static base_status map_logits(const rank_engine *engine, void **host, base_error *reterr)
{
    const rank_device *device = &engine->run.device;
    const size_t row_floats = (size_t)engine->run.shape.tp->vocab_count;
    return device->backend->map(device->queue, engine->logits,
                                (size_t)engine->sampled_count * row_floats * sizeof(float), false,
                                host, reterr);
}

/* Changes logits of the row as its request asks for it. */
static void adjust(rank_engine *engine, const engine_sampled *of, float *logits, int32_t first,
                   int32_t count)
{
    const rank_adjustment how = rank_request_adjustment(of->request);
    const rank_adjust_text text = {of->text, of->request->prompt_count, (int32_t)of->position};
    const rank_adjust_row row = {logits, first, count, engine->marks};
    rank_adjust(&how, &text, &row);
    if (of->request->grammar_count > 0) {
        const rank_grammar_text where = {
            .sequence = of->sequence,
            .request = of->request,
            .steps = rank_schedule_grammar(engine->schedule, of->sequence),
            .text = &text,
            .known = of->known,
        };
        rank_grammars_mask(engine->grammars, &where, &row);
    }
}

/* The row's logits as they are drawn of: a copy, because its log-probabilities are the model's own. */
static const float *adjusted_row(rank_engine *engine, const engine_sampled *of, const float *logits)
{
    const rank_tp *tp = engine->run.shape.tp;
    int32_t first = 0;
    const int32_t count = rank_sample_tokens(&engine->vocab, tp->rank, &first);
    if (!of->adjusted) {
        return logits;
    }
    BASE_ASSERT(logits != NULL);
    memcpy(engine->adjusted_logits, logits, (size_t)tp->vocab_count * sizeof *logits);
    adjust(engine, of, engine->adjusted_logits, first, count);
    return engine->adjusted_logits;
}

base_status rank_engine_make_message(rank_engine *engine, const engine_head *head,
                                     size_t *size_bytes, base_error *reterr)
{
    const rank_tp *tp = engine->run.shape.tp;
    const size_t row_floats = (size_t)tp->vocab_count;
    const rank_device *device = &engine->run.device;
    void *host = NULL;
    base_status status = BASE_OK;
    size_t used = sizeof *head;
    memcpy(engine->message, head, sizeof *head);
    if (!engine->drawn_on_device) {
        status = map_logits(engine, &host, reterr);
    }
    for (int row = 0; status == BASE_OK && row < engine->sampled_count; row++) {
        const engine_sampled *of = &engine->sampled[row];
        if (engine->drawn_on_device) {
            const rank_sample_drawn drawn = {
                .one = &engine->drawn[row],
                .kept = engine->kept + (size_t)row * RANK_KEPT_MAX,
                .masses = engine->masses +
                          (size_t)row * (size_t)rank_sample_leaves(&engine->vocab, tp->rank),
            };
            rank_sample_make_drawn(&engine->vocab, of->params, tp->rank, &drawn,
                                   engine->message + used);
        } else {
            rank_sample_make(
                &engine->vocab, of->params, of->position, tp->rank,
                adjusted_row(engine, of, (const float *)host + (size_t)row * row_floats),
                engine->message + used);
        }
        used += rank_sample_record_bytes(of->params, tp->ranks);
    }
    if (host != NULL) {
        device->backend->unmap(device->queue, host);
    }
    *size_bytes = used;
    return status;
}

/* Gathers all ranks' logits of a row. */
static base_status gather_logits(rank_engine *engine, const float *mine, base_error *reterr)
{
    const rank_tp *tp = engine->run.shape.tp;
    size_t counts[RANK_TP_LEAVES];
    if (engine->comm == NULL) {
        memcpy(engine->all_logits, mine, (size_t)tp->vocab_count * sizeof *mine);
        return BASE_OK;
    }
    for (int rank = 0; rank < tp->ranks; rank++) {
        const int leaves =
            rank_tp_first_leaf(tp->ranks, rank + 1) - rank_tp_first_leaf(tp->ranks, rank);
        counts[rank] = (size_t)leaves * (size_t)engine->vocab.leaf_width;
    }
    rank_span span = {.begin_ns = base_now_ns()};
    const base_status status = (base_status)coll_run(engine->comm,
                                                     &(coll_op_desc){.size = sizeof(coll_op_desc),
                                                                     .kind = COLL_ALL_GATHER,
                                                                     .send = mine,
                                                                     .recv = engine->all_logits,
                                                                     .counts = counts,
                                                                     .type = COLL_FLOAT32},
                                                     coll_error_of(reterr));
    span.end_ns = base_now_ns();
    rank_engine_trace_exchange(engine, RANK_TRACE_LOGITS, span,
                               RANK_TP_LEAVES * (size_t)engine->vocab.leaf_width * sizeof *mine);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "gathering logits");
}

/* Gives every rank all logits of a sampled row. */
static base_status gather_row(rank_engine *engine, int row, base_error *reterr)
{
    const rank_device *device = &engine->run.device;
    const size_t row_floats = (size_t)engine->run.shape.tp->vocab_count;
    void *host = NULL;
    base_status status = map_logits(engine, &host, reterr);
    if (status == BASE_OK) {
        status = gather_logits(engine, (const float *)host + (size_t)row * row_floats, reterr);
        device->backend->unmap(device->queue, host);
    }
    return status;
}

/* Draws by top-p or min-p when the best candidates have too little probability. */
static base_status draw_of_all(rank_engine *engine, int row, int32_t *token, base_error *reterr)
{
    const engine_sampled *of = &engine->sampled[row];
    const base_status status = gather_row(engine, row, reterr);
    const rank_sample_all all = {.logits = engine->all_logits, .scratch = engine->all_candidates};
    if (status == BASE_OK && of->adjusted) {
        adjust(engine, of, engine->all_logits, 0, engine->vocab.vocab_size);
    }
    return status == BASE_OK ? rank_sample_top_p_of_all(&engine->vocab, of->params, of->position,
                                                        &all, token, reterr)
                             : status;
}

/* Finds the log-probabilities that the row's request asks for. */
static base_status weigh(rank_engine *engine, int row, base_error *reterr)
{
    const engine_sampled *of = &engine->sampled[row];
    const base_status status = of->logprob_count > 0 ? gather_row(engine, row, reterr) : BASE_OK;
    if (status == BASE_OK && of->logprob_count > 0) {
        rank_logprobs_make(&engine->vocab, engine->all_logits, engine->tokens[row],
                           of->logprob_count, engine->logprobs + (size_t)row * RANK_LOGPROBS_MAX);
    }
    return status;
}

base_status rank_engine_draw(rank_engine *engine, size_t size_bytes, base_error *reterr)
{
    const rank_tp *tp = engine->run.shape.tp;
    size_t used = sizeof(engine_head);
    bool counts = true;
    base_status status = BASE_OK;
    for (int row = 0; status == BASE_OK && row < engine->sampled_count; row++) {
        const engine_sampled *of = &engine->sampled[row];
        const rank_sample_records records = {engine->messages + used, size_bytes};
        rank_sample_result result = {.token = of->given};
        if (counts && of->given < 0) {
            status = rank_sample_combine(&engine->vocab, of->params, of->position, &records,
                                         &result, reterr);
        }
        if (status == BASE_OK && result.needs_all_logits) {
            status = draw_of_all(engine, row, &result.token, reterr);
        }
        engine->tokens[row] = result.token;
        if (status == BASE_OK && counts) {
            status = weigh(engine, row, reterr);
        }
        used += rank_sample_record_bytes(of->params, tp->ranks);
        counts = of->drafted < 0 || (counts && result.token == of->drafted);
    }
    return status;
}
