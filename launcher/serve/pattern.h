/* Reads regular expressions, as JSON schemas have them (ECMA-262): a tree of what they mean. Pure.
 *
 * Known are characters and their escapes, classes, ".", groups, "|", and the quantifiers *, +, ?,
 * {m}, {m,} and {m,n}, also lazy ones, which match the same texts. Look-arounds, back-references,
 * \b, \p{...} and flags are refused. */
#ifndef LAUNCH_PATTERN_H
#define LAUNCH_PATTERN_H

#include "serve/characters.h"

enum {
    LAUNCH_PATTERN_NODES_MAX = 2048,
    LAUNCH_PATTERN_SETS_MAX = 64,      /* different ones */
    LAUNCH_PATTERN_COUNT_MAX = 100000, /* a count above it means it */
};

typedef enum launch_node_kind {
    LAUNCH_NODE_EMPTY,
    LAUNCH_NODE_SET,
    LAUNCH_NODE_SEQUENCE,
    LAUNCH_NODE_EITHER,
    LAUNCH_NODE_REPEAT,
    LAUNCH_NODE_BEGIN, /* ^ */
    LAUNCH_NODE_END,   /* $ */
} launch_node_kind;

typedef struct launch_node {
    launch_node_kind kind;
    bool nullable; /* it matches no characters, too */
    bool anchored; /* it has a ^ or a $ */
    uint16_t first;
    uint16_t second;
    uint16_t set;
    int32_t least;
    int32_t most; /* -1: any number */
} launch_node;

typedef struct launch_pattern {
    uint16_t root;
    uint16_t node_count;
    uint16_t set_count;
    launch_node nodes[LAUNCH_PATTERN_NODES_MAX];
    launch_characters sets[LAUNCH_PATTERN_SETS_MAX];
} launch_pattern;

/* NULL, or why the text is no pattern that is known. text: in UTF-8. */
const char *launch_pattern_read(const char *text, launch_pattern *pattern);

#endif
