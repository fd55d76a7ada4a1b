/* The index of a checkpoint in several safetensors files, as large models of Hugging Face have it: a
 * JSON object, whose "weight_map" says of each tensor which file, beside the index, has it.
 *
 * An index is checked against its files both ways: a file has just the tensors that the map says. So
 * no tensor is in two files.
 *
 * Does not change once it is open, and is then thread safe. */
#ifndef BASE_SAFETENSORS_INDEX_H
#define BASE_SAFETENSORS_INDEX_H

#include <stddef.h>

#include "base/safetensors.h"
#include "base/status.h"

typedef struct base_safetensors_index_file {
    const char *name; /* of a file, without a directory; owned by the index */
    size_t tensor_count;
} base_safetensors_index_file;

typedef struct base_safetensors_index {
    base_safetensors_index_file files[BASE_SAFETENSORS_FILES_MAX]; /* by rising name, each once */
    size_t file_count;                                             /* 1 or more */
    void *owner;                                                   /* owns the names */
} base_safetensors_index;

/* Reads the index at path. BASE_ERR_NOTFOUND, BASE_ERR_INVALID, BASE_ERR_LIMIT and BASE_ERR_IO name the
 * path and the flaw. On failure *index is empty, and needs not be closed. */
BASE_MUST_CHECK base_status base_safetensors_index_open(const char *path,
                                                        base_safetensors_index *index,
                                                        base_error *reterr);

/* The same from memory. Keeps no address of it. */
BASE_MUST_CHECK base_status base_safetensors_index_parse(const void *text, size_t size_bytes,
                                                         base_safetensors_index *index,
                                                         base_error *reterr);

/* Checks that the parsed file, which is one of the index's, has just the tensors that the index says.
 * BASE_ERR_INVALID names the tensor or the file. */
BASE_MUST_CHECK base_status base_safetensors_index_check(const base_safetensors_index *index,
                                                         const base_safetensors_index_file *file,
                                                         const base_safetensors *parsed,
                                                         base_error *reterr);

void base_safetensors_index_close(base_safetensors_index *index); /* zeros are fine */

#endif
