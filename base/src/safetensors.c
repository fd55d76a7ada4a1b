/* Parses and checks the header of a safetensors file. Called to pin, to load and to compare
 * checkpoints. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/read_at.h"
#include "base/text.h"

enum { LENGTH_BYTES = sizeof(uint64_t) }; /* of the number before the header */

static const char metadata_key[] = "__metadata__";

static const struct {
    const char *name;
    size_t element_bytes;
} DTYPES[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},  {"I16", 2},
    {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1},
};

/* A JSON integer that fits into size_t and is not negative. */
static int read_size(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return 0;
    }
    *size = (size_t)json_integer_value(value);
    return 1;
}

static int read_dtype(const json_t *value, base_safetensor *tensor)
{
    const char *name = json_string_value(value);
    for (size_t i = 0; name != NULL && i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        if (strcmp(name, DTYPES[i].name) == 0) {
            memcpy(tensor->dtype, name, strlen(name) + 1);
            tensor->element_bytes = DTYPES[i].element_bytes;
            return 1;
        }
    }
    return 0;
}

static int read_shape(const json_t *value, base_safetensor *tensor)
{
    if (!json_is_array(value) || json_array_size(value) > BASE_SAFETENSORS_DIMS_MAX) {
        return 0;
    }
    tensor->dims = (int)json_array_size(value);
    tensor->count = 1;
    for (int i = 0; i < tensor->dims; i++) {
        if (!read_size(json_array_get(value, (size_t)i), &tensor->shape[i]) ||
            !base_mul_size(tensor->count, tensor->shape[i], &tensor->count)) {
            return 0;
        }
    }
    return 1;
}

static base_status read_tensor(const char *name, const json_t *entry, size_t data_bytes,
                               base_safetensor *tensor, base_error *reterr)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t end = 0;
    size_t needed = 0;
    tensor->name = name;
    if (base_text_has_control(name)) { /* it could forge a line of what is printed */
        return base_fail(reterr, BASE_ERR_INVALID, "a tensor's name has a control character");
    }
    if (!json_is_object(entry) || json_object_size(entry) != 3) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "tensor %s: expected dtype, shape and data_offsets, and nothing else",
                         name);
    }
    if (!read_dtype(json_object_get(entry, "dtype"), tensor)) {
        return base_fail(reterr, BASE_ERR_INVALID, "tensor %s: unknown dtype", name);
    }
    if (!read_shape(json_object_get(entry, "shape"), tensor)) {
        return base_fail(reterr, BASE_ERR_INVALID, "tensor %s: the shape makes no sense", name);
    }
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_size(json_array_get(offsets, 0), &tensor->offset_bytes) ||
        !read_size(json_array_get(offsets, 1), &end) || end < tensor->offset_bytes ||
        end > data_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "tensor %s: its offsets are outside the file",
                         name);
    }
    tensor->size_bytes = end - tensor->offset_bytes;
    if (!base_mul_size(tensor->count, tensor->element_bytes, &needed) ||
        needed != tensor->size_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "tensor %s: %zu bytes do not hold its shape of %s", name,
                         tensor->size_bytes, tensor->dtype);
    }
    return BASE_OK;
}

static base_status check_metadata(json_t *metadata, base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    int strings = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
    {
        strings = strings && json_is_string(value);
    }
    return strings ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "__metadata__ must hold strings alone");
}

static int by_offset(const void *left, const void *right)
{
    const base_safetensor *a = left;
    const base_safetensor *b = right;
    if (a->offset_bytes != b->offset_bytes) {
        return a->offset_bytes < b->offset_bytes ? -1 : 1;
    }
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

/* Checks that, sorted by offset, each tensor begins where the one before ends, and the last one
 * ends with the data. */
static base_status check_coverage(base_safetensors *parsed, base_error *reterr)
{
    size_t expected = 0;
    qsort(parsed->tensors, parsed->count, sizeof *parsed->tensors, by_offset);
    for (size_t i = 0; i < parsed->count; i++) {
        const base_safetensor *tensor = &parsed->tensors[i];
        if (tensor->offset_bytes != expected) {
            return base_fail(
                reterr, BASE_ERR_INVALID, "tensor %s: %s before it, at byte %zu", tensor->name,
                tensor->offset_bytes > expected ? "a hole" : "an overlap", tensor->offset_bytes);
        }
        expected += tensor->size_bytes;
    }
    if (expected != parsed->data_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu bytes after the last tensor",
                         parsed->data_bytes - expected);
    }
    return BASE_OK;
}

/* Fills parsed->tensors from the header object, which still owns the names. */
static base_status read_header(json_t *header, base_safetensors *parsed, base_error *reterr)
{
    const char *name = NULL;
    json_t *entry = NULL;
    const size_t entries = json_object_size(header);
    if (!json_is_object(header) || entries > BASE_SAFETENSORS_TENSORS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "the header is no object of tensors");
    }
    parsed->tensors = calloc(entries + 1, sizeof *parsed->tensors);
    if (parsed->tensors == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", entries);
    }
    json_object_foreach(header, name, entry)
    {
        base_status status = BASE_OK;
        if (strcmp(name, metadata_key) == 0) {
            status = check_metadata(entry, reterr);
        } else {
            status = read_tensor(name, entry, parsed->data_bytes, &parsed->tensors[parsed->count],
                                 reterr);
            parsed->count++;
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return check_coverage(parsed, reterr);
}

/* How a file begins that Git LFS has not fetched. */
static bool is_pointer(const base_reader *reader, size_t size_bytes)
{
    static const char begin[LENGTH_BYTES + 1] = "version ";
    return size_bytes >= LENGTH_BYTES && memcmp(reader->data, begin, LENGTH_BYTES) == 0;
}

/* Whether these bytes cannot be a length: that of a header ends with zeros. */
static bool is_text(const base_reader *reader)
{
    bool text = reader->data[0] > ' ' && reader->data[0] <= '~';
    for (size_t i = 1; text && i < LENGTH_BYTES; i++) {
        const uint8_t byte = reader->data[i];
        text = (byte >= ' ' && byte <= '~') || byte == '\n' || byte == '\r' || byte == '\t';
    }
    return text;
}

/* Reads the header's length from the first bytes of a file of size_bytes. */
static base_status read_length(base_reader *reader, size_t size_bytes, size_t *header_bytes,
                               base_error *reterr)
{
    const uint64_t length = base_read_u64(reader);
    if (reader->failed) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu bytes are too few for a safetensors file",
                         size_bytes);
    }
    if (is_pointer(reader, size_bytes)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "it is a pointer of Git LFS, and not the weights: git lfs pull fetches them");
    }
    if (is_text(reader)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it is no safetensors file: it is a text, and starts with '%c'",
                         (char)reader->data[0]);
    }
    if (length > BASE_SAFETENSORS_HEADER_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "its header of %llu bytes is longer than the %d allowed",
                         (unsigned long long)length, BASE_SAFETENSORS_HEADER_BYTES_MAX);
    }
    if (length > size_bytes - reader->offset_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "the file ends inside its header");
    }
    *header_bytes = (size_t)length;
    return BASE_OK;
}

/* Parses a header of a file of size_bytes. */
static base_status parse_header(const char *text, size_t header_bytes, size_t size_bytes,
                                base_safetensors *parsed, base_error *reterr)
{
    json_error_t flaw;
    if (header_bytes == 0 || text[0] != '{') {
        return base_fail(reterr, BASE_ERR_INVALID, "its header does not start with '{'");
    }
    json_t *header = json_loadb(text, header_bytes, JSON_REJECT_DUPLICATES, &flaw);
    if (header == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "its header is no valid JSON: %s", flaw.text);
    }
    parsed->owner = header;
    parsed->data_offset_bytes = LENGTH_BYTES + header_bytes;
    parsed->data_bytes = size_bytes - parsed->data_offset_bytes;
    const base_status status = read_header(header, parsed, reterr);
    if (status != BASE_OK) {
        base_safetensors_release(parsed);
    }
    return status;
}

base_status base_safetensors_parse(const void *file, size_t size_bytes, base_safetensors *parsed,
                                   base_error *reterr)
{
    base_reader reader = base_reader_make(file, size_bytes);
    size_t header_bytes = 0;
    memset(parsed, 0, sizeof *parsed);
    base_status status = read_length(&reader, size_bytes, &header_bytes, reterr);
    if (status == BASE_OK) {
        const char *text = base_read_bytes(&reader, header_bytes);
        status = parse_header(text, header_bytes, size_bytes, parsed, reterr);
    }
    if (status == BASE_OK) {
        parsed->data = reader.data + parsed->data_offset_bytes;
    }
    return status;
}

base_status base_safetensors_data_offset(int fd, size_t size_bytes, size_t *offset_bytes,
                                         base_error *reterr)
{
    uint8_t length[LENGTH_BYTES] = {0};
    const size_t length_bytes = size_bytes < sizeof length ? size_bytes : sizeof length;
    base_reader reader = base_reader_make(length, length_bytes);
    size_t header_bytes = 0;
    base_status status = base_read_at(fd, 0, length, length_bytes, reterr);
    if (status == BASE_OK) {
        status = read_length(&reader, size_bytes, &header_bytes, reterr);
    }
    *offset_bytes = sizeof length + header_bytes;
    return status;
}

base_status base_safetensors_read(int fd, base_safetensors *parsed, base_error *reterr)
{
    struct stat about;
    size_t offset_bytes = 0;
    memset(parsed, 0, sizeof *parsed);
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a regular file");
    }
    const size_t size_bytes = (size_t)about.st_size;
    base_status status = base_safetensors_data_offset(fd, size_bytes, &offset_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const size_t header_bytes = offset_bytes - LENGTH_BYTES;
    char *header = malloc(header_bytes + 1);
    if (header == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for its header");
    }
    status = base_read_at(fd, LENGTH_BYTES, header, header_bytes, reterr);
    if (status == BASE_OK) {
        status = parse_header(header, header_bytes, size_bytes, parsed, reterr);
    }
    free(header);
    return status;
}

void base_safetensors_release(base_safetensors *parsed)
{
    free(parsed->tensors);
    free(parsed->by_name);
    json_decref(parsed->owner);
    memset(parsed, 0, sizeof *parsed);
}

static int by_name(const void *left, const void *right)
{
    const base_safetensor *const *a = left;
    const base_safetensor *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

base_status base_safetensors_sort(base_safetensors *parsed, base_error *reterr)
{
    parsed->by_name = calloc(parsed->count + 1, sizeof *parsed->by_name);
    if (parsed->by_name == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", parsed->count);
    }
    for (size_t i = 0; i < parsed->count; i++) {
        parsed->by_name[i] = &parsed->tensors[i];
    }
    qsort(parsed->by_name, parsed->count, sizeof *parsed->by_name, by_name);
    return BASE_OK;
}

const base_safetensor *base_safetensors_find(const base_safetensors *parsed, const char *name)
{
    if (parsed->by_name != NULL) {
        const base_safetensor key = {.name = name};
        const base_safetensor *const wanted = &key;
        const base_safetensor *const *found =
            bsearch(&wanted, parsed->by_name, parsed->count, sizeof *parsed->by_name, by_name);
        return found != NULL ? *found : NULL;
    }
    for (size_t i = 0; i < parsed->count; i++) {
        if (strcmp(parsed->tensors[i].name, name) == 0) {
            return &parsed->tensors[i];
        }
    }
    return NULL;
}

const char *base_safetensors_metadata(const base_safetensors *parsed, const char *key)
{
    const json_t *metadata = json_object_get(parsed->owner, metadata_key);
    return json_string_value(json_object_get(metadata, key));
}
