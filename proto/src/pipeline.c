/* The schedules' arithmetic. Called by ranks, pipeline-simulate and launcher plan. */
#include "proto/pipeline.h"

#include <stddef.h>

#include "base/assert.h"

const char *proto_pipeline_name(int kind)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    return kind >= 0 && kind < PROTO_PIPELINE_KINDS ? names[kind] : NULL;
}

bool proto_pipeline_splits(const proto_pipeline *pipeline)
{
    return pipeline->kind == PROTO_PIPELINE_ZB_H1;
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

/* Of one pass. */
static int passes(const proto_pipeline *pipeline)
{
    return pipeline->micro_batches * pipeline->chunks;
}

int proto_pipeline_tasks(const proto_pipeline *pipeline)
{
    return (proto_pipeline_splits(pipeline) ? 3 : 2) * passes(pipeline);
}

/* The forwards that a stage runs before its first backward. */
static int warm_up_of(const proto_pipeline *pipeline, int stage)
{
    const int behind = pipeline->stages - 1 - stage;
    int forwards = passes(pipeline);
    if (pipeline->kind == PROTO_PIPELINE_1F1B || pipeline->kind == PROTO_PIPELINE_ZB_H1) {
        forwards = behind;
    } else if (pipeline->kind == PROTO_PIPELINE_INTERLEAVED) {
        forwards = 2 * behind + (pipeline->chunks - 1) * pipeline->stages;
    }
    return forwards < passes(pipeline) ? forwards : passes(pipeline);
}

/* A stage's tasks behind its warm-up are in rounds, each with a backward. A forward comes before it while some are
 * left, and behind it the gradients of weights of an earlier micro-batch. */
typedef struct rounds {
    int warm_up;
    int forwards; /* rounds that have one: the first ones */
    int delay; /* of gradients of weights, in rounds; all rounds: they come behind these, or not at all */
} rounds;

static rounds rounds_of(const proto_pipeline *pipeline, int stage)
{
    const int all = passes(pipeline);
    const int warm_up = warm_up_of(pipeline, stage);
    return (rounds){.warm_up = warm_up,
                    .forwards = all - warm_up,
                    .delay = proto_pipeline_splits(pipeline) && stage < all ? stage : all};
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* The index of a round's first task. */
static int begin_of(const rounds *of, int round)
{
    const int weights = round > of->delay ? round - of->delay : 0;
    return of->warm_up + lesser(round, of->forwards) + round + weights;
}

/* The round with the task at that index. Rounds have two tasks at both ends, and in the middle three, or one
 * where the last forward comes before the first gradients of weights. */
static int round_of(const rounds *of, int index)
{
    const int first = lesser(of->forwards, of->delay);
    const int end = of->forwards + of->delay - first;
    const int tasks = of->delay < of->forwards ? 3 : 1;
    const int behind_first = index - begin_of(of, first);
    const int behind_end = index - begin_of(of, end);
    return behind_first < 0 ? (index - of->warm_up) / 2
           : behind_end < 0 ? first + behind_first / tasks
                            : end + behind_end / 2;
}

/* Which chunk and micro-batch the n-th task of a pass is. As many micro-batches as
 * there are stages go through one chunk, then through the next: with 2 stages and 2 chunks
 *
 *     n             0 1 2 3 4 5 6 7
 *     chunk         0 0 1 1 0 0 1 1      (backward: 1 1 0 0 1 1 0 0)
 *     micro-batch   0 1 0 1 2 3 2 3
 */
static proto_pipeline_task nth(const proto_pipeline *pipeline, proto_pipeline_pass pass, int n)
{
    const int group = pipeline->stages * pipeline->chunks;
    const int chunk = n % group / pipeline->stages;
    return (proto_pipeline_task){
        .pass = pass,
        .chunk = pass == PROTO_PIPELINE_FORWARD ? chunk : pipeline->chunks - 1 - chunk,
        .micro_batch = n / group * pipeline->stages + n % pipeline->stages};
}

proto_pipeline_task proto_pipeline_task_at(const proto_pipeline *pipeline, int stage, int index)
{
    const int all = passes(pipeline);
    const rounds of = rounds_of(pipeline, stage);
    BASE_ASSERT(index >= 0);
    BASE_ASSERT(index < proto_pipeline_tasks(pipeline));
    if (index < of.warm_up) {
        return nth(pipeline, PROTO_PIPELINE_FORWARD, index);
    }
    if (index >= begin_of(&of, all)) {
        return nth(pipeline, PROTO_PIPELINE_WEIGHTS, index - 2 * all);
    }
    const int round = round_of(&of, index);
    const int place = index - begin_of(&of, round) + (round < of.forwards ? 0 : 1);
    return place == 0   ? nth(pipeline, PROTO_PIPELINE_FORWARD, of.warm_up + round)
           : place == 1 ? nth(pipeline, PROTO_PIPELINE_BACKWARD, round)
                        : nth(pipeline, PROTO_PIPELINE_WEIGHTS, round - of.delay);
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
    const int all = passes(pipeline);
    const rounds of = rounds_of(pipeline, stage);
    const bool forward = task->pass == PROTO_PIPELINE_FORWARD;
    const int chunk = forward ? task->chunk : pipeline->chunks - 1 - task->chunk;
    const int n = (task->micro_batch / stages * pipeline->chunks + chunk) * stages +
                  task->micro_batch % stages;
    const int put_off_to = n + of.delay;
    if (forward) {
        return n < of.warm_up ? n : begin_of(&of, n - of.warm_up);
    }
    if (task->pass == PROTO_PIPELINE_BACKWARD) {
        return begin_of(&of, n) + (n < of.forwards ? 1 : 0);
    }
    return put_off_to < all ? begin_of(&of, put_off_to + 1) - 1 : 2 * all + n;
}

bool proto_pipeline_needs(const proto_pipeline *pipeline, int stage,
                          const proto_pipeline_task *task, int *before_stage,
                          proto_pipeline_task *before)
{
    const int parts = pipeline->stages * pipeline->chunks;
    const int part = task->chunk * pipeline->stages + stage;
    int other = task->pass == PROTO_PIPELINE_FORWARD    ? part - 1
                : task->pass == PROTO_PIPELINE_BACKWARD ? part + 1
                                                        : part;
    *before = *task;
    if (other < 0) {
        return false;
    }
    if (other == parts) {
        other = part;
        before->pass = PROTO_PIPELINE_FORWARD;
    } else if (task->pass == PROTO_PIPELINE_WEIGHTS) {
        before->pass = PROTO_PIPELINE_BACKWARD;
    }
    *before_stage = other % pipeline->stages;
    before->chunk = other / pipeline->stages;
    return true;
}

int proto_pipeline_held(const proto_pipeline *pipeline, int stage)
{
    const int warm_up = warm_up_of(pipeline, stage);
    const int put_off = proto_pipeline_splits(pipeline) ? stage : 0;
    return lesser(warm_up + 1 + put_off, passes(pipeline));
}

int proto_pipeline_held_of(const proto_pipeline *pipeline, int stage, int chunk)
{
    int held = 0;
    int most = 0;
    if (pipeline->chunks == 1) {
        return proto_pipeline_held(pipeline, stage);
    }
    for (int i = 0; i < proto_pipeline_tasks(pipeline); i++) {
        const proto_pipeline_task task = proto_pipeline_task_at(pipeline, stage, i);
        if (task.chunk == chunk) {
            held += task.pass == PROTO_PIPELINE_FORWARD ? 1 : -1; /* zb-h1 has one chunk */
            most = held > most ? held : most;
        }
    }
    return most;
}

double proto_pipeline_bubble(const proto_pipeline *pipeline)
{
    const int behind = pipeline->stages - 1;
    const int put_off = lesser(behind, pipeline->micro_batches - 1);
    const bool splits = proto_pipeline_splits(pipeline);
    const int idle = splits ? 2 * behind - put_off : behind; /* in passes, or in pairs of them */
    return (double)idle / ((splits ? 3 : 1) * passes(pipeline) + idle);
}
