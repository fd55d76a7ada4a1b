/* Offers what an agent's ranks have saved to the head, and sends it. Called by local_ranks.c when a
 * rank has ended, and by agent.c for each Fetch. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/path.h"

static base_status state_path(const launch_agent *agent, int rank, char path[BASE_PATH_BYTES],
                              base_error *reterr)
{
    char name[64];
    (void)snprintf(name, sizeof name, PROTO_STATE_FORMAT, rank);
    return base_path_join(agent->files.placed.output.directory, name, path, reterr);
}

base_status agent_state_look(launch_agent *agent, int index, bool *known, base_error *reterr)
{
    agent_rank *rank = &agent->ranks[index];
    agent_state_file *state = &rank->state;
    char path[BASE_PATH_BYTES];
    *known = true;
    if (state->known || agent->files.placed.output.directory[0] == '\0') {
        return BASE_OK;
    }
    base_status status = state_path(agent, agent->part.first_rank + index, path, reterr);
    if (status == BASE_OK && state->hashing == NULL) {
        if (access(path, F_OK) != 0) {
            state->known = true; /* it has saved nothing */
            return BASE_OK;
        }
        status = launch_hashing_open(path, &state->hashing, reterr);
    }
    if (status == BASE_OK) {
        status =
            launch_hashing_step(state->hashing, known, &state->size_bytes, state->sha256, reterr);
    }
    if (status != BASE_OK || *known) {
        launch_hashing_close(state->hashing);
        state->hashing = NULL;
        state->known = true;
        state->saved = status == BASE_OK && state->size_bytes > 0;
    }
    return status;
}

base_status agent_state_send(launch_agent *agent, const Ringfence__Control__Fetch *fetch,
                             base_error *reterr)
{
    static launch_chunk chunk;
    char path[BASE_PATH_BYTES];
    const int index = (int)fetch->file - agent->part.first_rank;
    if (index < 0 || index >= agent->part.ranks || !agent->ranks[index].state.saved ||
        fetch->offset >= agent->ranks[index].state.size_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the head has asked for what rank %" PRIu32 " has not saved", fetch->file);
    }
    base_status status = state_path(agent, (int)fetch->file, path, reterr);
    if (status == BASE_OK) {
        status =
            launch_chunk_read(path, agent->ranks[index].state.size_bytes, fetch, &chunk, reterr);
    }
    if (status == BASE_OK &&
        !agent_send(agent, &chunk.body.base)) { /* the head does not ask again */
        status = base_fail(reterr, BASE_ERR_BUSY,
                           "the state of rank %" PRIu32 " cannot be sent: too many messages wait",
                           fetch->file);
    }
    return status;
}
