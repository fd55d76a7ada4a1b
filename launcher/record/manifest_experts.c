/* What manifest.json says of a model's experts: how many there are, and how they were loaded. Called by manifest.c. */
#include <jansson.h>
#include <math.h>

#include "record/run.h"
#include "record/sheet.h"

/* How evenly rows were spread, at the begin, in the end, and over ranks. */
static void put_balance(launch_sheet *experts, const launch_run *run)
{
    const size_t steps = run->summary->steps_done;
    const size_t measured = run->summary->measured_first;
    const double first = run->steps->busiest[0];
    const double last = run->steps->busiest[steps - 1];
    sheet_real(experts, "busiest_first", first > 0 ? first : NAN);
    sheet_real(experts, "busiest_last", last > 0 ? last : NAN);
    sheet_real(experts, "busiest_rank",
               launch_steps_busiest_rank(run->steps, measured, steps - measured));
}

void launch_manifest_experts(launch_sheet *page, const launch_run *run)
{
    const launch_experts *of = run->end->experts;
    const size_t steps = run->summary->steps_done;
    if (of == NULL || steps == 0) {
        sheet_put(page, "experts", json_null());
        return;
    }
    launch_sheet experts = sheet_make();
    json_t *layers = json_array();
    for (int i = 0; i < of->load_count; i++) {
        json_t *layer = i % of->count == 0 ? json_array() : NULL;
        if (layer != NULL) {
            (void)json_array_append_new(layers, layer);
        }
        (void)json_array_append_new(json_array_get(layers, (size_t)(i / of->count)),
                                    json_real((double)of->loads[i]));
    }
    sheet_int(&experts, "count", (uint64_t)of->count);
    sheet_int(&experts, "per_token", (uint64_t)of->chosen);
    sheet_real(&experts, "router_loss_added", of->router_loss);
    sheet_real(&experts, "router_loss_first", run->steps->router_losses[0]);
    sheet_real(&experts, "router_loss_last", run->steps->router_losses[steps - 1]);
    put_balance(&experts, run);
    sheet_int(&experts, "loads_steps", of->steps);
    sheet_put(&experts, "loads", layers);
    sheet_part(page, "experts", experts);
}
