/* Rows that go to the ranks which have their experts, and come back: expert parallelism
 * (parallel/expert/ep.h). Called by experts.c.
 *
 * A rank's places are sorted by expert, and so by rank. What goes there is taken into the memory of the
 * results in this order, and the results come back in it. */

#include "model/transformer/pass.h"

static size_t place_count(const transformer_pass *pass)
{
    return (size_t)pass->block.routing.begins[pass->sizes.experts];
}

/* From this rank's places to those of the experts here, or back. */
static void exchange(const transformer_pass *pass, bool back, const float *from, float *to,
                     size_t width)
{
    const rank_ep *ep = pass->run->shape.ep;
    const int32_t *sent = pass->block.routing.begins;
    const int32_t *received = pass->block.received;
    ep->exchange(ep->group, &(rank_ep_exchange){.from = from,
                                                .from_begins = back ? received : sent,
                                                .to = to,
                                                .to_begins = back ? sent : received,
                                                .width = width});
}

/* Sends each place its row of `from`. */
static void send(const transformer_pass *pass, const float *from, float *to)
{
    pass->backend->take_places(pass->queue, &(rank_take_places){.count = place_count(pass),
                                                                .width = pass->width,
                                                                .chosen = pass->of.chosen,
                                                                .at = pass->block.routing.at,
                                                                .from = from,
                                                                .to = pass->experts.results});
    exchange(pass, false, pass->experts.results, to, pass->width);
}

void transformer_send_rows(const transformer_pass *pass)
{
    const rank_ep *ep = pass->run->shape.ep;
    if (!pass->again) {
        ep->announce(ep->group, pass->block.routing.begins, pass->block.received);
    }
    send(pass, pass->block.norm2.out, pass->block.rows);
}

void transformer_bring_results(const transformer_pass *pass)
{
    exchange(pass, true, pass->experts.own, pass->experts.results, pass->width);
}

void transformer_send_grads(const transformer_pass *pass)
{
    const rank_routing *routing = &pass->block.routing;
    const experts_work *work = &pass->experts;
    send(pass, work->dout, work->own);
    for (size_t place = 0; place < place_count(pass); place++) {
        work->sorted[place] = routing->weights[routing->at[place]];
    }
    exchange(pass, false, work->sorted, work->own_weights, 1);
}

void transformer_bring_grads(const transformer_pass *pass)
{
    const rank_routing *routing = &pass->block.routing;
    const experts_work *work = &pass->experts;
    exchange(pass, true, work->own, work->results, pass->width);
    exchange(pass, true, work->own_dweights, work->sorted, 1);
    for (size_t place = 0; place < place_count(pass); place++) {
        work->dweights[routing->at[place]] = work->sorted[place];
    }
}
