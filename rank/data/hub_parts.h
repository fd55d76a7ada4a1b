/* What the files of a tokenizer share: tokenizer.c, hub.c, hub_added.c, hub_read.c, hub_split.c and hub_spaces.c. */
#ifndef RANK_DATA_HUB_PARTS_H
#define RANK_DATA_HUB_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "hub.h"
#include "nfc.h"

enum {
    HUB_BYTES = 256,
    HUB_VOCAB_MAX = 1 << 20,
    HUB_SPLITS_MAX = 8,
    HUB_PREFIX_MAX = 4,
    HUB_NONE = -1,
};

/* A token's bytes in the tokenizer's. */
typedef struct hub_token {
    uint32_t offset;
    uint32_t size_bytes;
    bool special;     /* prints nothing, and no piece becomes it */
    bool late;        /* an added one that is looked for in what is normalised already */
    bool takes_left;  /* an added one to which the white space before it belongs, */
    bool takes_right; /* and that behind it */
} hub_token;

/* A token that stands for its own letters. */
typedef struct hub_added {
    const uint8_t *at; /* its bytes */
    uint32_t size_bytes;
    int32_t id;
    size_t index; /* of its file */
} hub_added;

/* Two tokens become one. */
typedef struct hub_merge {
    int32_t left; /* HUB_NONE: the entry is free */
    int32_t right;
    int32_t rank;
    int32_t made;
} hub_merge;

/* A piece under work: its parts as a list in its order. */
typedef struct hub_part {
    int32_t id; /* HUB_NONE: joined to the part before it */
    int32_t before;
    int32_t next;
} hub_part;

/* A merge that may be made, in a heap by rank and place. */
typedef struct hub_candidate {
    int32_t rank;
    int32_t at;   /* the left part */
    int32_t left; /* its id, and that of the part behind it, when this was found */
    int32_t right;
    int32_t made;
} hub_candidate;

/* Where a space is put before a text, of SentencePiece's kind; a stretch is what lies between added tokens. */
typedef enum hub_prepend {
    HUB_PREPEND_NEVER,
    HUB_PREPEND_ALWAYS, /* each stretch, by the normalizer: also late tokens have one before them */
    HUB_PREPEND_MISSING, /* each stretch that begins with none */
    HUB_PREPEND_FIRST,   /* the first stretch, if it begins with none */
} hub_prepend;

/* Where such a text is cut into pieces. */
typedef enum hub_words {
    HUB_WORDS_NONE,
    HUB_WORDS_BEGIN, /* before a space behind another character */
    HUB_WORDS_EACH,  /* before each space */
} hub_words;

struct rank_tokenizer {
    int32_t count;     /* of ids */
    hub_token *tokens; /* (count) */
    uint8_t *bytes;
    int32_t byte_ids[HUB_BYTES]; /* the token of one byte; HUB_NONE: there is none */
    size_t merge_mask;           /* entries - 1, a power of two less one */
    hub_merge *merges;           /* open addressing by the pair */
    size_t text_mask;            /* the same of text_ids, */
    int32_t *text_ids;           /* where tokens of the vocabulary are found by their bytes */
    bool allows_special;         /* special tokens may stand in texts */
    bool whole_first;            /* a piece that is a token is that token, whatever merges say */
    int split_count;
    pcre2_code *splits[HUB_SPLITS_MAX]; /* each cuts the pieces of the one before it, */
    bool drops[HUB_SPLITS_MAX];         /* and may drop what lies between its matches */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    int32_t prefix[HUB_PREFIX_MAX];
    size_t prefix_count;
    int32_t end_id;
    const char *end_token; /* its name; NULL: there is none */
    hub_added *added;      /* (added_count), in the order of their bytes, then of their file */
    size_t added_count;
    bool added_begins[HUB_BYTES]; /* one of them begins with that byte */
    bool normalises;              /* texts, into normal form C */
    rank_nfc nfc;
    bool spaces;       /* of SentencePiece's kind (hub_spaces.h): */
    bool marks_spaces; /* its file says so of spaces */
    hub_prepend prepend;
    hub_words words;
    uint8_t *spaced;          /* (spaced_room): a text with the space before it */
    uint32_t *spaced_origins; /* (spaced_room): its bytes' origins */
    size_t spaced_room;
    hub_part *parts;     /* (room) */
    hub_candidate *heap; /* (3 · room) */
    size_t room;
};

/* hub_added.c: the added tokens at a text's begin, the shorter ones first, and of the same bytes the first of the file.
 * Each byte of the text halves those that are left, as often as that takes: the cost is that of a few comparisons for a
 * byte, however many tokens there are. */
typedef struct hub_added_search {
    const rank_tokenizer *self;
    const uint8_t *text;
    size_t text_bytes;
    size_t matched; /* bytes of the text, which the tokens left begin with: */
    size_t begin;   /* of self->added */
    size_t end;
} hub_added_search;
void hub_added_sort(rank_tokenizer *self);
hub_added_search hub_added_at(const rank_tokenizer *self, const uint8_t *text, size_t text_bytes);
const hub_added *hub_added_next(hub_added_search *search); /* NULL: there are no more */

/* hub.c: the entry of that pair, or the free one where it belongs. */
hub_merge *hub_find_merge(const rank_tokenizer *self, int32_t left, int32_t right);
/* The token of the vocabulary with these bytes; HUB_NONE: there is none. `entry` is where it is, or
 * belongs. */
int32_t hub_find_text(const rank_tokenizer *self, const uint8_t *bytes, size_t size_bytes,
                      size_t *entry);

/* hub_split.c: adds the steps of "pre_tokenizer": those of a Sequence, or the one that it is. */
struct json_t;
BASE_MUST_CHECK base_status hub_read_steps(rank_tokenizer *self, const struct json_t *root,
                                           base_error *reterr);
/* Reads the one that `what` is, or each of a Sequence, which are its member `list`. None if it is
 * missing or null. */
typedef base_status hub_read(rank_tokenizer *self, const struct json_t *step, base_error *reterr);
BASE_MUST_CHECK base_status hub_each(rank_tokenizer *self, const struct json_t *what,
                                     const char *list, hub_read *read, base_error *reterr);
bool hub_has_type(const struct json_t *object, const char *type);
/* Missing, null, false or empty. */
bool hub_is_off(const struct json_t *object, const char *key);
/* Says that `what` has a type that is not known. */
BASE_MUST_CHECK base_status hub_refuse(const char *what, const struct json_t *object,
                                       base_error *reterr);

#endif
