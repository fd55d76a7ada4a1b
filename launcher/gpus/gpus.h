/* `launcher gpus`: which GPUs this computer has, what stands between them, who uses them, and how
 * they do. */
#ifndef LAUNCH_GPUS_GPUS_H
#define LAUNCH_GPUS_GPUS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

/* BASE_ERR_UNSUPPORTED: no driver, or no GPU; nothing was printed. What a driver does not say about
 * a GPU is printed as "-", and is null in JSON. */
BASE_MUST_CHECK base_status launch_gpus_print(FILE *stream, bool as_json, base_error *reterr);

/* Whether NVLinks join the GPUs with these UUIDs, each with each; of one alone: whether it has any.
 * 1 yes, 0 no; -1: the driver does not say, or one of them is not here. */
int launch_gpus_nvlink(const char *const *uuids, int count);

#endif
