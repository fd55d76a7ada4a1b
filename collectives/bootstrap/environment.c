/* Reads a rank's place from the environment. Called by programs. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "coll/bootstrap.h"
#include "common/limits.h"
#include "common/sized.h"
#include "ringfence/coll_error.h"

enum { PORT_MAX = 65535 };

/* Who has started the program; the first whose rank is set. */
static const struct {
    const char *rank;
    const char *world_size;
} starters[] = {
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
};

static const char *look_up(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static coll_status read_number(const char *name, int64_t least, int64_t most, int *number,
                               coll_error *reterr)
{
    const char *text = look_up(name);
    int64_t value = 0;
    if (text == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s is not in the environment", name);
    }
    if (!base_parse_int(text, least, most, &value)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "%s=%.64s in the environment: must be a number from %d to %d", name, text,
                         (int)least, (int)most);
    }
    *number = (int)value;
    return COLL_OK;
}

static coll_status read_place(coll_bootstrap_options *options, coll_error *reterr)
{
    for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++) {
        if (look_up(starters[i].rank) != NULL) {
            const coll_status status = read_number(starters[i].world_size, 1, COLL_RANKS_MAX,
                                                   &options->world_size, reterr);
            return status != COLL_OK ? status
                                     : read_number(starters[i].rank, 0, options->world_size - 1,
                                                   &options->rank, reterr);
        }
    }
    return coll_fail(reterr, COLL_ERR_INVALID,
                     "RANK is not in the environment: set RANK, WORLD_SIZE, MASTER_ADDR and "
                     "MASTER_PORT for each process, or start them with torchrun, srun or our "
                     "launcher, which do");
}

/* torchrun's store listens at MASTER_PORT itself. */
static coll_status read_port(coll_bootstrap_options *options, coll_error *reterr)
{
    const char *store = look_up("TORCHELASTIC_USE_AGENT_STORE");
    const int added = store != NULL && strcmp(store, "True") == 0 ? 1 : 0;
    int port = COLL_BOOTSTRAP_PORT;
    if (look_up("MASTER_PORT") != NULL) {
        const coll_status status = read_number("MASTER_PORT", 1, PORT_MAX - added, &port, reterr);
        if (status != COLL_OK) {
            return status;
        }
    }
    options->port = port + added;
    return COLL_OK;
}

coll_status coll_bootstrap_environment(coll_bootstrap_options *options, coll_error *reterr)
{
    coll_bootstrap_options found;
    coll_status status =
        coll_sized_read(&found, sizeof found, COLL_SIZED_BYTES(coll_bootstrap_options, timeout_ns),
                        options, "coll_bootstrap_options", reterr);
    if (status == COLL_OK) {
        status = read_place(&found, reterr);
    }
    if (status == COLL_OK) {
        status = read_port(&found, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    found.address = look_up("MASTER_ADDR");
    if (found.address == NULL && found.world_size > 1) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "MASTER_ADDR is not in the environment: the name or address of rank 0's "
                         "host");
    }
    options->rank = found.rank;
    options->world_size = found.world_size;
    options->address = found.address;
    options->port = found.port;
    options->secret = look_up("RINGFENCE_COLL_SECRET");
    options->secret_bytes = options->secret != NULL ? strlen(options->secret) : 0;
    return COLL_OK;
}
