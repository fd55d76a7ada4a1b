/* Plans Muon: its room, its iterations, and the exchange of updated matrices. Called by training.c and layout.c. */
#include "plan/muon.h"

#include <math.h>
#include <string.h>

#include "plan/bill.h"
#include "plan/experts.h"
#include "plan/times.h"

enum {
    ITERATIONS = 5,
    PANEL = 32,        /* columns of a packed matrix that are stored together */
    UPDATE_BYTES = 16, /* of AdamW's 28; the others are the gradient's and the momentum's */
    KINDS_MAX = 2 * LAUNCH_MATRICES_MAX, /* of matrices of a layer: adapters have two of each */
};

bool launch_plans_muon(const launch_ask *ask)
{
    return ask->optimizer == PROTO_OPTIMIZER_MUON;
}

/* Which of a layer's matrices. */
typedef enum which { ALL, EXPERTS, COMMON, ROUTERS } which;

/* Matrices in the order of a layer's parameters. */
typedef struct list {
    launch_matrix of[KINDS_MAX];
    int count;
} list;

/* Those that are trained, of an expert's kind all experts'. */
static list list_all(const launch_ask *ask)
{
    launch_matrix layer[LAUNCH_MATRICES_MAX];
    const int count = launch_model_matrices(&ask->model, layer);
    const int64_t rank = ask->adapters.rank;
    list found = {.count = 0};
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            found.of[found.count++] = layer[i];
        } else if (ask->adapters.adapted[i]) {
            found.of[found.count++] = (launch_matrix){"lora_A", layer[i].in, rank, 1};
            found.of[found.count++] = (launch_matrix){"lora_B", rank, layer[i].out, 1};
        }
    }
    return found;
}

/* The router, which tensor ranks do not cut: each computes it whole. */
static bool is_router(const launch_matrix *matrix)
{
    return strcmp(matrix->name, "mlp.gate") == 0;
}

/* Those of them that a rank has: of experts, some. */
static list list_held(const launch_ask *ask, const launch_layout *layout, which kind)
{
    const list all = list_all(ask);
    list found = {.count = 0};
    for (int i = 0; i < all.count; i++) {
        launch_matrix matrix = all.of[i];
        const bool expert = matrix.count > 1;
        matrix.count /= expert ? launch_layout_expert_ranks(layout) : 1;
        if (kind == ALL || (kind == ROUTERS ? is_router(&matrix) : expert == (kind == EXPERTS))) {
            found.of[found.count++] = matrix;
        }
    }
    return found;
}

static double smaller(const launch_matrix *matrix)
{
    return fmin((double)matrix->in, (double)matrix->out);
}

static double elements(const launch_matrix *matrix)
{
    return (double)matrix->in * (double)matrix->out;
}

/* Multiplications of an iteration: x xᵀ and its product with x, and the square of x xᵀ. */
static double work(const launch_matrix *matrix)
{
    const double side = smaller(matrix);
    return side * (2 * elements(matrix) + side * side);
}

static double packed(double depth, double columns)
{
    return depth * ceil(columns / PANEL) * PANEL;
}

/* Twice the largest matrix, twice the square of its smaller side, and a product's second factor as it is packed. */
double launch_muon_room_bytes(const launch_ask *ask)
{
    const list all = list_all(ask);
    double update = 0;
    double gram = 0;
    double scratch = 0;
    for (int i = 0; i < all.count; i++) {
        const double side = smaller(&all.of[i]);
        const double length = elements(&all.of[i]) / side;
        update = fmax(update, side * length);
        gram = fmax(gram, side * side);
        scratch = fmax(scratch, fmax(packed(length, side), packed(side, length)));
    }
    return launch_plans_muon(ask)
               ? (2 * update + 2 * gram + scratch) * sizeof(float) + sizeof(double)
               : 0;
}

/* Matrices in a row that one rank has, or all. */
typedef struct share {
    double work;
    double elements;
    double count;
} share;

static share all_matrices(const list *held, int64_t layers)
{
    share all = {0, 0, 0};
    for (int i = 0; i < held->count; i++) {
        const double times = (double)(layers * held->of[i].count);
        all.work += times * work(&held->of[i]);
        all.elements += times * elements(&held->of[i]);
        all.count += times;
    }
    return all;
}

/* The dealing of matrices to ranks, as rank/optim/muon_matrices.c has it: each goes to the rank in
 * whose part of all work the middle of its own work is. */
typedef struct dealing {
    double all;
    double before; /* of the matrices dealt so far */
    int64_t ranks;
    bool by_tensor; /* and routers to none */
    int64_t owner;  /* of the last one */
    share own;      /* what that has so far */
    share most;     /* of work, and of it the elements; and, apart from these, the largest count */
} dealing;

static void deal(dealing *to, const launch_matrix *matrix)
{
    const int64_t at = (int64_t)((to->before + work(matrix) / 2) / to->all * (double)to->ranks);
    const int64_t owner = at < to->ranks ? at : to->ranks - 1;
    const double most_count = to->most.count;
    to->before += work(matrix);
    if (to->by_tensor && is_router(matrix)) {
        return;
    }
    to->own = owner == to->owner ? to->own : (share){0, 0, 0};
    to->owner = owner;
    to->own.work += work(matrix);
    to->own.elements += elements(matrix);
    to->own.count++;
    to->most = to->own.work > to->most.work ? to->own : to->most;
    to->most.count = fmax(to->own.count, most_count);
}

/* What the rank has that has most work. */
static share largest_share(const list *held, int64_t layers, int64_t ranks, bool by_tensor)
{
    dealing to = {.all = all_matrices(held, layers).work, .ranks = ranks, .by_tensor = by_tensor};
    for (int64_t layer = 0; layer < layers; layer++) {
        for (int i = 0; i < held->count; i++) {
            for (int64_t each = 0; each < held->of[i].count; each++) {
                deal(&to, &held->of[i]);
            }
        }
    }
    return to.most;
}

/* ---- whole matrices, on ranks that have the same ---- */

/* With local steps ranks have other parameters, and in a pipeline other layers: each updates all of
 * its own. */
static int64_t sharing_ranks(const launch_ask *ask, const launch_layout *layout)
{
    return layout->pipeline > 1 || launch_ask_local_steps(ask) > 1
               ? 1
               : launch_layout_copies(layout) / launch_layout_expert_ranks(layout);
}

/* From a rank's first matrix to the end of the last one: without the norm that a block begins with, and what a block
 * ends with: the last product's bias, or norms of heads. */
static double gathered_params(const launch_ask *ask, const launch_layout *layout)
{
    const launch_model *model = &ask->model;
    const launch_stage layers = {.layers = model->layers};
    const double width = (double)model->width;
    const bool ends_with_norms = model->head_norms && model->experts == 0;
    const double norms = ends_with_norms ? 2 * (double)model->head_width : 0;
    return ask->adapters.rank > 0 ? launch_adapters_params(&ask->adapters, &layers)
                                  : launch_experts_held_params(ask, layout, &layers) -
                                        (model->rms ? width + norms : 3 * width);
}

static void bill_whole(const launch_ask *ask, launch_estimate *made, int64_t layers)
{
    const int64_t ranks = sharing_ranks(ask, &made->layout);
    const list held = list_held(ask, &made->layout, ALL);
    const share all = all_matrices(&held, layers);
    const share own = largest_share(&held, layers, ranks, false);
    made->newton_schulz_s = launch_products_s(ask, 2 * ITERATIONS * own.work);
    made->optimizer_s +=
        made->newton_schulz_s - launch_reading_s(ask, UPDATE_BYTES * (all.elements - own.elements));
    made->parameters_s =
        launch_bill_halves(ask, made,
                           (launch_exchange){.what = "matrices",
                                             .ranks = ranks,
                                             .span = launch_layout_copies(&made->layout),
                                             .times = 1,
                                             .payload_bytes = gathered_params(ask, &made->layout) *
                                                              LAUNCH_EXCHANGED_BYTES},
                           "all_gather");
    made->parameters_exposed_s = made->parameters_s;
}

/* ---- matrices in parts ---- */

/* Those of one kind, between ranks that have parts of the same: two all-to-alls of each round, in
 * which a rank computes one matrix at most. What a rank has of an element is read and written as
 * AdamW's, once more for these. */
static void bill_parts(const launch_ask *ask, launch_estimate *made, int64_t layers, which kind,
                       int64_t ranks)
{
    const list held = list_held(ask, &made->layout, kind);
    const bool by_tensor = launch_layout_zero(ask, &made->layout) == 0;
    const list routers = by_tensor ? list_held(ask, &made->layout, ROUTERS) : (list){.count = 0};
    const share whole = all_matrices(&routers, layers);
    const double elements = all_matrices(&held, layers).elements - whole.elements;
    const share own = largest_share(&held, layers, ranks, by_tensor);
    const double newton_schulz_s = launch_products_s(ask, 2 * ITERATIONS * (own.work + whole.work));
    const launch_exchange parts = {
        .what = kind == EXPERTS ? "expert matrices" : "matrices",
        .ranks = ranks,
        .span = launch_layout_copies(&made->layout) * made->layout.tensor,
        .times = 2 * own.count,
        .payload_bytes =
            own.count > 0 ? elements / own.count / (double)ranks * LAUNCH_EXCHANGED_BYTES : 0};
    const double exchange_s = launch_bill_halves(ask, made, parts, "all_to_all");
    made->newton_schulz_s += newton_schulz_s;
    made->optimizer_s += newton_schulz_s;
    made->parameters_s += exchange_s;
    made->parameters_exposed_s += exchange_s;
}

void launch_muon_bill(const launch_ask *ask, launch_estimate *made, int64_t layers)
{
    const launch_layout *layout = &made->layout;
    const int64_t copies = launch_layout_copies(layout);
    const int64_t expert_ranks = launch_layout_expert_ranks(layout);
    const bool sharded = launch_layout_zero(ask, layout) > 0;
    if (!launch_plans_muon(ask)) {
        return;
    }
    if (!sharded && layout->tensor == 1) {
        bill_whole(ask, made, layers);
    } else if (expert_ranks == 1) {
        bill_parts(ask, made, layers, ALL, (sharded ? copies : 1) * layout->tensor);
    } else {
        bill_parts(ask, made, layers, COMMON, copies);
        bill_parts(ask, made, layers, EXPERTS, copies / expert_ranks);
    }
}
