/* Reads files of text, and counts their pieces. Called by program.c and encode.c. */
#include "texts.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "data/hub.h"

typedef struct counting {
    rank_tokenizer *cutter;
    rank_piece_table *table;
} counting;

static base_status add_piece(void *context, const uint8_t *piece, size_t piece_bytes,
                             base_error *reterr)
{
    return rank_piece_table_add(context, piece, piece_bytes, reterr);
}

static base_status count_part(void *user, const rank_text_part *part, base_error *reterr)
{
    const counting *of = user;
    return rank_tokenizer_cut(of->cutter, part->at, part->bytes, add_piece, of->table, reterr);
}

static base_status read_plain(const char *path, rank_text_take take, void *user, base_error *reterr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    const base_status status = rank_text_parts_plain(path, fd, take, user, reterr);
    (void)close(fd);
    return status;
}

base_status rank_texts_read(const char *path, rank_text_take take, void *user, base_error *reterr)
{
    if (base_path_has_tokens(path)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is a file of tokens by its name, and not a text", path);
    }
    return base_path_has_json_lines(path) ? rank_text_parts_lines(path, take, user, reterr)
                                          : read_plain(path, take, user, reterr);
}

base_status rank_texts_count(const char *path, rank_tokenizer *cutter, rank_piece_table *table,
                             base_error *reterr)
{
    counting of = {.cutter = cutter, .table = table};
    return rank_texts_read(path, count_part, &of, reterr);
}
