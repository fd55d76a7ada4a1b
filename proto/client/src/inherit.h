/* What a rank inherits from its launcher: environment, JOB.json, keys, lifeline. Private. */
#ifndef PROTO_CLIENT_INHERIT_H
#define PROTO_CLIENT_INHERIT_H

#include "base/status.h"
#include "proto/client.h"
#include "proto/key.h"

/* Reads everything, wipes the key's descriptor, closes both files. *lifeline_fd is the read end of
 * a pipe that nobody writes to: it ends with the launcher. The caller closes it and wipes *key. */
BASE_MUST_CHECK base_status proto_inherit(proto_identity *identity, proto_key_file *key,
                                          int *lifeline_fd, base_error *reterr);

#endif
