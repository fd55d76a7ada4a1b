/* Paths as text. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

/* path if it is absolute, or else appended to the working directory, without slashes at its end.
 * BASE_ERR_INVALID: it is empty; BASE_ERR_LIMIT: it does not fit. */
BASE_MUST_CHECK base_status base_path_absolute(const char *path, char *absolute, size_t size_bytes,
                                               base_error *reterr);

/* directory/name. BASE_ERR_LIMIT if it does not fit. */
BASE_MUST_CHECK base_status base_path_join(const char *directory, const char *name,
                                           char path[BASE_PATH_BYTES], base_error *reterr);

/* The path that stands so from the directory of the running program: "../share" is beside it. A ".." at the beginning cuts
 * a component, so the path has none. */
BASE_MUST_CHECK base_status base_path_beside_program(const char *relative,
                                                     char path[BASE_PATH_BYTES],
                                                     base_error *reterr);

/* Finds a program as a shell does: by its path, or in PATH. BASE_ERR_NOTFOUND; BASE_ERR_IO if it
 * exists and cannot be run. */
BASE_MUST_CHECK base_status base_path_program(const char *name, char path[BASE_PATH_BYTES],
                                              base_error *reterr);

/* The directory of installed data. Where it lies from the running program, the build was told
 * (CMAKE_INSTALL_BINDIR and CMAKE_INSTALL_DATADIR); if nothing is there, ../share/ringfence, where a
 * build directory has it. */
BASE_MUST_CHECK base_status base_path_share(char path[BASE_PATH_BYTES], base_error *reterr);

/* Whether each line of the file is a JSON object, by its name: one that ends in .jsonl, .ndjson or .json. Any other file
 * that has no tokens (base_path_has_tokens) is one of plain text. (Data sets have lines in .json files, too, and nobody wants them learnt as text.) */
bool base_path_has_json_lines(const char *path);

/* Whether the file is one of tokens, which tokenizer-encode writes, by its name: one that ends in .safetensors. */
bool base_path_has_tokens(const char *path);

#endif
