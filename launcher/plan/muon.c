/* Plans Muon: its room, its iterations, and the exchange of updated matrices. Called by training.c and layout.c. */
#include "plan/muon.h"

#include <math.h>

#include "plan/bill.h"
#include "plan/experts.h"
#include "plan/times.h"

enum {
    ITERATIONS = 5,
    PANEL = 32,        /* columns of a packed matrix that are stored together */
    UPDATE_BYTES = 16, /* of AdamW's 28; the others are the gradient's and the momentum's */
};

bool launch_plans_muon(const launch_ask *ask)
{
    return ask->optimizer == PROTO_OPTIMIZER_MUON;
}

base_status launch_muon_check(const launch_ask *ask, const launch_layout *layout,
                              base_error *reterr)
{
    const char *other = layout->tensor > 1       ? "--tensor"
                        : ask->zero != 0         ? "--zero"
                        : ask->adapters.rank > 0 ? "--lora"
                                                 : NULL;
    return !launch_plans_muon(ask) || other == NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "--optimizer " PROTO_MUON_GOES_WITH " %s",
                           other);
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
    launch_matrix matrices[LAUNCH_MATRICES_MAX];
    const int count = launch_model_matrices(&ask->model, matrices);
    double update = 0;
    double gram = 0;
    double scratch = 0;
    for (int i = 0; i < count; i++) {
        const double side = smaller(&matrices[i]);
        const double length = elements(&matrices[i]) / side;
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
} share;

/* Those of a block that a rank has: of experts, some. Returns how many kinds there are. */
static int list_held(const launch_ask *ask, const launch_layout *layout,
                     launch_matrix matrices[LAUNCH_MATRICES_MAX])
{
    const int count = launch_model_matrices(&ask->model, matrices);
    for (int i = 0; i < count; i++) {
        matrices[i].count /= matrices[i].count > 1 ? launch_layout_expert_ranks(layout) : 1;
    }
    return count;
}

static share all_matrices(const launch_ask *ask, const launch_layout *layout, int64_t layers)
{
    launch_matrix matrices[LAUNCH_MATRICES_MAX];
    const int count = list_held(ask, layout, matrices);
    share all = {0, 0};
    for (int i = 0; i < count; i++) {
        const double times = (double)(layers * matrices[i].count);
        all.work += times * work(&matrices[i]);
        all.elements += times * elements(&matrices[i]);
    }
    return all;
}

/* The dealing of matrices to ranks, as rank/optim/muon.c has it: each goes to the rank in whose part of all work the
 * middle of its own work is. */
typedef struct dealing {
    double all;
    double before; /* of the matrices dealt so far */
    int64_t ranks;
    int64_t owner; /* of the last one */
    share own;     /* what that has so far */
    share most;
} dealing;

static void deal(dealing *to, const launch_matrix *matrix)
{
    const int64_t at = (int64_t)((to->before + work(matrix) / 2) / to->all * (double)to->ranks);
    const int64_t owner = at < to->ranks ? at : to->ranks - 1;
    to->own = owner == to->owner ? to->own : (share){0, 0};
    to->owner = owner;
    to->own.work += work(matrix);
    to->own.elements += elements(matrix);
    to->before += work(matrix);
    to->most = to->own.work > to->most.work ? to->own : to->most;
}

/* What the rank has that has most work. */
static share largest_share(const launch_ask *ask, const launch_layout *layout, int64_t layers,
                           int64_t ranks)
{
    launch_matrix matrices[LAUNCH_MATRICES_MAX];
    const int count = list_held(ask, layout, matrices);
    dealing to = {.all = all_matrices(ask, layout, layers).work, .ranks = ranks};
    for (int64_t layer = 0; layer < layers; layer++) {
        for (int i = 0; i < count; i++) {
            for (int64_t each = 0; each < matrices[i].count; each++) {
                deal(&to, &matrices[i]);
            }
        }
    }
    return to.most;
}

/* Those that have the same matrices. With local steps ranks have other parameters, and in a pipeline other layers:
 * each updates all of its own. */
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
    return launch_experts_held_params(ask, layout, &layers) -
           (model->rms ? width + norms : 3 * width);
}

void launch_muon_bill(const launch_ask *ask, launch_estimate *made, int64_t layers)
{
    const int64_t ranks = sharing_ranks(ask, &made->layout);
    if (!launch_plans_muon(ask)) {
        return;
    }
    const share all = all_matrices(ask, &made->layout, layers);
    const share own = largest_share(ask, &made->layout, layers, ranks);
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
