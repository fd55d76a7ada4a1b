/* Which rank has what of the model, and the communicators of this layout. Called by make.c and params.c. */
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

rank_shape pipeline_shape_of(const rank_pipeline *pipeline, const rank_model_config *config,
                             int virtual_stage)
{
    const int all = pipeline->schedule.stages * pipeline->schedule.chunks;
    const proto_pipeline_model model = {.layers = config->layers,
                                        .width = config->width,
                                        .vocab_size = config->vocab_size,
                                        .context = config->context};
    rank_shape shape = pipeline->shape;
    shape.config = config;
    shape.first_layer = 0;
    for (int before = 0; before < virtual_stage; before++) {
        shape.first_layer += (int)proto_pipeline_layers(&model, all, before);
    }
    shape.end_layer = shape.first_layer + (int)proto_pipeline_layers(&model, all, virtual_stage);
    return shape;
}

rank_held pipeline_held_of(const rank_pipeline *pipeline, const rank_model_config *config,
                           int stage)
{
    rank_held held = {.count = 0};
    for (int chunk = 0; chunk < pipeline->schedule.chunks; chunk++) {
        const rank_shape shape =
            pipeline_shape_of(pipeline, config, chunk * pipeline->schedule.stages + stage);
        rank_held part;
        config->family->held(&shape, &part);
        for (int i = 0; i < part.range_count; i++) {
            rank_held_add(&held, part.ranges[i].offset, part.ranges[i].count);
        }
        held.tied_count += part.tied_count;
    }
    return held;
}

rank_model_config pipeline_whole(const rank_pipeline *pipeline)
{
    rank_model_config config = pipeline->config;
    config.tensor_ranks = 0;
    config.tensor_rank = 0;
    return config;
}

pipeline_member pipeline_member_of(const rank_pipeline *pipeline, int rank)
{
    const int tensor = rank_tensor_ranks(&pipeline->config);
    pipeline_member member = {.config = pipeline->config};
    member.config.tensor_rank = rank % tensor;
    member.held = pipeline_held_of(pipeline, &member.config, rank / tensor);
    return member;
}

/* Ranks that a communicator is for. */
typedef struct pipeline_group {
    coll_comm **comm;
    int ranks;
    int colour;
    bool apart; /* all ranks together need a communicator of their own */
} pipeline_group;

static coll_status make_comm(const rank_pipeline *made, const pipeline_group *group,
                             coll_error *reterr)
{
    coll_comm *world = coll_context_world(made->context);
    if (group->ranks == coll_comm_size(world) && !group->apart) {
        *group->comm = world;
        return COLL_OK;
    }
    return coll_comm_split(world, group->colour, coll_comm_rank(world), group->comm, reterr);
}

void pipeline_find_place(rank_pipeline *made, int tensor, int rank)
{
    const int stages = made->schedule.stages;
    made->part = rank % tensor;
    made->stage = rank / tensor % stages;
    made->replica = rank / (tensor * stages);
    made->config.tensor_ranks = tensor;
    made->config.tensor_rank = made->part;
    made->tp = pipeline_make_tp(made);
}

base_status pipeline_make_layout(rank_pipeline *made, int tensor, base_error *reterr)
{
    const int stages = made->schedule.stages;
    const int replicas = coll_comm_size(coll_context_world(made->context)) / (stages * tensor);
    const int row = made->replica * tensor + made->part;
    const pipeline_group groups[] = {
        {&made->copy, stages * tensor, made->replica, false},
        {&made->comm, stages, row, false},
        {&made->forward, stages, row, true},
        {&made->backward, stages, row, true},
        {&made->tensor, tensor, made->replica * stages + made->stage, false},
        {&made->replicas, replicas, made->stage * tensor + made->part, false}};
    coll_status status = COLL_OK;
    for (size_t i = 0; status == COLL_OK && i < sizeof groups / sizeof *groups; i++) {
        if (groups[i].ranks > 1 || groups[i].comm == &made->copy) {
            status = make_comm(made, &groups[i], coll_error_of(reterr));
        }
    }
    return (base_status)status;
}

void pipeline_free_layout(const rank_pipeline *pipeline)
{
    coll_comm *const made[] = {pipeline->replicas, pipeline->tensor, pipeline->backward,
                               pipeline->forward,  pipeline->comm,   pipeline->copy};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        if (made[i] != coll_context_world(pipeline->context)) {
            coll_comm_destroy(made[i]);
        }
    }
}
