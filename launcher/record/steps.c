/* Stores each rank's reported steps and says how many are complete. Filled by messages.c and
 * record.c; read for progress, figures and summary. */
#include "record/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/grow.h"

enum { STEPS_FIRST = 128, EVALUATIONS_FIRST = 8 };

base_status launch_steps_init(launch_steps *steps, int world_size, int stages, int tensor,
                              base_error *reterr)
{
    *steps = (launch_steps){.world_size = world_size, .stages = stages, .tensor = tensor};
    steps->ranks = calloc((size_t)world_size, sizeof *steps->ranks);
    if (steps->ranks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the steps of %d ranks",
                         world_size);
    }
    return BASE_OK;
}

int launch_steps_stages(const proto_job *job)
{
    return proto_mode_get(job->job.mode)->pipelined ? (int)proto_job_stages(job) : 0;
}

base_status launch_steps_of_job(launch_steps *steps, const proto_job *job, base_error *reterr)
{
    const base_status status =
        launch_steps_init(steps, (int)job->job.world_size, launch_steps_stages(job),
                          (int)proto_job_tensor(job), reterr);
    steps->round = proto_job_local_steps(job);
    return status;
}

void launch_steps_fini(launch_steps *steps)
{
    for (int r = 0; steps->ranks != NULL && r < steps->world_size; r++) {
        free(steps->ranks[r].times);
        free(steps->ranks[r].stages);
    }
    free(steps->ranks);
    free(steps->losses);
    free(steps->router_losses);
    free(steps->busiest);
    free(steps->evaluations);
    memset(steps, 0, sizeof *steps);
}

void launch_steps_go_on_from(launch_steps *steps, uint64_t next)
{
    const size_t kept = next > steps->first ? (size_t)(next - steps->first) : 0;
    bool whole = kept > 0; /* every rank has all of them */
    for (int r = 0; r < steps->world_size; r++) {
        whole = whole && steps->ranks[r].count >= kept;
    }
    for (int r = 0; r < steps->world_size; r++) {
        steps->ranks[r].count = whole ? kept : 0;
    }
    steps->first = whole ? steps->first : next;
    while (steps->evaluation_count > 0 &&
           steps->evaluations[steps->evaluation_count - 1].index >= steps->ranks[0].count) {
        steps->evaluation_count--;
    }
}

/* Makes room for one more value of a step. */
static bool grow(double **values, size_t count, size_t *capacity)
{
    double *grown = base_grow(*values, count, capacity, STEPS_FIRST, sizeof *grown);
    *values = grown != NULL ? grown : *values;
    return grown != NULL;
}

/* For what rank 0 reports with a step. */
static bool make_common_room(launch_steps *steps, size_t count)
{
    launch_evaluation *evaluations =
        base_grow(steps->evaluations, steps->evaluation_count, &steps->evaluation_capacity,
                  EVALUATIONS_FIRST, sizeof *evaluations);
    steps->evaluations = evaluations != NULL ? evaluations : steps->evaluations;
    return evaluations != NULL && grow(&steps->losses, count, &steps->loss_capacity) &&
           grow(&steps->router_losses, count, &steps->router_loss_capacity) &&
           grow(&steps->busiest, count, &steps->busiest_capacity);
}

/* For one more of a rank's steps. */
static bool make_room(launch_steps *steps, launch_rank_steps *rank)
{
    launch_step_times *times =
        base_grow(rank->times, rank->count, &rank->capacity, STEPS_FIRST, sizeof *times);
    rank->times = times != NULL ? times : rank->times;
    bool done = times != NULL;
    if (done && steps->stages > 0) {
        launch_stage_step *stages = base_grow(rank->stages, rank->count, &rank->stage_capacity,
                                              STEPS_FIRST, sizeof *stages);
        rank->stages = stages != NULL ? stages : rank->stages;
        done = stages != NULL;
    }
    return done && (rank != steps->ranks || make_common_room(steps, rank->count));
}

base_status launch_steps_add(launch_steps *steps, const launch_step *step, base_error *reterr)
{
    if (step->rank < 0 || step->rank >= steps->world_size) {
        return base_fail(reterr, BASE_ERR_INVALID, "a step came from rank %d of %d", step->rank,
                         steps->world_size);
    }
    launch_rank_steps *rank = &steps->ranks[step->rank];
    if (step->step != steps->first + rank->count) {
        return base_fail(reterr, BASE_ERR_INVALID, "rank %d reported step %llu, expected %llu",
                         step->rank, (unsigned long long)step->step,
                         (unsigned long long)(steps->first + rank->count));
    }
    if (!make_room(steps, rank)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu steps", rank->count + 1);
    }
    rank->times[rank->count] = step->times;
    if (steps->stages > 0) {
        rank->stages[rank->count] = step->stage;
    }
    if (step->rank == 0) {
        steps->losses[rank->count] = step->loss_global;
        steps->router_losses[rank->count] = step->router_loss;
        steps->busiest[rank->count] = step->busiest_expert;
    }
    if (step->rank == 0 && step->evaluated) {
        steps->evaluations[steps->evaluation_count++] =
            (launch_evaluation){.index = rank->count,
                                .heldout_loss = step->heldout_loss,
                                .sentences = step->heldout_sentences,
                                .correct = step->heldout_correct,
                                .measured = step->heldout_measured};
    }
    rank->count++;
    return BASE_OK;
}

size_t launch_steps_count(const launch_steps *steps)
{
    size_t count = steps->ranks[0].count;
    for (int r = 1; r < steps->world_size; r++) {
        if (steps->ranks[r].count < count) {
            count = steps->ranks[r].count;
        }
    }
    return count;
}

int64_t launch_steps_slowest_ns(const launch_steps *steps, size_t index)
{
    int64_t slowest_ns = 0;
    for (int r = 0; r < steps->world_size; r++) {
        BASE_ASSERT(index < steps->ranks[r].count);
        const int64_t step_ns = steps->ranks[r].times[index].step_ns;
        slowest_ns = step_ns > slowest_ns ? step_ns : slowest_ns;
    }
    return slowest_ns;
}

double launch_steps_tokens_per_second(const launch_steps *steps, size_t first, size_t count)
{
    double tokens = 0;
    double longest_ns = 0;
    for (int r = 0; r < steps->world_size; r++) {
        double rank_ns = 0;
        for (size_t i = first; i < first + count; i++) {
            tokens += (double)steps->ranks[r].times[i].tokens;
            rank_ns += (double)steps->ranks[r].times[i].step_ns;
        }
        longest_ns = rank_ns > longest_ns ? rank_ns : longest_ns;
    }
    return longest_ns > 0 ? tokens / (longest_ns * 1e-9) : NAN;
}

double launch_steps_busiest_rank(const launch_steps *steps, size_t first, size_t count)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = first; i < first + count; i++) {
        double most = 0;
        double all = 0;
        for (int r = 0; r < steps->world_size; r++) {
            const double rows = (double)steps->ranks[r].times[i].expert_rows;
            most = rows > most ? rows : most;
            all += rows;
        }
        sum += all > 0 ? most * steps->world_size / all : 0;
        known += all > 0 ? 1 : 0;
    }
    return known > 0 ? sum / (double)known : NAN;
}
