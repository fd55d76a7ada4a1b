/* Reads a safetensors file: makes checked tensor records from the header.
 *
 * The format: header length N (u64, little-endian), N bytes of JSON {"name": {"dtype", "shape",
 * "data_offsets": [begin, end]}, "__metadata__": {…}}, then the tensors. Everything is checked
 * before a caller gets a record: the lengths against the file; names and keys for duplicates; names for control characters; each
 * tensor's bytes against its type and shape; that the tensors cover the data without holes or
 * overlaps. After a successful parse, data + offset_bytes … + size_bytes is inside the file's bytes
 * for every tensor.
 *
 * Thread safe. */
#ifndef BASE_SAFETENSORS_H
#define BASE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    BASE_SAFETENSORS_HEADER_BYTES_MAX = 16 << 20,
    BASE_SAFETENSORS_INDEX_BYTES_MAX = 16 << 20, /* of the file that names several */
    BASE_SAFETENSORS_FILES_MAX = 256,            /* of one checkpoint */
    BASE_SAFETENSORS_TENSORS_MAX = 1 << 16,      /* of one file, and of an index */
    BASE_SAFETENSORS_DIMS_MAX = 8,
    BASE_SAFETENSORS_DTYPE_BYTES = 8, /* "F32" with its NUL, and room */
    BASE_SAFETENSORS_ALIGN_BYTES = 8, /* in files that we write, the data starts at a multiple of
                                       * this */
};

typedef struct base_safetensor {
    const char *name; /* owned by the base_safetensors */
    char dtype[BASE_SAFETENSORS_DTYPE_BYTES];
    size_t element_bytes;
    int dims; /* 0: a scalar */
    size_t shape[BASE_SAFETENSORS_DIMS_MAX];
    size_t count; /* elements */
    size_t offset_bytes;
    size_t size_bytes;
} base_safetensor;

typedef struct base_safetensors {
    const uint8_t *data;      /* into the caller's bytes, after the header; NULL: read by fd */
    size_t data_offset_bytes; /* of the data in the file */
    size_t data_bytes;
    size_t count;
    base_safetensor *tensors;        /* (count), by rising offset */
    const base_safetensor **by_name; /* (count), by rising name; NULL: not sorted */
    void *owner;                     /* owns the names and the metadata */
} base_safetensors;

/* Parses size_bytes at file. The caller keeps these bytes as long as it uses *parsed. Every flaw is
 * BASE_ERR_INVALID and named. The data behind the header is not read. A header longer than
 * BASE_SAFETENSORS_HEADER_BYTES_MAX is BASE_ERR_LIMIT. On failure *parsed is empty and needs no
 * release. */
BASE_MUST_CHECK base_status base_safetensors_parse(const void *file, size_t size_bytes,
                                                   base_safetensors *parsed, base_error *reterr);

/* The same of an open file, whose header alone is read. It must be a regular file. BASE_ERR_IO, too. */
BASE_MUST_CHECK base_status base_safetensors_read(int fd, base_safetensors *parsed,
                                                  base_error *reterr);

/* Where the data of an open file of size_bytes begins. The header itself is not read. Fails like
 * base_safetensors_read. */
BASE_MUST_CHECK base_status base_safetensors_data_offset(int fd, size_t size_bytes,
                                                         size_t *offset_bytes, base_error *reterr);

/* Frees the records, but not the caller's bytes. An empty *parsed is fine. */
void base_safetensors_release(base_safetensors *parsed);

/* Makes by_name, for many calls of base_safetensors_find. The caller frees it, if *parsed was not parsed
 * but put together. BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status base_safetensors_sort(base_safetensors *parsed, base_error *reterr);

/* The text that "__metadata__" has under this key, until *parsed is released. NULL: none. */
const char *base_safetensors_metadata(const base_safetensors *parsed, const char *key);

/* The tensor of that name, or NULL. Looks at all, if they are not sorted. */
const base_safetensor *base_safetensors_find(const base_safetensors *parsed, const char *name);

#endif
