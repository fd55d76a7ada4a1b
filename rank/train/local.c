/* What a checkpoint of local steps has besides: the moments of each rank, and the outer momentum. Rank 0 has the
 * files, and the ranks need no common disk. Called by save.c and resume.c. */
#include "base/path.h"
#include "rank/checkpoint.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"
#include "train/training_state.h"

/* Sends a rank's values to another one, which has `there` for them. The other ranks do nothing. */
static base_status move(const trainer *self, int from, int to, float *values, float *there,
                        base_error *reterr)
{
    coll_comm *world = coll_context_world(self->worker->context);
    const int rank = coll_comm_rank(world);
    const size_t count = self->param_count;
    if (rank == from) {
        return (base_status)coll_send(world, values, count, COLL_FLOAT32, to,
                                      coll_error_of(reterr));
    }
    return rank == to ? (base_status)coll_receive(world, there, count, COLL_FLOAT32, from,
                                                  coll_error_of(reterr))
                      : BASE_OK;
}

/* Writes or reads the file of a rank's moments on rank 0; all wait until it is written. Those of other ranks pass through the memory of
 * gradients, which nobody needs between two steps. */
static base_status do_file(const trainer *self, const char *directory, int of_rank, bool second,
                           bool writes, base_error *reterr)
{
    const rank_optimizer_moments moments = rank_optimizer_get_moments(self->optimizer);
    float *mine = second ? moments.second : moments.first;
    float *there = of_rank == 0 ? mine : rank_ddp_exchanged(self->ddp);
    char name[TRAINER_MOMENTS_NAME_BYTES];
    char path[BASE_PATH_BYTES];
    base_status status = BASE_OK;
    if (of_rank > 0 && writes) {
        status = move(self, of_rank, 0, mine, there, reterr);
    }
    if (status == BASE_OK && self->worker->identity.rank == 0) {
        rank_training_moments_name(of_rank, second, name);
        status = base_path_join(directory, name, path, reterr);
        if (status == BASE_OK) {
            status = writes ? rank_safetensors_write(path, &self->trained, there, "", RANK_FLOAT32,
                                                     reterr)
                            : rank_safetensors_read_saved(path, &self->trained, there, reterr);
        }
    }
    if (status == BASE_OK && of_rank > 0 && !writes) {
        status = move(self, 0, of_rank, there, mine, reterr);
    }
    return status == BASE_OK && writes ? trainer_await_files(self, 1, reterr) : status;
}

static base_status do_moments(const trainer *self, const char *directory, bool writes,
                              base_error *reterr)
{
    base_status status = BASE_OK;
    for (int rank = 0; status == BASE_OK && rank < (int)self->job->job.world_size; rank++) {
        status = do_file(self, directory, rank, false, writes, reterr);
        if (status == BASE_OK) {
            status = do_file(self, directory, rank, true, writes, reterr);
        }
    }
    return status;
}

base_status trainer_write_local(const trainer *self, const char *directory, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = do_moments(self, directory, true, reterr);
    if (status != BASE_OK || self->worker->identity.rank != 0) {
        return status;
    }
    status = base_path_join(directory, TRAINER_OUTER_MOMENTUM_FILE, path, reterr);
    return status == BASE_OK ? rank_safetensors_write(path, &self->trained, self->outer.velocity,
                                                      "", RANK_FLOAT32, reterr)
                             : status;
}

base_status trainer_read_local(const trainer *self, const char *directory, base_error *reterr)
{
    const base_status status = trainer_share_file(self, directory, TRAINER_OUTER_MOMENTUM_FILE,
                                                  self->outer.velocity, "outer momentum", reterr);
    return status == BASE_OK ? do_moments(self, directory, false, reterr) : status;
}
