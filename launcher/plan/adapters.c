/* Finds and counts the adapters of a plan. Called by cli/plan_options.c and training.c. The ranks have their own
 * (rank/model/adapters.c); ctest -R gpu-planner compares. */
#include "plan/adapters.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { NAMES_BYTES = 128, NUMBER_OPERATIONS = 2 };

/* Whether `name` means the layer: it is the layer's, or its last parts. */
static bool means(const char *name, size_t length, const char *layer)
{
    const size_t whole = strlen(layer);
    return length > 0 && whole >= length && memcmp(layer + whole - length, name, length) == 0 &&
           (whole == length || layer[whole - length - 1] == '.');
}

static base_status refuse(const launch_model *model, const char *name, size_t length,
                          base_error *reterr)
{
    launch_matrix linears[LAUNCH_MATRICES_MAX];
    const int count = launch_model_matrices(model, linears);
    char known[NAMES_BYTES] = "";
    for (int i = 0; i < count; i++) {
        base_text_append(known, sizeof known, "%s%s", i > 0 ? "," : "", linears[i].name);
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "the model has no linear layer \"%.*s\"; it has %s (all-linear: all)",
                     (int)length, name, known);
}

base_status launch_adapters_choose(const launch_model *model, int64_t rank, const char *targets,
                                   launch_adapters *adapters, base_error *reterr)
{
    static const char all[] = "all-linear";
    launch_matrix linears[LAUNCH_MATRICES_MAX];
    const int count = launch_model_matrices(model, linears);
    const char *at = targets[0] != '\0' ? targets : model->gated ? "q_proj,v_proj" : "c_attn";
    *adapters = (launch_adapters){.rank = rank};
    for (bool ends = false; !ends;) {
        const size_t length = strcspn(at, ",");
        const bool every = length == strlen(all) && memcmp(at, all, length) == 0;
        bool found = false;
        for (int i = 0; i < count; i++) {
            const bool meant = every || means(at, length, linears[i].name);
            const bool is_new = meant && !adapters->adapted[i];
            adapters->columns += is_new ? linears[i].in + linears[i].out : 0;
            adapters->adapted[i] = adapters->adapted[i] || meant;
            found = found || meant;
        }
        if (!found) {
            return refuse(model, at, length, reterr);
        }
        ends = at[length] == '\0';
        at += length + 1;
    }
    return BASE_OK;
}

double launch_adapters_params(const launch_adapters *adapters, const launch_stage *part)
{
    return (double)part->layers * (double)adapters->rank * (double)adapters->columns;
}

int64_t launch_adapters_of_model(const launch_adapters *adapters, const launch_model *model)
{
    return model->layers * adapters->rank * adapters->columns;
}

double launch_adapters_flops(const launch_adapters *adapters, const launch_stage *part,
                             double tokens)
{
    return NUMBER_OPERATIONS * tokens * launch_adapters_params(adapters, part);
}
