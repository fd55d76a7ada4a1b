/* The file that a program of this directory writes. */
#ifndef RANK_TOKENIZER_OUT_H
#define RANK_TOKENIZER_OUT_H

#include "base/status.h"

/* Makes the file's directory where it is missing, and says before the work if the file could not be written after it.
 * Fails as base_mkdirs and base_file_check_writable; BASE_ERR_LIMIT: the path is too long. */
BASE_MUST_CHECK base_status rank_out_prepare(const char *path, base_error *reterr);

#endif
