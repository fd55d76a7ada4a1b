/* The tables, read and checked: verbs, subjects, words, sentence patterns and their errors.
 *
 * Constant once loaded. All strings point into the tables. */
#ifndef CORPUS_GRAMMAR_H
#define CORPUS_GRAMMAR_H

#include <stdbool.h>

#include "base/status.h"
#include "table.h"

enum {
    CORPUS_OBJECTS_MAX = 12,
    CORPUS_ALSO_MAX = 4,
    CORPUS_UNLESS_MAX = 4,
    CORPUS_ERRORS_MAX = 16, /* rows of errors.tsv for one frame */
};

typedef enum corpus_person { CORPUS_I, CORPUS_HE, CORPUS_THEY, CORPUS_PERSONS } corpus_person;
typedef enum corpus_kind { CORPUS_IRREGULAR, CORPUS_REGULAR, CORPUS_BE } corpus_kind;

typedef enum corpus_form {
    CORPUS_BASE,
    CORPUS_THIRD,
    CORPUS_PAST,
    CORPUS_PARTICIPLE,
    CORPUS_ING,
    CORPUS_FORMS
} corpus_form;

/* A verb with its objects; or "be" with one predicate as its only object. */
typedef struct corpus_verb {
    const char *label; /* "go", "be happy" */
    const char *forms[CORPUS_FORMS];
    corpus_kind kind;
    bool common;
    const char *often;                 /* "daily" … "state" */
    char *objects[CORPUS_OBJECTS_MAX]; /* "": nothing follows */
    int object_count;
    const char *patient; /* NULL: no passive */
    char *also[CORPUS_ALSO_MAX];
    int also_count;
} corpus_verb;

typedef struct corpus_error {
    const corpus_row *row;
    const char *rule;
    const char *wrong; /* pattern */
    struct {
        corpus_form a;
        corpus_form b;
    } unless[CORPUS_UNLESS_MAX];
    int unless_count;
} corpus_error;

typedef enum corpus_verbs {
    CORPUS_ALL,
    CORPUS_ACTIVE,
    CORPUS_PASSIVE,
    CORPUS_ONLY_BE
} corpus_verbs;

typedef struct corpus_frame {
    const char *name;
    const char *form;
    corpus_verbs verbs;
    int lines_common;
    int lines_irregular;
    int lines_regular;
    const char *right; /* pattern */
    const corpus_row *row;
    corpus_error errors[CORPUS_ERRORS_MAX];
    int error_count;
} corpus_frame;

typedef struct corpus_subject {
    const char *text;
    corpus_person person;
} corpus_subject;

typedef struct corpus_grammar {
    corpus_table table_verbs, table_predicates, table_subjects, table_agreement, table_words,
        table_rules, table_frames, table_errors;
    corpus_verb *verbs;
    int verb_count;
    corpus_subject *subjects;
    int subject_count;
    corpus_frame *frames;
    int frame_count;
} corpus_grammar;

/* Columns of agreement.tsv after the placeholder: right for i, he, they, then wrong. */
static inline const char *corpus_agreement_word(const corpus_row *row, corpus_person person,
                                                bool wrong)
{
    return row->cells[1 + (wrong ? CORPUS_PERSONS : 0) + (int)person];
}

/* Reads directory's eight tables. BASE_ERR_INVALID names file and line. The caller frees with
 * fini. */
BASE_MUST_CHECK base_status corpus_grammar_load(corpus_grammar *grammar, const char *directory,
                                                base_error *reterr);
void corpus_grammar_fini(corpus_grammar *grammar);

/* Whether the verb is used in the frame at all. */
bool corpus_frame_takes(const corpus_frame *frame, const corpus_verb *verb);

/* Training lines that a verb gets in the frame. */
int corpus_frame_lines(const corpus_frame *frame, const corpus_verb *verb);

/* Whether text is a form of any verb of the table. */
bool corpus_is_form(const corpus_grammar *grammar, const char *text);

#endif
