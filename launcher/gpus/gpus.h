/* `launcher gpus`: which GPUs this computer has, what stands between them, and who uses them. */
#ifndef LAUNCH_GPUS_GPUS_H
#define LAUNCH_GPUS_GPUS_H

#include <stdio.h>

#include "base/status.h"

/* BASE_ERR_UNSUPPORTED: no driver, or no GPU; nothing was printed. What a driver does not say about
 * a GPU is printed as "-". */
BASE_MUST_CHECK base_status launch_gpus_print(FILE *stream, base_error *reterr);

#endif
