/* What a rank inherits from its launcher: environment, JOB.json, keys, lifeline. Private. */
#ifndef PROTO_CLIENT_INHERIT_H
#define PROTO_CLIENT_INHERIT_H

#include <stddef.h>

#include "base/status.h"
#include "proto/client.h"
#include "proto/key.h"

typedef struct proto_inherited {
    proto_identity identity;
    void *job_bytes; /* the bytes of JOB.json; the caller frees them, also after a failure */
    size_t job_size;
    proto_key_file key; /* the caller wipes it */
    int lifeline_fd;    /* the caller closes it; -1 after a failure */
} proto_inherited;

/* Reads everything, overwrites the key in its descriptor, and closes both files. The lifeline is
 * the read end of a pipe that nobody writes to. It closes when the launcher ends. */
BASE_MUST_CHECK base_status proto_inherit(proto_inherited *inherited, base_error *reterr);

#endif
