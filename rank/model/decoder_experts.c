/* The experts of a layer in decoding. Called by decoder.c in place of the MLP.
 *
 * Every rank has the whole router, so all choose alike, and its columns of each expert. The rows of
 * an expert go through it together. Each row's result has the bits that it has alone, and the ranks
 * add up their parts of each before a row's results are weighed and added in the order of experts.
 * So neither the batch nor the number of ranks changes a bit. */
#include "model/decoder_step.h"

/* Which rows go to which experts. The router is in float32, whatever the matrices are. */
static void route(const decoder_step *step, size_t rows)
{
    const rank_decoder *of = &step->of;
    step->backend->product(step->queue, &(rank_product){.rows = rows,
                                                        .columns = of->experts,
                                                        .depth = step->width,
                                                        .a = step->normed,
                                                        .a_row = step->width,
                                                        .a_depth = 1,
                                                        .b = step->weights.router,
                                                        .b_row = step->width,
                                                        .b_transposed = true,
                                                        .c = step->routing.scores,
                                                        .c_row = of->experts,
                                                        .leaves = 1});
    step->backend->route(step->queue, &(rank_route){.rows = rows,
                                                    .experts = of->experts,
                                                    .chosen = of->chosen,
                                                    .normed = of->normed,
                                                    .routing = &step->routing});
}

static void run_expert(decoder_step *step, int expert)
{
    const rank_run *run = step->run;
    const int32_t *begins = step->routing.begins;
    const size_t first = (size_t)begins[expert];
    const size_t rows = (size_t)begins[expert + 1] - first;
    if (rows == 0) {
        return;
    }
    run->shape.config->family->decoder->expert(run, step->layer, expert, &step->weights);
    step->backend->take_places(step->queue, &(rank_take_places){.count = rows,
                                                                .width = step->width,
                                                                .chosen = step->of.chosen,
                                                                .at = step->routing.at + first,
                                                                .from = step->normed,
                                                                .to = step->taken});
    rank_decoder_activate(step, rows, step->taken);
    rank_decoder_multiply(step, (rank_product){.rows = rows,
                                               .columns = step->width,
                                               .depth = step->of.hidden,
                                               .a = step->active,
                                               .b = step->weights.down,
                                               .c = step->results + first * step->width,
                                               .leaves = step->of.leaves});
}

void rank_decoder_experts(decoder_step *step, size_t rows)
{
    const rank_decoder *of = &step->of;
    route(step, rows);
    for (int expert = 0; expert < (int)of->experts; expert++) {
        run_expert(step, expert);
    }
    rank_decoder_all_reduce(step, step->results, rows * of->chosen * step->width);
    step->backend->add_places(step->queue, &(rank_add_places){.rows = rows,
                                                              .width = step->width,
                                                              .chosen = of->chosen,
                                                              .places = step->routing.places,
                                                              .weights = step->routing.weights,
                                                              .from = step->results,
                                                              .to = step->sum});
}
