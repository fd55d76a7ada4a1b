/* The experts of a block in forward and in backward, and the router's loss. Called by forward.c and
 * backward.c in place of the MLP's products.
 *
 * As in decoding (model/decoder_experts.c), an expert takes all its rows together, ranks that share the
 * model add up their parts of each place's result, and a row's results are then weighed and added in the
 * order of experts. Backward goes the same way: the ranks' parts of each place's gradient are added up
 * first, and then a row's places in the order of experts.
 *
 * Where ranks share out the experts, each takes the rows of all ranks for its own (experts_exchange.c). The
 * rows of one rank for one expert are a leaf: what they give to the expert's gradient is a sum of their own,
 * and leaves are added up as slots are (rank/ddp.h). Without such ranks there is one leaf.
 *
 * The router's loss is that of transformers' load_balancing_loss_func, over all rows that the layers route:
 * E · Σ over experts of (choices of the expert / rows) · (mean of its scores). In the last layer rows
 * without a target are not there. A micro-batch's loss counts as often as it has targets, so that the mean
 * over all micro-batches is one over tokens, whatever ranks there are. */
#include "model/transformer/pass.h"
#include "rank/ddp.h"

/* The rows of one leaf that go through the expert together: places first … first + rows. */
typedef struct expert_rows {
    size_t first;
    size_t rows;
    bool begins; /* of the leaf's first rows: gradients are written, else added to */
} expert_rows;

static int leaf_count(const transformer_pass *pass)
{
    const rank_ep *ep = pass->run->shape.ep;
    return ep != NULL ? ep->cut.ranks : 1;
}

/* The expert is one of those that are here, and so in all that follows. */
static rank_ep_places leaf_of(const transformer_pass *pass, size_t expert, int leaf)
{
    const rank_ep *ep = pass->run->shape.ep;
    const int32_t *begins = pass->block.routing.begins;
    return ep != NULL ? rank_ep_leaf(&ep->cut, pass->block.received, leaf, expert)
                      : (rank_ep_places){(size_t)begins[expert],
                                         (size_t)(begins[expert + 1] - begins[expert])};
}

static bool has_rows(const transformer_pass *pass, size_t expert)
{
    bool found = false;
    for (int leaf = 0; leaf < leaf_count(pass); leaf++) {
        found = found || leaf_of(pass, expert, leaf).count > 0;
    }
    return found;
}

/* Begins with zeros. False behind the leaf's last rows. */
static bool next_rows(const transformer_pass *pass, rank_ep_places leaf, expert_rows *chunk)
{
    const size_t first = chunk->rows > 0 ? chunk->first + chunk->rows : leaf.first;
    const size_t left = leaf.first + leaf.count - first;
    const size_t most = pass->backend->rows_at_once;
    *chunk = (expert_rows){first, left < most ? left : most, first == leaf.first};
    return left > 0;
}

/* Elements of one expert's part of UP_WEIGHT or DOWN_WEIGHT. */
static size_t count_of(const transformer_pass *pass, int tensor)
{
    return transformer_count(pass, tensor) / pass->sizes.own;
}

/* The expert's W (depth, columns), or Wᵀ if it is turned round. */
static transformer_operand operand(const transformer_pass *pass, int tensor, size_t expert,
                                   transformer_matrix matrix, float *to)
{
    matrix.at = pass->weights[tensor] + expert * count_of(pass, tensor);
    return transformer_operand_make(pass, &matrix, to);
}

/* The chunk's rows of `from`, taken into `to`; or those that have come, where ranks share out the experts. */
static float *take(const transformer_pass *pass, expert_rows chunk, const float *from, float *to,
                   float *come)
{
    if (pass->run->shape.ep != NULL) {
        return come + chunk.first * pass->width;
    }
    pass->backend->take_places(pass->queue,
                               &(rank_take_places){.count = chunk.rows,
                                                   .width = pass->width,
                                                   .chosen = pass->of.chosen,
                                                   .at = pass->block.routing.at + chunk.first,
                                                   .from = from,
                                                   .to = to});
    return to;
}

static float *take_input(const transformer_pass *pass, expert_rows chunk)
{
    return take(pass, chunk, pass->block.norm2.out, pass->experts.taken, pass->block.rows);
}

static float *take_grad(const transformer_pass *pass, expert_rows chunk)
{
    return take(pass, chunk, pass->experts.dout, pass->experts.dtaken, pass->experts.own);
}

static float *up_of(const transformer_pass *pass, expert_rows chunk)
{
    return (float *)pass->block.up + chunk.first * pass->sizes.up;
}

static float *result_of(const transformer_pass *pass, expert_rows chunk)
{
    const bool shared = pass->run->shape.ep != NULL;
    return (shared ? pass->experts.own : pass->experts.results) + chunk.first * pass->width;
}

static void swiglu(const transformer_pass *pass, expert_rows chunk, float *out)
{
    float *up = up_of(pass, chunk);
    pass->backend->swiglu(pass->queue, &(rank_swiglu){.rows = chunk.rows,
                                                      .width = pass->sizes.hidden,
                                                      .gate = up,
                                                      .up = up + pass->sizes.hidden,
                                                      .row = pass->sizes.up,
                                                      .out = out});
}

/* Makes the block's routing of its rows, and its loads. */
static void route(const transformer_pass *pass, size_t rows)
{
    const transformer_sizes *sizes = &pass->sizes;
    const rank_routing *routing = &pass->block.routing;
    if (rows == 0) { /* of a rank that is idle */
        pass->backend->zero(pass->queue, routing->begins,
                            (sizes->experts + 1) * sizeof *routing->begins);
        return;
    }
    const size_t layer = (size_t)(pass->layer - pass->run->shape.first_layer);
    const transformer_operand router = {.at = pass->weights[ROUTER_WEIGHT],
                                        .row = pass->width,
                                        .transposed = true,
                                        .depth = pass->width,
                                        .columns = sizes->experts};
    transformer_multiply(
        pass, &router,
        (transformer_factor){.rows = rows, .a = pass->block.norm2.out, .c = routing->scores});
    pass->backend->route(pass->queue, &(rank_route){.rows = rows,
                                                    .experts = sizes->experts,
                                                    .chosen = pass->of.chosen,
                                                    .normed = pass->of.normed,
                                                    .routing = routing});
    pass->backend->measure_loads(
        pass->queue, &(rank_measure_loads){.rows = rows,
                                           .experts = sizes->experts,
                                           .routing = routing,
                                           .loads = pass->loads + layer * sizes->experts});
}

static void add_places(const transformer_pass *pass, size_t rows, const float *weights, float *to)
{
    transformer_sum_over_ranks(pass, pass->experts.results, rows * pass->of.chosen * pass->width);
    pass->backend->add_places(pass->queue, &(rank_add_places){.rows = rows,
                                                              .width = pass->width,
                                                              .chosen = pass->of.chosen,
                                                              .places = pass->block.routing.places,
                                                              .weights = weights,
                                                              .from = pass->experts.results,
                                                              .to = to});
}

/* A leaf's rows through both products; with `again` through the first alone. */
static void run_leaf(const transformer_pass *pass, rank_ep_places leaf,
                     const transformer_operand *up, const transformer_operand *down)
{
    expert_rows chunk = {.rows = 0};
    while (next_rows(pass, leaf, &chunk)) {
        transformer_multiply(pass, up,
                             (transformer_factor){.rows = chunk.rows,
                                                  .a = take_input(pass, chunk),
                                                  .c = up_of(pass, chunk)});
        if (pass->again) {
            continue;
        }
        swiglu(pass, chunk, pass->wide);
        transformer_multiply(pass, down,
                             (transformer_factor){.rows = chunk.rows,
                                                  .a = pass->wide,
                                                  .c = result_of(pass, chunk),
                                                  .leaves = pass->of.leaves});
    }
}

static void run_expert(const transformer_pass *pass, size_t expert)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t width = pass->width;
    const size_t down_at = rank_pack_count(width, sizes->up);
    const transformer_operand up =
        operand(pass, UP_WEIGHT, expert,
                (transformer_matrix){.depth = width, .columns = sizes->up, .transposed = true},
                transformer_packed(pass, 0));
    transformer_operand down = {.at = NULL};
    if (!pass->again) {
        down = operand(
            pass, DOWN_WEIGHT, expert,
            (transformer_matrix){.depth = sizes->hidden, .columns = width, .transposed = true},
            transformer_packed(pass, down_at));
    }
    for (int leaf = 0; leaf < leaf_count(pass); leaf++) {
        run_leaf(pass, leaf_of(pass, expert, leaf), &up, &down);
    }
}

void transformer_experts(const transformer_pass *pass, size_t rows, float *out)
{
    const bool shared = pass->run->shape.ep != NULL;
    if (!pass->again) {
        route(pass, rows);
    }
    if (shared) {
        transformer_send_rows(pass);
    }
    for (size_t expert = 0; expert < pass->sizes.own; expert++) {
        if (has_rows(pass, expert)) {
            run_expert(pass, expert);
        }
    }
    if (shared && !pass->again) {
        transformer_bring_results(pass);
    }
    if (!pass->again) {
        add_places(pass, rows, pass->block.routing.weights, out);
    }
}

/* Where a leaf's gradient of the expert's part of a tensor stands: at level 0 in the gradients, else it waits
 * for the leaves before it. */
static float *grad_of(const transformer_pass *pass, int tensor, size_t expert, int level)
{
    const size_t up_count = count_of(pass, UP_WEIGHT);
    const size_t each = up_count + count_of(pass, DOWN_WEIGHT);
    if (level == 0) {
        return transformer_grad(pass, transformer_offset(pass, pass->layer, tensor) +
                                          expert * count_of(pass, tensor));
    }
    return pass->experts.leaves + (size_t)(level - 1) * each +
           (tensor == DOWN_WEIGHT ? up_count : 0);
}

/* An expert's two tensors. */
static const int tensors[] = {UP_WEIGHT, DOWN_WEIGHT};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static void zero_leaf(const transformer_pass *pass, size_t expert, int level)
{
    for (int i = 0; i < TENSORS; i++) {
        pass->backend->zero(pass->queue, grad_of(pass, tensors[i], expert, level),
                            count_of(pass, tensors[i]) * sizeof(float));
    }
}

/* Adds a leaf to those that are complete with it. */
static void merge_leaf(const transformer_pass *pass, size_t expert, rank_leaf_plan plan)
{
    for (int level = plan.level; level > plan.level - plan.merges; level--) {
        for (int i = 0; i < TENSORS; i++) {
            pass->backend->add(pass->queue,
                               &(rank_add){.count = count_of(pass, tensors[i]),
                                           .from = grad_of(pass, tensors[i], expert, level),
                                           .to = grad_of(pass, tensors[i], expert, level - 1)});
        }
    }
}

/* Of a chunk's places: the choices, the routing's weights of these, and where their gradient goes. */
typedef struct chunk_weights {
    const int32_t *at;
    const float *weights;
    float *dweights;
} chunk_weights;

static chunk_weights weights_of(const transformer_pass *pass, expert_rows chunk)
{
    const experts_work *work = &pass->experts;
    const rank_routing *routing = &pass->block.routing;
    return pass->run->shape.ep != NULL
               ? (chunk_weights){work->counted, work->own_weights + chunk.first,
                                 work->own_dweights + chunk.first}
               : (chunk_weights){routing->at + chunk.first, routing->weights, work->dweights};
}

/* What a leaf's backward needs. */
typedef struct backward_leaf {
    size_t expert;
    int level; /* of its gradients */
    transformer_operand down;
    transformer_operand up;
} backward_leaf;

/* From the gradient of the rows' results, in dtaken, to that of the first product, in block.up; and the
 * gradients of the rows' weights and of the second product. wide has the gradient of SwiGLU's result for a
 * weight of 1 at first, and that result times the weight in the end. */
static void backward_down(const transformer_pass *pass, const backward_leaf *leaf,
                          expert_rows chunk, const float *dtaken)
{
    const size_t hidden = pass->sizes.hidden;
    const experts_work *work = &pass->experts;
    const chunk_weights of = weights_of(pass, chunk);
    float *up = up_of(pass, chunk);
    const rank_weigh_places weigh = {.count = chunk.rows,
                                     .width = hidden,
                                     .at = of.at,
                                     .weights = of.weights,
                                     .rows = pass->wide};
    transformer_multiply(pass, &leaf->down,
                         (transformer_factor){.rows = chunk.rows, .a = dtaken, .c = pass->wide});
    swiglu(pass, chunk, work->active);
    pass->backend->dot_places(
        pass->queue, &(rank_dot_places){.count = chunk.rows,
                                        .width = hidden,
                                        .leaves = transformer_grad_leaves(pass, pass->of.leaves),
                                        .at = of.at,
                                        .a = work->active,
                                        .b = pass->wide,
                                        .products = of.dweights});
    pass->backend->weigh_places(pass->queue, &weigh);
    pass->backend->swiglu_grad(pass->queue, &(rank_swiglu_grad){.rows = chunk.rows,
                                                                .width = hidden,
                                                                .gate = up,
                                                                .up = up + hidden,
                                                                .row = pass->sizes.up,
                                                                .d = pass->wide});
    pass->backend->weigh_places(pass->queue, &weigh);
    transformer_multiply_transposed(
        pass, (rank_product){.rows = pass->width,
                             .columns = hidden,
                             .depth = chunk.rows,
                             .a = dtaken,
                             .b = pass->wide,
                             .c = grad_of(pass, DOWN_WEIGHT, leaf->expert, leaf->level),
                             .accumulate = !chunk.begins});
}

/* From there to the gradient of the rows, which replaces that of their results where these have come. */
static void backward_up(const transformer_pass *pass, const backward_leaf *leaf, expert_rows chunk)
{
    const transformer_sizes *sizes = &pass->sizes;
    transformer_multiply_transposed(
        pass, (rank_product){.rows = sizes->up,
                             .columns = pass->width,
                             .depth = chunk.rows,
                             .a = up_of(pass, chunk),
                             .b = take_input(pass, chunk),
                             .c = grad_of(pass, UP_WEIGHT, leaf->expert, leaf->level),
                             .accumulate = !chunk.begins});
    transformer_multiply(
        pass, &leaf->up,
        (transformer_factor){.rows = chunk.rows,
                             .a = up_of(pass, chunk),
                             .c = result_of(pass, chunk),
                             .leaves = transformer_grad_leaves(pass, pass->of.leaves),
                             .parts = {sizes->hidden, sizes->hidden}});
}

static void backward_expert(const transformer_pass *pass, size_t expert)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t width = pass->width;
    backward_leaf leaf = {.expert = expert};
    if (has_rows(pass, expert)) {
        leaf.down = operand(pass, DOWN_WEIGHT, expert,
                            (transformer_matrix){.depth = width, .columns = sizes->hidden},
                            transformer_packed(pass, 0));
        leaf.up = operand(pass, UP_WEIGHT, expert,
                          (transformer_matrix){.depth = sizes->up, .columns = width},
                          transformer_packed(pass, rank_pack_count(width, sizes->hidden)));
    }
    for (int i = 0; i < leaf_count(pass); i++) {
        const rank_leaf_plan plan = rank_leaf_plan_make(leaf_count(pass), i);
        const rank_ep_places places = leaf_of(pass, expert, i);
        expert_rows chunk = {.rows = 0};
        leaf.level = plan.level;
        if (places.count == 0) {
            zero_leaf(pass, expert, plan.level);
        }
        while (next_rows(pass, places, &chunk)) {
            backward_down(pass, &leaf, chunk, take_grad(pass, chunk));
            backward_up(pass, &leaf, chunk);
        }
        merge_leaf(pass, expert, plan);
    }
}

/* From the gradient of the routing's weights, and the router's loss, to that of the router; and what the
 * router adds to the gradient of its rows. */
static void backward_router(const transformer_pass *pass, size_t rows)
{
    const transformer_sizes *sizes = &pass->sizes;
    const experts_work *work = &pass->experts;
    const float *norm = pass->block.norm2.out;
    const size_t most = pass->backend->rows_at_once;
    pass->backend->route_grad(pass->queue, &(rank_route_grad){.rows = rows,
                                                              .experts = sizes->experts,
                                                              .chosen = pass->of.chosen,
                                                              .normed = pass->of.normed,
                                                              .routing = &pass->block.routing,
                                                              .dweights = work->dweights,
                                                              .dscores = work->dscores,
                                                              .dlogits = work->dlogits});
    for (size_t first = 0; first < rows; first += most) {
        const size_t count = rows - first < most ? rows - first : most;
        const float *dlogits = work->dlogits + first * sizes->experts;
        transformer_multiply_transposed(
            pass, (rank_product){.rows = sizes->experts,
                                 .columns = pass->width,
                                 .depth = count,
                                 .a = dlogits,
                                 .b = norm + first * pass->width,
                                 .c = transformer_block_grad(pass, pass->layer, ROUTER_WEIGHT),
                                 .accumulate = first > 0});
        pass->backend->product(pass->queue,
                               &(rank_product){.rows = count,
                                               .columns = pass->width,
                                               .depth = sizes->experts,
                                               .a = dlogits,
                                               .a_row = sizes->experts,
                                               .a_depth = 1,
                                               .b = pass->weights[ROUTER_WEIGHT],
                                               .b_row = pass->width,
                                               .c = pass->dbranch + first * pass->width,
                                               .c_row = pass->width,
                                               .leaves = 1,
                                               .accumulate = true});
    }
}

/* 0, 1, 2 …: rows that have come stand in the order of their weights. */
static void count_rows(const transformer_pass *pass)
{
    const size_t most = pass->backend->rows_at_once;
    const size_t count = most < pass->sizes.tokens ? most : pass->sizes.tokens;
    for (size_t i = 0; i < count; i++) {
        pass->experts.counted[i] = (int32_t)i;
    }
}

void transformer_experts_grad(const transformer_pass *pass, size_t rows)
{
    const bool shared = pass->run->shape.ep != NULL;
    if (shared) {
        count_rows(pass);
        transformer_send_grads(pass);
    }
    for (size_t expert = 0; expert < pass->sizes.own; expert++) {
        backward_expert(pass, expert);
    }
    if (shared) {
        transformer_bring_grads(pass);
    }
    transformer_sum_over_ranks(pass, pass->experts.dweights, rows * pass->of.chosen);
    add_places(pass, rows, NULL, pass->dbranch);
    backward_router(pass, rows);
}

void transformer_router_loss(const transformer_pass *pass, double *loss)
{
    const size_t layers = (size_t)(pass->run->shape.end_layer - pass->run->shape.first_layer);
    const size_t last = (size_t)pass->run->shape.end_layer - 1;
    pass->backend->router_loss(pass->queue,
                               &(rank_router_loss){.layers = layers,
                                                   .experts = pass->sizes.experts,
                                                   .rows = (layers - 1) * pass->rows->count +
                                                           transformer_rows_behind(pass, (int)last),
                                                   .targets = pass->rows->target_count,
                                                   .factor = pass->run->shape.config->router_loss,
                                                   .loads = pass->loads,
                                                   .loss = loss,
                                                   .dscores = pass->experts.dscores});
}
