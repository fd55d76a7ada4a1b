/* Lays out a pass's memory: activations of one micro-batch, scratch of the run, addresses of
 * weights. Called by forward.c and backward.c, and for sizes through the families' tables. */
#include "base/bytes.h"
#include "model/pieces.h"
#include "model/transformer/weight_grads.h"
#include "rank/ddp.h"

enum {
    ROW_ALIGNMENT = 8, /* elements */
    LOGIT_ROWS = 4096,
};

static rank_decoder describe(const rank_shape *shape)
{
    return rank_decoder_describe(shape->config, rank_tensor_ranks(shape->config));
}

static transformer_sizes make_sizes(const rank_decoder *of, const rank_shape *shape)
{
    const rank_model_config *config = shape->config;
    transformer_sizes sizes = {
        .tokens = shape->token_count_max,
        .width = (size_t)config->width,
        .vocab_size = (size_t)rank_tp_ids_of(config->vocab_size, rank_tensor_ranks(config),
                                             config->tensor_rank)
                          .count,
        .heads = of->heads,
        .kv_heads = of->kv_heads,
        .head_width = of->head_width,
        .queries = of->heads * of->head_width,
        .qkv = (of->heads + 2 * of->kv_heads) * of->head_width,
        .hidden = of->hidden,
        .up = of->gated ? 2 * of->hidden : of->hidden,
        .experts = of->experts,
        .own = of->experts / (size_t)rank_expert_ranks(config),
        .places = shape->token_count_max * (of->experts > 0 ? of->chosen : 1),
        .layer_norm = !of->rms,
        .head_norms = of->head_norms,
        .after_norms = of->after_norms,
        .rotated = of->rotated,
        .local = of->window > 0,
        .biased = !of->rms,
        .type = shape->type,
        .kept_hidden = shape->split ? of->hidden : 0,
        .vectors = shape->split ? transformer_count_vectors(shape->config) : 0,
    };
    sizes.qkv_row = 3 * sizes.queries;
    sizes.received = shape->ep != NULL ? rank_ep_received_max(&shape->ep->cut) : sizes.places;
    return sizes;
}

/* An array of the shape's type. */
static void *cut_typed(rank_pieces *from, const transformer_sizes *sizes, size_t count)
{
    const size_t size_bytes = count * rank_type_bytes(sizes->type);
    return rank_pieces_cut(from, (size_bytes + sizeof(float) - 1) / sizeof(float));
}

static void cut_norm_result(rank_pieces *from, const transformer_sizes *sizes, norm_state *norm)
{
    norm->out = cut_typed(from, sizes, sizes->tokens * sizes->width);
    norm->mean = sizes->layer_norm ? rank_pieces_cut(from, sizes->tokens) : NULL;
    norm->rstd = rank_pieces_cut(from, sizes->tokens);
}

static void cut_norm(rank_pieces *from, const transformer_sizes *sizes, norm_state *norm)
{
    norm->x = rank_pieces_cut(from, sizes->tokens * sizes->width);
    cut_norm_result(from, sizes, norm);
}

/* Of so many vectors that are normed; 0: there are none. */
static normed_state cut_normed(rank_pieces *from, size_t count, size_t width)
{
    return (normed_state){.x = rank_pieces_cut(from, count * width),
                          .rstd = rank_pieces_cut(from, count)};
}

/* A block's input and its routing, and what follows from them. */
static block_state cut_block(rank_pieces *input, rank_pieces *from, const rank_decoder *of,
                             const transformer_sizes *sizes)
{
    const size_t tokens = sizes->tokens;
    const size_t heads = sizes->head_norms ? tokens : 0;
    const size_t added = sizes->after_norms ? tokens : 0;
    const bool shared = sizes->own < sizes->experts;
    block_state block;
    block.norm1.x = rank_pieces_cut(input, tokens * sizes->width);
    block.routing =
        of->experts > 0 ? rank_routing_cut(input, of, tokens) : (rank_routing){.scores = NULL};
    cut_norm_result(from, sizes, &block.norm1);
    block.normed[0] = cut_normed(from, heads * sizes->heads, sizes->head_width);
    block.normed[1] = cut_normed(from, heads * sizes->kv_heads, sizes->head_width);
    block.qkv = cut_typed(from, sizes, tokens * sizes->qkv_row);
    block.row_max = rank_pieces_cut(from, tokens * sizes->heads);
    block.row_scale = rank_pieces_cut(from, tokens * sizes->heads);
    block.attention = cut_typed(from, sizes, tokens * sizes->queries);
    block.after[0] = cut_normed(from, added, sizes->width);
    block.after[1] = cut_normed(from, added, sizes->width);
    cut_norm(from, sizes, &block.norm2);
    block.received = shared ? (void *)rank_pieces_cut(input, sizes->experts + 1) : NULL;
    block.rows = shared ? rank_pieces_cut(from, sizes->received * sizes->width) : NULL;
    block.up = cut_typed(from, sizes, sizes->received * sizes->up);
    block.active = cut_typed(from, sizes, tokens * sizes->kept_hidden);
    return block;
}

/* Floats of a block that are kept, and those that all blocks share. */
typedef struct block_floats {
    size_t kept;
    size_t shared; /* 0 without recompute */
} block_floats;

static block_floats count_block(const rank_shape *shape, const rank_decoder *of,
                                const transformer_sizes *sizes)
{
    rank_pieces input = {.begin = NULL};
    rank_pieces rest = {.begin = NULL};
    (void)cut_block(&input, shape->recompute ? &rest : &input, of, sizes);
    return (block_floats){.kept = input.used, .shared = rest.used};
}

static size_t blocks_kept(const rank_shape *shape)
{
    return shape->training ? (size_t)(shape->end_layer - shape->first_layer) : 1;
}

/* What is kept besides blocks. */
static void cut_ends(rank_pieces *from, size_t layers, transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    cut_norm(from, sizes, &pass->norm_final);
    pass->vectors = rank_pieces_cut(from, layers * sizes->vectors);
    for (int i = 0; sizes->rotated > 0 && i < (sizes->local ? 2 : 1); i++) {
        pass->turns[i] = rank_pieces_cut(from, sizes->tokens * sizes->head_width);
    }
}

size_t transformer_saved_floats(const rank_shape *shape)
{
    if (shape->tp != NULL && !shape->training) {
        return 0; /* decoding keeps nothing */
    }
    transformer_pass pass = {.of = describe(shape)};
    rank_pieces count = {.begin = NULL};
    pass.sizes = make_sizes(&pass.of, shape);
    cut_ends(&count, blocks_kept(shape), &pass);
    return blocks_kept(shape) * count_block(shape, &pass.of, &pass.sizes).kept + count.used;
}

/* Tokens that go through attention together at most. */
static size_t whole_tokens(const rank_shape *shape)
{
    return shape->cp != NULL ? shape->cp->tokens_max : shape->token_count_max;
}

static size_t segment_max(const rank_shape *shape)
{
    return base_min_size((size_t)shape->config->context, whole_tokens(shape));
}

/* The most rows that a layer's lower half takes at once: of whole segments, but where ranks share the
 * micro-batch. */
static size_t segment_rows(const rank_shape *shape)
{
    const size_t chunk = base_min_size(shape->backend->rows_at_once, shape->token_count_max);
    if (shape->cp != NULL) {
        return chunk;
    }
    return shape->padded ? shape->token_count_max : base_max_size(chunk, segment_max(shape));
}

/* Products in bfloat16 are fast where rows begin at multiples of 16 bytes. Ranks that share a vocabulary
 * have equal rows, and so equally many at once. */
static size_t logit_row(const rank_shape *shape)
{
    const size_t vocab_size = (size_t)shape->config->vocab_size;
    const int ranks = rank_tensor_ranks(shape->config);
    if (ranks > 1) {
        return (size_t)rank_tp_leaf_width((int)vocab_size) * RANK_TP_LEAVES / (size_t)ranks;
    }
    return shape->type == RANK_FLOAT32
               ? vocab_size
               : (vocab_size + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
}

/* Floats of wide for rows of logits: float32, and for products their gradient once more. */
static size_t logits_floats(const rank_shape *shape, size_t rows)
{
    const size_t count = rows * logit_row(shape);
    return shape->type == RANK_FLOAT32 ? count : rank_pieces_size(count) + (count + 1) / 2;
}

/* Rows of logits that always fit. Where many rows are computed at once, few chunks of logits are
 * worth more memory: each reads and writes the whole gradient of the output embedding. */
static size_t logit_rows_least(const rank_shape *shape)
{
    const bool many = shape->training && shape->backend->rows_at_once >= LOGIT_ROWS;
    return many ? base_min_size(LOGIT_ROWS, shape->token_count_max) : 1;
}

/* As many as fit into wide, which has so many floats. */
static size_t logit_rows_at_once(const rank_shape *shape, size_t wide)
{
    const size_t row = logit_row(shape);
    size_t rows = shape->type == RANK_FLOAT32 ? wide / row : 2 * wide / (3 * row);
    while (logits_floats(shape, rows) > wide) {
        rows--;
    }
    return base_min_size(shape->backend->rows_at_once, rows);
}

/* The buffer that several uses share, one at a time. */
static size_t wide_floats(const transformer_sizes *sizes, const rank_shape *shape)
{
    const size_t chunk = base_min_size(shape->backend->rows_at_once, sizes->tokens);
    const size_t active = chunk * sizes->hidden;
    const size_t dqkv = segment_rows(shape) * sizes->qkv_row;
    return base_max_size(base_max_size(active, dqkv),
                         logits_floats(shape, logit_rows_least(shape)));
}

/* The two halves of a block are made ready one after the other, and in backward turned round. */
static size_t operands_floats(const transformer_sizes *sizes)
{
    const size_t width = sizes->width;
    const size_t forward = rank_pack_count(width, sizes->up) +
                           rank_pack_count(sizes->hidden, width) +
                           rank_pack_count(sizes->queries, width);
    const size_t backward = rank_pack_count(sizes->up, width) +
                            rank_pack_count(width, sizes->hidden) +
                            rank_pack_count(width, sizes->queries);
    return base_max_size(
        base_max_size(forward, backward),
        base_max_size(rank_pack_count(width, sizes->qkv), rank_pack_count(sizes->qkv, width)));
}

/* Where operands of products are packed; nothing for a backend that does not pack. */
static void cut_packed(rank_pieces *from, const rank_shape *shape, transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t chunk = base_min_size(shape->backend->rows_at_once, sizes->tokens);
    if (!shape->backend->packs) {
        return;
    }
    if (shape->end_layer == shape->config->layers) {
        pass->output = rank_pieces_cut(from, rank_pack_count(sizes->width, sizes->vocab_size));
    }
    if (shape->training) {
        const size_t columns =
            base_max_size(base_max_size(sizes->up, sizes->width), sizes->queries);
        const size_t adapters = (size_t)shape->config->adapters.rank;
        const size_t of_segments = base_max_size(base_max_size(sizes->qkv, sizes->width), adapters);
        pass->packed_rows =
            rank_pieces_cut(from, base_max_size(rank_pack_count(chunk, columns),
                                                rank_pack_count(segment_rows(shape), of_segments)));
    }
    pass->operands = rank_pieces_cut(from, operands_floats(sizes));
}

/* What ranks that share the micro-batch exchange. */
static void cut_exchanged(rank_pieces *from, const rank_cp *cp, transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t floats = sizes->tokens * sizes->qkv_row;
    pass->sent = rank_pieces_cut(from, floats);
    pass->received = rank_pieces_cut(from, floats);
    if (sizes->biased) {
        pass->head_bias = rank_pieces_cut(from, sizes->qkv_row / (size_t)cp->ranks);
        pass->head_bias_grad = rank_pieces_cut(from, sizes->qkv_row / (size_t)cp->ranks);
    }
}

/* What adapters need of a chunk's rows. */
static void cut_adapters(rank_pieces *from, const rank_shape *shape, transformer_pass *pass)
{
    const size_t rank = (size_t)shape->config->adapters.rank;
    if (rank > 0) {
        pass->low = rank_pieces_cut(from, segment_rows(shape) * rank);
        pass->dlow = shape->training ? rank_pieces_cut(from, segment_rows(shape) * rank) : NULL;
    }
}

/* What the experts need beside wide: rows of one, and the results of all. */
static void cut_experts(rank_pieces *from, const rank_shape *shape, transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t chunk = base_min_size(shape->backend->rows_at_once, sizes->tokens);
    experts_work *work = &pass->experts;
    work->taken = rank_pieces_cut(from, chunk * sizes->width);
    work->results = rank_pieces_cut(from, sizes->places * sizes->width);
    if (shape->training) {
        work->dtaken = rank_pieces_cut(from, chunk * sizes->width);
        work->active = rank_pieces_cut(from, chunk * sizes->hidden);
        work->dweights = rank_pieces_cut(from, sizes->places);
        work->dlogits = rank_pieces_cut(from, sizes->tokens * sizes->experts);
        work->dscores = rank_pieces_cut(from, sizes->experts);
    }
}

/* What the experts here need besides, for the rows of other ranks. */
static void cut_shared_experts(rank_pieces *from, const rank_shape *shape, transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t chunk = base_min_size(shape->backend->rows_at_once, sizes->tokens);
    const size_t waiting = (size_t)rank_leaf_plan_levels(shape->ep->cut.ranks) - 1;
    experts_work *work = &pass->experts;
    work->own = rank_pieces_cut(from, sizes->received * sizes->width);
    if (shape->training) {
        work->own_weights = rank_pieces_cut(from, sizes->received);
        work->own_dweights = rank_pieces_cut(from, sizes->received);
        work->sorted = rank_pieces_cut(from, sizes->places);
        work->counted = (void *)rank_pieces_cut(from, chunk);
        work->leaves = rank_pieces_cut(from, waiting * sizes->width * (sizes->up + sizes->hidden));
    }
}

/* dadded of a chunk's rows; of experts, which take rows in an order of their own, of all. */
static float *cut_dadded(rank_pieces *from, const rank_shape *shape, const transformer_sizes *sizes)
{
    const size_t chunk = base_min_size(shape->backend->rows_at_once, sizes->tokens);
    const size_t rows = sizes->experts > 0 ? sizes->tokens : chunk;
    return shape->training && (shape->config->dropout > 0.0 || sizes->after_norms)
               ? rank_pieces_cut(from, rows * sizes->width)
               : NULL;
}

static size_t cut_work(transformer_pass *pass, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const transformer_sizes *sizes = &pass->sizes;
    const size_t tokens = sizes->tokens;
    const size_t wide = wide_floats(sizes, shape);
    pass->wide = rank_pieces_cut(&from, wide);
    pass->logit_row = logit_row(shape);
    pass->logit_rows_at_once = logit_rows_at_once(shape, wide);
    if (shape->training) {
        pass->dx = rank_pieces_cut(&from, tokens * sizes->width);
        pass->dbranch = rank_pieces_cut(&from, tokens * sizes->width);
        pass->dattention = sizes->queries == sizes->width
                               ? pass->dbranch
                               : rank_pieces_cut(&from, tokens * sizes->queries);
        if (shape->type != RANK_FLOAT32) {
            pass->narrow_dx = cut_typed(&from, sizes, tokens * sizes->width);
        }
    }
    pass->shared_block = shape->recompute
                             ? rank_pieces_cut(&from, count_block(shape, &pass->of, sizes).shared)
                             : NULL;
    pass->dadded = cut_dadded(&from, shape, sizes);
    if (shape->training && rank_tensor_ranks(shape->config) > 1) {
        pass->shared_loss = rank_pieces_cut(&from, 3 * pass->logit_rows_at_once);
    }
    if (shape->training && sizes->head_norms) {
        pass->head_sums =
            rank_pieces_cut(&from, (sizes->heads + sizes->kv_heads) * sizes->head_width);
    }
    if (!sizes->biased) {
        pass->no_bias = rank_pieces_cut(&from, sizes->qkv_row);
    }
    if (!sizes->biased || shape->config->adapters.rank > 0) {
        pass->no_bias_grad = rank_pieces_cut(&from, sizes->qkv_row);
    }
    if (sizes->experts > 0) {
        cut_experts(&from, shape, pass);
    }
    if (shape->ep != NULL) {
        cut_shared_experts(&from, shape, pass);
    }
    cut_adapters(&from, shape, pass);
    cut_packed(&from, shape, pass);
    if (shape->cp != NULL) {
        cut_exchanged(&from, shape->cp, pass);
    }
    const rank_attention_shape attention = {.tokens = whole_tokens(shape),
                                            .heads = sizes->heads,
                                            .head_width = sizes->head_width,
                                            .segment_max = segment_max(shape)};
    pass->attention_scratch = rank_pieces_cut(&from, shape->backend->attention_scratch(&attention));
    return from.used;
}

size_t transformer_work_floats(const rank_shape *shape)
{
    if (shape->tp != NULL && !shape->training) {
        return rank_decoder_work_floats(shape);
    }
    transformer_pass pass = {.of = describe(shape)};
    pass.sizes = make_sizes(&pass.of, shape);
    return cut_work(&pass, shape, NULL);
}

/* Products in bfloat16 are three times as slow where an extent is odd, as GPT-2's vocabulary is. So
 * they take whole rows of logits: the output's matrix goes on into the parameters behind it, where
 * there are enough. Nobody reads the logits that this gives, and their gradient is zero. */
static size_t logit_columns(const transformer_pass *pass)
{
    if (pass->type == RANK_FLOAT32) {
        return pass->sizes.vocab_size;
    }
    const size_t end = pass->layout.output + pass->logit_row * pass->width;
    return end <= pass->layout.total ? pass->logit_row : pass->sizes.vocab_size;
}

void transformer_pass_begin(const rank_run *run, const rank_saved *saved, transformer_pass *pass)
{
    const rank_shape *shape = &run->shape;
    *pass = (transformer_pass){
        .run = run,
        .backend = run->device.backend,
        .queue = run->device.queue,
        .rows = &saved->rows,
        .of = describe(shape),
        .width = (size_t)shape->config->width,
        .layers = (size_t)shape->config->layers,
        .type = shape->type,
        .blocks = saved->activations,
        .loads = saved->loads,
        .dropout = transformer_dropout_of(shape, &saved->rows),
    };
    transformer_layout_of(shape->config, &pass->layout);
    if (shape->config->adapters.rank > 0 && run->hooks->adapters != NULL) {
        pass->adapters = run->hooks->adapters;
        rank_adapters_describe(shape->config, &pass->adapted);
    }
    pass->sizes = make_sizes(&pass->of, shape);
    rank_pieces from = {.begin = saved->activations,
                        .used =
                            blocks_kept(shape) * count_block(shape, &pass->of, &pass->sizes).kept};
    cut_ends(&from, blocks_kept(shape), pass);
    (void)cut_work(pass, shape, run->work);
    pass->experts.dout = pass->dx;
    pass->logit_columns = logit_columns(pass);
    if (pass->no_bias != NULL) {
        pass->backend->zero(pass->queue, pass->no_bias, pass->sizes.qkv_row * sizeof(float));
    }
}

block_state transformer_block(const transformer_pass *pass, int layer)
{
    const rank_shape *shape = &pass->run->shape;
    const size_t index = shape->training ? (size_t)(layer - shape->first_layer) : 0;
    rank_pieces kept = {.begin = pass->blocks,
                        .used = index * count_block(shape, &pass->of, &pass->sizes).kept};
    rank_pieces shared = {.begin = pass->shared_block};
    return cut_block(&kept, shape->recompute ? &shared : &kept, &pass->of, &pass->sizes);
}

void transformer_enter_layer(transformer_pass *pass, int layer)
{
    pass->layer = layer;
    pass->layer_ns = rank_trace_begin(pass->run->hooks->trace);
    pass->block = transformer_block(pass, layer);
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        pass->weights[i] =
            transformer_need(pass, transformer_offset(pass, layer, i), transformer_count(pass, i));
    }
}

void transformer_leave_layer(const transformer_pass *pass)
{
    transformer_done(pass, transformer_offset(pass, pass->layer, 0),
                     pass->layout.in_block[BLOCK_TENSORS]);
    rank_trace_add(pass->run->hooks->trace, (rank_trace_span){.kind = RANK_TRACE_LAYER,
                                                              .begin_ns = pass->layer_ns,
                                                              .index = pass->layer});
}

rank_attention transformer_attention(const transformer_pass *pass, const rank_segments *segments,
                                     int first_layer)
{
    return (rank_attention){
        .width = pass->sizes.queries,
        .heads = pass->sizes.heads,
        .segment_count = segments->count,
        .segment_start = pass->rows->segment_start + segments->first,
        .rows = segments->row_count,
        .segment_max = pass->rows->segment_max,
        .type = pass->type,
        .qkv = pass->block.qkv,
        .bias = pass->no_bias != NULL ? pass->no_bias : pass->weights[QKV_BIAS],
        .row_max = pass->block.row_max,
        .row_scale = pass->block.row_scale,
        .scratch = pass->attention_scratch,
        .same_segments = pass->layer != first_layer && segments->count == pass->rows->segment_count,
        .window = rank_decoder_is_local(&pass->of, pass->layer) ? pass->of.window : 0,
        .scale = pass->of.score_scale,
    };
}

/* Rows of bfloat16 move as rows of half as many floats: their bits do not change. */
rank_move_rows transformer_active_rows(const transformer_pass *pass, void *at, size_t columns,
                                       rank_type type)
{
    return (rank_move_rows){.count = pass->rows->active_count,
                            .total = pass->rows->count,
                            .width = columns * rank_type_bytes(type) / sizeof(float),
                            .rows = pass->rows->active,
                            .at = at};
}
