/* Writes files of tokens. Called by encode.c. */
#include "token_writer.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/safetensors.h"
#include "data/token_file.h"

enum {
    NARROWED_AT_ONCE = 1 << 14,
    SOURCES_BYTES_MAX = 1 << 20,
};

struct rank_token_writer {
    base_file_writer *file;
    rank_token_writer_options options;
    size_t element_bytes;
    size_t header_bytes; /* room for the length and the header */
    uint64_t written;    /* tokens */
};

/* The names as a list in one text: metadata are texts. NULL: one is not UTF-8, or there is no memory. */
static json_t *list_sources(const rank_token_writer_options *options)
{
    json_t *list = json_array();
    bool made = list != NULL;
    for (int i = 0; made && i < options->source_count; i++) {
        made = json_array_append_new(list, json_string(options->sources[i])) == 0;
    }
    char *text = made ? json_dumps(list, JSON_COMPACT) : NULL;
    json_t *string = text != NULL ? json_string(text) : NULL;
    free(text);
    json_decref(list);
    return string;
}

/* The header of so many tokens, malloc'ed; NULL as list_sources. */
static char *make_header(const rank_token_writer *writer, const rank_token_summary *summary)
{
    const rank_token_writer_options *options = &writer->options;
    const bool narrow = writer->element_bytes == sizeof(uint16_t);
    char documents[32];
    char text_bytes[32];
    char *text = NULL;
    json_t *sources = list_sources(options);
    (void)snprintf(documents, sizeof documents, "%" PRIu64, summary->documents);
    (void)snprintf(text_bytes, sizeof text_bytes, "%" PRIu64, summary->text_bytes);
    json_t *header =
        sources == NULL
            ? NULL
            : json_pack("{s:{s:s, s:s, s:s, s:O}, s:{s:s, s:[I], s:[I, I]}}", "__metadata__",
                        RANK_TOKEN_FILE_TOKENIZER, options->tokenizer_sha256, "documents",
                        documents, "text_bytes", text_bytes, "sources", sources,
                        RANK_TOKEN_FILE_TENSOR, "dtype", narrow ? "U16" : "U32", "shape",
                        (json_int_t)summary->token_count, "data_offsets", (json_int_t)0,
                        (json_int_t)(summary->token_count * writer->element_bytes));
    if (header != NULL) {
        text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    }
    json_decref(header);
    json_decref(sources);
    return text;
}

/* Leaves room for the longest header that these texts may have. */
static base_status leave_room(rank_token_writer *writer, base_error *reterr)
{
    static const char zeros[1024];
    const rank_token_summary most = {.documents = UINT64_MAX,
                                     .text_bytes = UINT64_MAX,
                                     .token_count = (uint64_t)INT64_MAX / sizeof(uint32_t)};
    char *longest = make_header(writer, &most);
    if (longest == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the names of the texts cannot be kept: they are not UTF-8");
    }
    const size_t length = strlen(longest);
    free(longest);
    if (length > SOURCES_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "the names of the texts are %zu bytes, and at most %d are kept", length,
                         (int)SOURCES_BYTES_MAX);
    }
    writer->header_bytes = sizeof(uint64_t) + length + (0 - length) % BASE_SAFETENSORS_ALIGN_BYTES;
    base_status status = BASE_OK;
    for (size_t done = 0; status == BASE_OK && done < writer->header_bytes;) {
        const size_t some = base_min_size(sizeof zeros, writer->header_bytes - done);
        status = base_file_writer_put(writer->file, zeros, some, reterr);
        done += some;
    }
    /* what cannot be written over is refused before the work */
    return status == BASE_OK ? base_file_writer_put_at(writer->file, 0, zeros, 1, reterr) : status;
}

base_status rank_token_writer_open(const char *path, const rank_token_writer_options *options,
                                   rank_token_writer **writer, base_error *reterr)
{
    *writer = NULL;
    rank_token_writer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    made->options = *options;
    made->element_bytes = rank_token_file_element_bytes(options->vocab_size);
    base_status status = base_file_writer_open(path, &made->file, reterr);
    if (status == BASE_OK) {
        base_file_writer_make_durable(made->file);
        status = leave_room(made, reterr);
    }
    if (status != BASE_OK) {
        rank_token_writer_abandon(made);
        return status;
    }
    *writer = made;
    return BASE_OK;
}

static base_status put_narrow(rank_token_writer *writer, const int32_t *ids, size_t count,
                              base_error *reterr)
{
    uint16_t part[NARROWED_AT_ONCE];
    base_status status = BASE_OK;
    for (size_t done = 0; status == BASE_OK && done < count; done += NARROWED_AT_ONCE) {
        const size_t some = base_min_size(count - done, NARROWED_AT_ONCE);
        for (size_t i = 0; i < some; i++) {
            part[i] = (uint16_t)ids[done + i];
        }
        status = base_file_writer_put(writer->file, part, some * sizeof *part, reterr);
    }
    return status;
}

base_status rank_token_writer_put(rank_token_writer *writer, const int32_t *ids, size_t count,
                                  base_error *reterr)
{
    writer->written += count;
    return writer->element_bytes == sizeof(uint16_t)
               ? put_narrow(writer, ids, count, reterr)
               : base_file_writer_put(writer->file, ids, count * sizeof *ids, reterr);
}

/* Writes the header into its room, and spaces behind it. */
static base_status put_header(rank_token_writer *writer, const rank_token_summary *summary,
                              base_error *reterr)
{
    const size_t room = writer->header_bytes - sizeof(uint64_t);
    char *header = make_header(writer, summary);
    char *whole = malloc(writer->header_bytes);
    base_status status = header != NULL && whole != NULL && strlen(header) <= room
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a header");
    if (status == BASE_OK) {
        base_writer cursor = base_writer_make(whole, sizeof(uint64_t));
        base_write_u64(&cursor, room);
        memset(whole + sizeof(uint64_t), ' ', room);
        memcpy(whole + sizeof(uint64_t), header, strlen(header));
        status = base_file_writer_put_at(writer->file, 0, whole, writer->header_bytes, reterr);
    }
    free(header);
    free(whole);
    return status;
}

base_status rank_token_writer_commit(rank_token_writer *writer, const rank_token_summary *summary,
                                     base_error *reterr)
{
    BASE_ASSERT(summary->token_count == writer->written);
    base_status status = put_header(writer, summary, reterr);
    if (status == BASE_OK) {
        status = base_file_writer_commit(writer->file, reterr);
        writer->file = NULL;
    }
    rank_token_writer_abandon(writer);
    return status;
}

void rank_token_writer_abandon(rank_token_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    base_file_writer_abandon(writer->file);
    free(writer);
}
