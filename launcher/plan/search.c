/* Tries every layout of some ranks. Called by the command line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/estimate.h"
#include "proto/limits.h"

enum { LAYOUTS_MAX = 4096 };

/* Fitting ones first, the fastest of them; then what lacks least memory. Replicas before cut tensors
 * if all else is equal. */
static int by_step(const void *left, const void *right)
{
    const launch_estimate *a = left;
    const launch_estimate *b = right;
    if (a->fits != b->fits) {
        return a->fits ? -1 : 1;
    }
    if (!a->fits && a->total_bytes != b->total_bytes) {
        return a->total_bytes < b->total_bytes ? -1 : 1;
    }
    const double a_s = a->step_s / a->tokens;
    const double b_s = b->step_s / b->tokens;
    if (a_s != b_s) {
        return a_s < b_s ? -1 : 1;
    }
    return (a->layout.data < b->layout.data) - (a->layout.data > b->layout.data);
}

static bool is_wanted(int64_t wanted, int64_t count)
{
    return wanted == 0 || wanted == count;
}

/* Adds the layout if it is possible. */
static base_status try_layout(const launch_ask *ask, const launch_layout *layout,
                              launch_found *found, base_error *reterr)
{
    if (found->count == LAYOUTS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "more than %d layouts", LAYOUTS_MAX);
    }
    base_error error;
    launch_estimate *estimate = &found->estimates[found->count];
    const base_status status = launch_estimate_make(ask, layout, estimate, &error);
    launch_estimate_fini(estimate);
    if (status == BASE_OK) {
        found->count++;
        return BASE_OK;
    }
    if (found->left_out++ == 0) {
        found->left_out_one = *layout;
        memcpy(found->why, error.message, sizeof found->why);
    }
    return status == BASE_ERR_MEMORY ? base_fail(reterr, status, "%s", error.message) : BASE_OK;
}

/* Adds the layout with each number of ranks that may share out the experts. One that nobody has asked for, and that
 * is not possible, is not left out. */
static base_status try_expert_ranks(const launch_ask *ask, launch_layout layout, int64_t wanted,
                                    launch_found *found, base_error *reterr)
{
    if (wanted != 0) {
        layout.expert_ranks = wanted;
        return try_layout(ask, &layout, found, reterr);
    }
    base_status status = try_layout(ask, &layout, found, reterr);
    for (int64_t ranks = 2; ranks <= PROTO_EXPERT_RANKS_MAX && status == BASE_OK; ranks *= 2) {
        layout.expert_ranks = ranks;
        if (!ask->decode && launch_layout_check(ask, &layout, NULL) == BASE_OK) {
            status = try_layout(ask, &layout, found, reterr);
        }
    }
    return status;
}

static base_status try_all(const launch_ask *ask, int64_t ranks, const launch_layout *wanted,
                           launch_found *found, base_error *reterr)
{
    base_status status = BASE_OK;
    const int64_t places = ranks / wanted->context_ranks; /* each of ranks that share tokens */
    for (int64_t tensor = 1; tensor <= places && status == BASE_OK; tensor++) {
        const int64_t most = places % tensor == 0 ? places / tensor : 0;
        for (int64_t pipeline = 1; pipeline <= most && status == BASE_OK; pipeline++) {
            const launch_layout layout = {.data = places / tensor / pipeline,
                                          .tensor = tensor,
                                          .pipeline = pipeline,
                                          .context_ranks = wanted->context_ranks,
                                          .expert_ranks = 1};
            const bool whole = launch_layout_ranks(&layout) == ranks;
            const bool has_stages = !ask->decode && ask->model.experts == 0;
            if (pipeline > 1 && !has_stages && wanted->pipeline == 0) {
                continue; /* nobody has asked for what cannot be */
            }
            if (whole && is_wanted(wanted->tensor, tensor) &&
                is_wanted(wanted->pipeline, pipeline) && is_wanted(wanted->data, layout.data)) {
                status = try_expert_ranks(ask, layout, wanted->expert_ranks, found, reterr);
            }
        }
    }
    return status;
}

base_status launch_plan_search(const launch_ask *ask, int64_t ranks, const launch_layout *wanted,
                               launch_found *found, base_error *reterr)
{
    *found = (launch_found){.estimates = calloc(LAYOUTS_MAX, sizeof *found->estimates)};
    if (found->estimates == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for layouts");
    }
    (void)snprintf(found->why, sizeof found->why, "data ×%s tensor × pipeline must be that many",
                   wanted->context_ranks > 1 ? " context ×" : "");
    const base_status status = try_all(ask, ranks, wanted, found, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (found->count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "no layout of %" PRId64 " ranks: %s", ranks,
                         found->why);
    }
    qsort(found->estimates, (size_t)found->count, sizeof *found->estimates, by_step);
    const launch_layout best = found->estimates[0].layout;
    return launch_estimate_make(ask, &best, &found->estimates[0], reterr);
}

void launch_found_fini(launch_found *found)
{
    if (found->estimates != NULL && found->count > 0) {
        launch_estimate_fini(&found->estimates[0]);
    }
    free(found->estimates);
}
