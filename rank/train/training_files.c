/* The files beside training.json: their names, and their digests. Called by training_state.c, resume.c and
 * local.c. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/path.h"
#include "train/training_state.h"

const char *rank_training_model_file(bool adapters)
{
    return adapters ? "adapter_model.safetensors" : "model.safetensors";
}

void rank_training_moments_name(int rank, bool second, char name[TRAINER_MOMENTS_NAME_BYTES])
{
    (void)snprintf(name, TRAINER_MOMENTS_NAME_BYTES, "%s-rank-%d.safetensors",
                   second ? "exp_avg_sq" : "exp_avg", rank);
}

base_status rank_training_file_hex(const char *path, char hex[PROTO_DIGEST_HEX_BYTES],
                                   base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    const base_status status = proto_sha256_file(path, digest, reterr);
    if (status == BASE_OK) {
        proto_digest_hex(digest, hex);
    }
    return status;
}

/* A file and its digest. */
typedef struct file_row {
    char name[TRAINER_MOMENTS_NAME_BYTES];
    char *hex; /* in a rank_training_files */
} file_row;

enum { ROWS_MAX = 3 + 2 * BASE_COLL_RANKS_MAX };

static void add(file_row rows[ROWS_MAX], int *count, const char *name, char *hex)
{
    (void)snprintf(rows[*count].name, sizeof rows->name, "%s", name);
    rows[(*count)++].hex = hex;
}

/* The files of such a state, and where each one's digest is. */
static int list(const rank_training_state *state, rank_training_files *files,
                file_row rows[ROWS_MAX])
{
    int count = 0;
    add(rows, &count, rank_training_model_file(state->lora.rank > 0), files->model);
    if (state->best.step > 0 && state->best.step != state->step) {
        add(rows, &count, TRAINER_BEST_FILE, files->best);
    }
    if (state->local.steps == 0) {
        add(rows, &count, TRAINER_FIRST_MOMENTS_FILE, files->first_moments);
        add(rows, &count, TRAINER_SECOND_MOMENTS_FILE, files->second_moments);
        return count;
    }
    add(rows, &count, TRAINER_OUTER_MOMENTUM_FILE, files->outer_momentum);
    for (int i = 0; i < 2 * (int)state->local.ranks; i++) {
        char name[TRAINER_MOMENTS_NAME_BYTES];
        rank_training_moments_name(i / 2, i % 2 > 0, name);
        add(rows, &count, name, files->of_ranks[i / 2][i % 2]);
    }
    return count;
}

base_status rank_training_files_digest(const char *directory, const rank_training_state *state,
                                       rank_training_files *files, base_error *reterr)
{
    file_row rows[ROWS_MAX];
    base_status status = BASE_OK;
    *files = (rank_training_files){.model = ""};
    const int count = list(state, files, rows);
    for (int i = 0; status == BASE_OK && i < count; i++) {
        char path[BASE_PATH_BYTES];
        status = base_path_join(directory, rows[i].name, path, reterr);
        if (status == BASE_OK) {
            status = rank_training_file_hex(path, rows[i].hex, reterr);
        }
    }
    return status;
}

base_status rank_training_files_check(const char *directory, const rank_training_state *state,
                                      base_error *reterr)
{
    rank_training_files saved = state->sha256;
    rank_training_files now;
    file_row saved_rows[ROWS_MAX];
    file_row now_rows[ROWS_MAX];
    if (saved.model[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = rank_training_files_digest(directory, state, &now, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const int count = list(state, &saved, saved_rows);
    (void)list(state, &now, now_rows);
    for (int i = 0; i < count; i++) {
        if (strcmp(saved_rows[i].hex, now_rows[i].hex) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s is not what was written there (its SHA-256 is another)",
                             saved_rows[i].name);
        }
    }
    return BASE_OK;
}
