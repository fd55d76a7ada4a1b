/* Limits of the jinja directory. A template is input, and so is what it makes of its variables. */
#ifndef RANK_JINJA_LIMITS_H
#define RANK_JINJA_LIMITS_H

enum {
    RANK_JINJA_SOURCE_BYTES_MAX = 1 << 18, /* of a template */
    RANK_JINJA_NESTING_MAX = 120,          /* of statements and brackets in a template */
    RANK_JINJA_DEPTH_MAX = 400,            /* of nodes that run at once, and of values in values */
    RANK_JINJA_PARSE_BYTES_MAX = 1 << 26,  /* memory of a parsed template */
    RANK_JINJA_RENDER_BYTES_MAX = 1 << 28, /* memory of one run */
    RANK_JINJA_TEXT_BYTES_MAX = 1 << 25,   /* of one string, and of the text that comes out */
    RANK_JINJA_STEPS_MAX = 1 << 24, /* nodes run, values made, texts put, and their bytes / 16 */
    RANK_JINJA_REAL_STEPS = 32,     /* that one number with a point takes to be written */
    RANK_JINJA_RANGE_MAX = 100000,  /* numbers of one range(), as in Jinja's sandbox */
    RANK_JINJA_SLOTS_MAX = 6,       /* arguments of a filter, a test or a method */
};

#endif
