/* The three schedules' arithmetic. Called by ranks, pipeline-simulate and launcher plan. */
#include "proto/pipeline.h"

#include <stddef.h>

#include "base/assert.h"

const char *proto_pipeline_name(int kind)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    return kind >= 0 && kind < PROTO_PIPELINE_KINDS ? names[kind] : NULL;
}

static base_status check_range(const char *what, int value, int most, base_error *reterr)
{
    return value >= 1 && value <= most
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%d %s: must be from 1 to %d", value, what,
                           most);
}

base_status proto_pipeline_check(const proto_pipeline *pipeline, base_error *reterr)
{
    const proto_pipeline *p = pipeline;
    base_status status = check_range("stages", p->stages, PROTO_PIPELINE_STAGES_MAX, reterr);
    if (status == BASE_OK) {
        status = check_range("chunks", p->chunks, PROTO_PIPELINE_CHUNKS_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = check_range("micro-batches", p->micro_batches, PROTO_PIPELINE_MICRO_BATCHES_MAX,
                             reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (p->kind != PROTO_PIPELINE_INTERLEAVED && p->chunks != 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s has one chunk per stage, not %d",
                         proto_pipeline_name(p->kind), p->chunks);
    }
    if (p->kind == PROTO_PIPELINE_INTERLEAVED && p->micro_batches % p->stages != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "interleaved: %d micro-batches are not a multiple of %d stages",
                         p->micro_batches, p->stages);
    }
    return BASE_OK;
}

/* How many layers the output over the vocabulary is worth, in operations: of a layer whose MLP is
 * 4 × width wide, where a token attends to half a context. */
static double output_layers(const proto_pipeline_model *model)
{
    const double width = (double)model->width;
    const double output = 2 * (double)model->vocab_size * width;
    const double products = 2 * (4 + 2 * 4) * width * width;
    const double attention = 2 * 2 * ((double)model->context / 2) * width;
    return output / (products + attention);
}

/* The layers of the last stage, with so many stages before it: the fewest for which the slowest
 * stage is fastest. */
static int64_t layers_of_last(const proto_pipeline_model *model, int64_t before)
{
    const double output = output_layers(model);
    int64_t best = 1;
    double least = (double)model->layers + output; /* no stage is slower */
    for (int64_t last = 1; last <= model->layers - before; last++) {
        const int64_t others = (model->layers - last + before - 1) / before;
        const double end = (double)last + output;
        const double slowest = (double)others > end ? (double)others : end;
        if (slowest < least) {
            best = last;
            least = slowest;
        }
    }
    return best;
}

int64_t proto_pipeline_layers(const proto_pipeline_model *model, int stages, int stage)
{
    const int64_t before = stages - 1;
    if (before == 0) {
        return model->layers;
    }
    const int64_t last = layers_of_last(model, before);
    const int64_t others = model->layers - last;
    return stage == stages - 1 ? last : others / before + (stage < others % before ? 1 : 0);
}

/* Of one direction. */
static int half(const proto_pipeline *pipeline)
{
    return pipeline->micro_batches * pipeline->chunks;
}

int proto_pipeline_tasks(const proto_pipeline *pipeline)
{
    return 2 * half(pipeline);
}

/* The forwards that a stage runs before its first backward. */
static int warm_up_of(const proto_pipeline *pipeline, int stage)
{
    const int behind = pipeline->stages - 1 - stage;
    int forwards = half(pipeline);
    if (pipeline->kind == PROTO_PIPELINE_1F1B) {
        forwards = behind;
    } else if (pipeline->kind == PROTO_PIPELINE_INTERLEAVED) {
        forwards = 2 * behind + (pipeline->chunks - 1) * pipeline->stages;
    }
    return forwards < half(pipeline) ? forwards : half(pipeline);
}

/* Which chunk and micro-batch the n-th forward or backward of a stage is. As many micro-batches as
 * there are stages go through one chunk, then through the next: with 2 stages and 2 chunks
 *
 *     n             0 1 2 3 4 5 6 7
 *     chunk         0 0 1 1 0 0 1 1      (backward: 1 1 0 0 1 1 0 0)
 *     micro-batch   0 1 0 1 2 3 2 3
 */
static proto_pipeline_task nth(const proto_pipeline *pipeline, bool backward, int n)
{
    const int group = pipeline->stages * pipeline->chunks;
    const int chunk = n % group / pipeline->stages;
    return (proto_pipeline_task){.backward = backward,
                                 .chunk = backward ? pipeline->chunks - 1 - chunk : chunk,
                                 .micro_batch =
                                     n / group * pipeline->stages + n % pipeline->stages};
}

proto_pipeline_task proto_pipeline_task_at(const proto_pipeline *pipeline, int stage, int index)
{
    const int all = half(pipeline);
    const int warm_up = warm_up_of(pipeline, stage);
    const int steady = index - warm_up;
    BASE_ASSERT(index >= 0);
    BASE_ASSERT(index < 2 * all);
    if (steady < 0) {
        return nth(pipeline, false, index);
    }
    if (steady < 2 * (all - warm_up)) {
        return steady % 2 == 0 ? nth(pipeline, false, warm_up + steady / 2)
                               : nth(pipeline, true, steady / 2);
    }
    return nth(pipeline, true, index - all);
}

proto_pipeline_task proto_pipeline_forward_at(const proto_pipeline *pipeline, int batches,
                                              int index)
{
    const int group = pipeline->stages * pipeline->chunks;
    const int first = index / group * pipeline->stages; /* batch */
    const int left = batches - first;
    const int together = left < pipeline->stages ? left : pipeline->stages;
    BASE_ASSERT(index >= 0);
    BASE_ASSERT(left > 0);
    return (proto_pipeline_task){.chunk = index % group / together,
                                 .micro_batch = first + index % group % together};
}

int proto_pipeline_index_of(const proto_pipeline *pipeline, int stage,
                            const proto_pipeline_task *task)
{
    const int stages = pipeline->stages;
    const int all = half(pipeline);
    const int warm_up = warm_up_of(pipeline, stage);
    const int chunk = task->backward ? pipeline->chunks - 1 - task->chunk : task->chunk;
    const int n = (task->micro_batch / stages * pipeline->chunks + chunk) * stages +
                  task->micro_batch % stages;
    if (task->backward) {
        return n < all - warm_up ? warm_up + 2 * n + 1 : all + n;
    }
    return n < warm_up ? n : 2 * n - warm_up;
}

bool proto_pipeline_needs(const proto_pipeline *pipeline, int stage,
                          const proto_pipeline_task *task, int *before_stage,
                          proto_pipeline_task *before)
{
    const int parts = pipeline->stages * pipeline->chunks;
    const int part = task->chunk * pipeline->stages + stage;
    int other = task->backward ? part + 1 : part - 1;
    *before = *task;
    if (other < 0) {
        return false;
    }
    if (other == parts) {
        other = part;
        before->backward = false;
    }
    *before_stage = other % pipeline->stages;
    before->chunk = other / pipeline->stages;
    return true;
}

int proto_pipeline_held(const proto_pipeline *pipeline, int stage)
{
    const int warm_up = warm_up_of(pipeline, stage);
    return warm_up < half(pipeline) ? warm_up + 1 : warm_up;
}

int proto_pipeline_held_of(const proto_pipeline *pipeline, int stage, int chunk)
{
    int held = 0;
    int most = 0;
    for (int i = 0; i < proto_pipeline_tasks(pipeline); i++) {
        const proto_pipeline_task task = proto_pipeline_task_at(pipeline, stage, i);
        if (task.chunk == chunk) {
            held += task.backward ? -1 : 1;
            most = held > most ? held : most;
        }
    }
    return most;
}

double proto_pipeline_bubble(const proto_pipeline *pipeline)
{
    return (double)(pipeline->stages - 1) / (half(pipeline) + pipeline->stages - 1);
}
