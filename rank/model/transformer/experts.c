/* The experts of a block in forward and in backward, and the router's loss. Called by forward.c and
 * backward.c in place of the MLP's products.
 *
 * As in decoding (model/decoder_experts.c), an expert takes all its rows together, ranks that share the
 * model add up their parts of each place's result, and a row's results are then weighed and added in the
 * order of experts. Backward goes the same way: the ranks' parts of each place's gradient are added up
 * first, and then a row's places in the order of experts.
 *
 * The router's loss is that of transformers' load_balancing_loss_func, over all rows that the layers route:
 * E · Σ over experts of (choices of the expert / rows) · (mean of its scores). In the last layer rows
 * without a target are not there. A micro-batch's loss counts as often as it has targets, so that the mean
 * over all micro-batches is one over tokens, whatever ranks there are. */
#include "model/transformer/pass.h"

/* The rows of one expert that go through it together: places first … first + rows. */
typedef struct expert_rows {
    size_t first;
    size_t rows;
    bool begins; /* of the expert's first rows: gradients are written, else added to */
} expert_rows;

static size_t begin_of(const transformer_pass *pass, size_t expert)
{
    return (size_t)pass->block.routing.begins[expert];
}

/* Begins with zeros. False behind the expert's last rows. */
static bool next_rows(const transformer_pass *pass, size_t expert, expert_rows *chunk)
{
    const size_t begin = begin_of(pass, expert);
    const size_t end = begin_of(pass, expert + 1);
    const size_t first = chunk->rows > 0 ? chunk->first + chunk->rows : begin;
    const size_t left = end - first;
    const size_t most = pass->backend->rows_at_once;
    *chunk = (expert_rows){first, left < most ? left : most, first == begin};
    return left > 0;
}

/* Elements of one expert's part of UP_WEIGHT or DOWN_WEIGHT. */
static size_t count_of(const transformer_pass *pass, int tensor)
{
    return transformer_count(pass, tensor) / pass->sizes.experts;
}

/* The expert's W (depth, columns), or Wᵀ if it is turned round. */
static transformer_operand operand(const transformer_pass *pass, int tensor, size_t expert,
                                   transformer_matrix matrix, float *to)
{
    matrix.at = pass->weights[tensor] + expert * count_of(pass, tensor);
    return transformer_operand_make(pass, &matrix, to);
}

static void take(const transformer_pass *pass, expert_rows chunk, const float *from, float *to)
{
    pass->backend->take_places(pass->queue,
                               &(rank_take_places){.count = chunk.rows,
                                                   .width = pass->width,
                                                   .chosen = pass->of.chosen,
                                                   .at = pass->block.routing.at + chunk.first,
                                                   .from = from,
                                                   .to = to});
}

static float *up_of(const transformer_pass *pass, expert_rows chunk)
{
    return (float *)pass->block.up + chunk.first * pass->sizes.up;
}

static float *result_of(const transformer_pass *pass, expert_rows chunk)
{
    return pass->experts.results + chunk.first * pass->width;
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
    expert_rows chunk = {.rows = 0};
    while (next_rows(pass, expert, &chunk)) {
        take(pass, chunk, pass->block.norm2.out, pass->experts.taken);
        transformer_multiply(pass, &up,
                             (transformer_factor){.rows = chunk.rows,
                                                  .a = pass->experts.taken,
                                                  .c = up_of(pass, chunk)});
        if (pass->again) {
            continue;
        }
        swiglu(pass, chunk, pass->wide);
        transformer_multiply(pass, &down,
                             (transformer_factor){.rows = chunk.rows,
                                                  .a = pass->wide,
                                                  .c = result_of(pass, chunk),
                                                  .leaves = pass->of.leaves});
    }
}

void transformer_experts(const transformer_pass *pass, size_t rows, float *out)
{
    if (!pass->again) {
        route(pass, rows);
    }
    for (size_t expert = 0; expert < pass->sizes.experts; expert++) {
        if (begin_of(pass, expert) < begin_of(pass, expert + 1)) {
            run_expert(pass, expert);
        }
    }
    if (!pass->again) {
        add_places(pass, rows, pass->block.routing.weights, out);
    }
}

/* Where the gradient of the expert's part of a tensor stands. */
static size_t grad_at(const transformer_pass *pass, int tensor, size_t expert)
{
    return transformer_offset(pass, pass->layer, tensor) + expert * count_of(pass, tensor);
}

static void dw(const transformer_pass *pass, int tensor, size_t expert, rank_product product)
{
    product.c = transformer_grad(pass, grad_at(pass, tensor, expert));
    transformer_multiply_transposed(pass, product);
}

/* From the gradient of the rows' results, in dtaken, to that of the first product, in block.up; and the
 * gradients of the rows' weights and of the second product. wide has the gradient of SwiGLU's result for a
 * weight of 1 at first, and that result times the weight in the end. */
static void backward_down(const transformer_pass *pass, size_t expert, expert_rows chunk,
                          const transformer_operand *down)
{
    const size_t hidden = pass->sizes.hidden;
    const experts_work *work = &pass->experts;
    float *up = up_of(pass, chunk);
    const rank_weigh_places weigh = {.count = chunk.rows,
                                     .width = hidden,
                                     .at = pass->block.routing.at + chunk.first,
                                     .weights = pass->block.routing.weights,
                                     .rows = pass->wide};
    transformer_multiply(
        pass, down, (transformer_factor){.rows = chunk.rows, .a = work->dtaken, .c = pass->wide});
    swiglu(pass, chunk, work->active);
    pass->backend->dot_places(
        pass->queue, &(rank_dot_places){.count = chunk.rows,
                                        .width = hidden,
                                        .leaves = transformer_grad_leaves(pass, pass->of.leaves),
                                        .at = weigh.at,
                                        .a = work->active,
                                        .b = pass->wide,
                                        .products = work->dweights});
    pass->backend->weigh_places(pass->queue, &weigh);
    pass->backend->swiglu_grad(pass->queue, &(rank_swiglu_grad){.rows = chunk.rows,
                                                                .width = hidden,
                                                                .gate = up,
                                                                .up = up + hidden,
                                                                .row = pass->sizes.up,
                                                                .d = pass->wide});
    pass->backend->weigh_places(pass->queue, &weigh);
    dw(pass, DOWN_WEIGHT, expert,
       (rank_product){.rows = pass->width,
                      .columns = hidden,
                      .depth = chunk.rows,
                      .a = work->dtaken,
                      .b = pass->wide,
                      .accumulate = !chunk.begins});
}

static void backward_expert(const transformer_pass *pass, size_t expert)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t width = pass->width;
    const experts_work *work = &pass->experts;
    const transformer_operand down = operand(
        pass, DOWN_WEIGHT, expert, (transformer_matrix){.depth = width, .columns = sizes->hidden},
        transformer_packed(pass, 0));
    const transformer_operand up =
        operand(pass, UP_WEIGHT, expert, (transformer_matrix){.depth = sizes->up, .columns = width},
                transformer_packed(pass, rank_pack_count(width, sizes->hidden)));
    expert_rows chunk = {.rows = 0};
    while (next_rows(pass, expert, &chunk)) {
        take(pass, chunk, pass->dx, work->dtaken);
        take(pass, chunk, pass->block.norm2.out, work->taken);
        backward_down(pass, expert, chunk, &down);
        dw(pass, UP_WEIGHT, expert,
           (rank_product){.rows = sizes->up,
                          .columns = width,
                          .depth = chunk.rows,
                          .a = up_of(pass, chunk),
                          .b = work->taken,
                          .accumulate = !chunk.begins});
        transformer_multiply(
            pass, &up,
            (transformer_factor){.rows = chunk.rows,
                                 .a = up_of(pass, chunk),
                                 .c = result_of(pass, chunk),
                                 .leaves = transformer_grad_leaves(pass, pass->of.leaves),
                                 .parts = {sizes->hidden, sizes->hidden}});
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
        dw(pass, ROUTER_WEIGHT, 0,
           (rank_product){.rows = sizes->experts,
                          .columns = pass->width,
                          .depth = count,
                          .a = dlogits,
                          .b = norm + first * pass->width,
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

void transformer_experts_grad(const transformer_pass *pass, size_t rows)
{
    for (size_t expert = 0; expert < pass->sizes.experts; expert++) {
        if (begin_of(pass, expert) < begin_of(pass, expert + 1)) {
            backward_expert(pass, expert);
            continue;
        }
        for (int tensor = UP_WEIGHT; tensor <= DOWN_WEIGHT; tensor += DOWN_WEIGHT - UP_WEIGHT) {
            transformer_zero_range(pass, grad_at(pass, tensor, expert), count_of(pass, tensor));
        }
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
