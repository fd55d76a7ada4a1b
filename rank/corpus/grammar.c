/* Loads the grammar's tables and checks them against each other. Called by corpus-gen's main.c;
 * generate.c and pattern.c read the result. */
#include "grammar.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 99 };

static char NOTHING[] = ""; /* an object that is left out */

static const char *const PERSONS[] = {"i", "he", "they", NULL};
static const char *const KINDS[] = {"irregular", "regular", NULL};
static const char *const FORMS[] = {"base", "third", "past", "participle", "ing", NULL};
static const char *const OFTEN[] = {"daily", "weekly", "yearly", "state", NULL};
static const char *const OFTEN_OR_ANY[] = {"daily", "weekly", "yearly", "state", "any", NULL};
static const char *const VERBS[] = {"all", "active", "passive", "be", NULL};

/* The index of word in a list that ends with NULL, or -1. */
static int find_word(const char *const *list, const char *word)
{
    for (int i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_none(const char *cell)
{
    return strcmp(cell, "-") == 0;
}

static base_status load_verb(corpus_grammar *grammar, corpus_row *row, base_error *reterr)
{
    const corpus_table *table = &grammar->table_verbs;
    corpus_verb *verb = &grammar->verbs[grammar->verb_count];
    verb->label = row->cells[0];
    for (int form = 0; form < CORPUS_FORMS; form++) {
        verb->forms[form] = row->cells[form];
        if (strchr(row->cells[form], ' ') != NULL) {
            return corpus_table_refuse(table, row, "a form is one word", row->cells[form], reterr);
        }
    }
    const int kind = find_word(KINDS, row->cells[5]);
    verb->often = row->cells[7];
    if (kind < 0 || find_word(OFTEN, verb->often) < 0) {
        return corpus_table_refuse(table, row, "unknown kind or often", verb->label, reterr);
    }
    verb->kind = (corpus_kind)kind;
    verb->common = strcmp(row->cells[6], "yes") == 0;
    if (!verb->common && !is_none(row->cells[6])) {
        return corpus_table_refuse(table, row, "common is yes or -", row->cells[6], reterr);
    }
    verb->object_count = corpus_cell_split(row->cells[8], '|', verb->objects, CORPUS_OBJECTS_MAX);
    for (int i = 0; i < verb->object_count; i++) {
        verb->objects[i] = is_none(verb->objects[i]) ? NOTHING : verb->objects[i];
    }
    verb->patient = is_none(row->cells[9]) ? NULL : row->cells[9];
    if (!is_none(row->cells[10])) {
        verb->also_count = corpus_cell_split(row->cells[10], ' ', verb->also, CORPUS_ALSO_MAX);
    }
    if (verb->object_count < 1 || verb->also_count < 0) {
        return corpus_table_refuse(table, row, "too many or empty objects or forms", verb->label,
                                   reterr);
    }
    for (int i = 0; i < grammar->verb_count; i++) {
        if (strcmp(grammar->verbs[i].label, verb->label) == 0) {
            return corpus_table_refuse(table, row, "the verb is in the table already", verb->label,
                                       reterr);
        }
    }
    grammar->verb_count++;
    return BASE_OK;
}

/* "be happy": the verb is be, its only object what follows. */
static base_status load_predicate(corpus_grammar *grammar, corpus_row *row, base_error *reterr)
{
    static const char be[] = "be ";
    if (strncmp(row->cells[0], be, sizeof be - 1) != 0) {
        return corpus_table_refuse(&grammar->table_predicates, row, "does not begin with be",
                                   row->cells[0], reterr);
    }
    grammar->verbs[grammar->verb_count++] =
        (corpus_verb){.label = row->cells[0],
                      .forms = {"be", "is", "was", "been", "being"},
                      .kind = CORPUS_BE,
                      .often = "daily",
                      .objects = {row->cells[0] + sizeof be - 1},
                      .object_count = 1};
    return BASE_OK;
}

static base_status load_verbs(corpus_grammar *grammar, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; i < grammar->table_verbs.row_count && status == BASE_OK; i++) {
        status = load_verb(grammar, &grammar->table_verbs.rows[i], reterr);
    }
    for (int i = 0; i < grammar->table_predicates.row_count && status == BASE_OK; i++) {
        status = load_predicate(grammar, &grammar->table_predicates.rows[i], reterr);
    }
    return status;
}

static base_status load_subjects(corpus_grammar *grammar, base_error *reterr)
{
    const corpus_table *table = &grammar->table_subjects;
    for (int i = 0; i < table->row_count; i++) {
        const corpus_row *row = &table->rows[i];
        const int person = find_word(PERSONS, row->cells[1]);
        if (person < 0) {
            return corpus_table_refuse(table, row, "unknown person", row->cells[1], reterr);
        }
        grammar->subjects[i] = (corpus_subject){row->cells[0], (corpus_person)person};
    }
    grammar->subject_count = table->row_count;
    return BASE_OK;
}

static base_status check_words(const corpus_grammar *grammar, base_error *reterr)
{
    const corpus_table *table = &grammar->table_words;
    for (int i = 0; i < table->row_count; i++) {
        if (find_word(OFTEN_OR_ANY, table->rows[i].cells[1]) < 0) {
            return corpus_table_refuse(table, &table->rows[i], "unknown often",
                                       table->rows[i].cells[1], reterr);
        }
    }
    return BASE_OK;
}

/* A number of lines, 0 … LINES_MAX, - for 0; -1 for anything else. */
static int parse_lines(const char *cell)
{
    if (is_none(cell)) {
        return 0;
    }
    char *end = NULL;
    const long value = strtol(cell, &end, 10);
    return *end == '\0' && value > 0 && value <= LINES_MAX ? (int)value : -1;
}

static base_status load_frames(corpus_grammar *grammar, base_error *reterr)
{
    const corpus_table *table = &grammar->table_frames;
    for (int i = 0; i < table->row_count; i++) {
        const corpus_row *row = &table->rows[i];
        corpus_frame *frame = &grammar->frames[i];
        const int verbs = find_word(VERBS, row->cells[2]);
        *frame = (corpus_frame){.name = row->cells[0],
                                .form = row->cells[1],
                                .verbs = (corpus_verbs)verbs,
                                .lines_common = parse_lines(row->cells[3]),
                                .lines_irregular = parse_lines(row->cells[4]),
                                .lines_regular = parse_lines(row->cells[5]),
                                .right = row->cells[6],
                                .row = row};
        if (verbs < 0 || frame->lines_common < 0 || frame->lines_irregular < 0 ||
            frame->lines_regular < 0) {
            return corpus_table_refuse(table, row, "unknown verbs or number of lines", frame->name,
                                       reterr);
        }
    }
    grammar->frame_count = table->row_count;
    return BASE_OK;
}

static base_status load_unless(corpus_error *error, const corpus_table *table, corpus_row *row,
                               base_error *reterr)
{
    char *pairs[CORPUS_UNLESS_MAX];
    if (is_none(row->cells[3])) {
        return BASE_OK;
    }
    error->unless_count = corpus_cell_split(row->cells[3], ',', pairs, CORPUS_UNLESS_MAX);
    for (int i = 0; i < error->unless_count; i++) {
        char *sides[2];
        const int count = corpus_cell_split(pairs[i], '=', sides, 2);
        const int a = count == 2 ? find_word(FORMS, sides[0]) : -1;
        const int b = count == 2 ? find_word(FORMS, sides[1]) : -1;
        if (a < 0 || b < 0) {
            return corpus_table_refuse(table, row, "not form=form", pairs[i], reterr);
        }
        error->unless[i].a = (corpus_form)a;
        error->unless[i].b = (corpus_form)b;
    }
    return error->unless_count >= 0
               ? BASE_OK
               : corpus_table_refuse(table, row, "too many conditions", row->cells[3], reterr);
}

static bool rule_is_known(const corpus_grammar *grammar, const char *rule)
{
    for (int i = 0; i < grammar->table_rules.row_count; i++) {
        if (strcmp(grammar->table_rules.rows[i].cells[0], rule) == 0) {
            return true;
        }
    }
    return false;
}

static base_status load_error(corpus_grammar *grammar, corpus_row *row, base_error *reterr)
{
    const corpus_table *table = &grammar->table_errors;
    corpus_frame *frame = NULL;
    for (int i = 0; i < grammar->frame_count; i++) {
        frame = strcmp(grammar->frames[i].name, row->cells[0]) == 0 ? &grammar->frames[i] : frame;
    }
    if (frame == NULL) {
        return corpus_table_refuse(table, row, "no such frame", row->cells[0], reterr);
    }
    if (!rule_is_known(grammar, row->cells[1])) {
        return corpus_table_refuse(table, row, "no such rule", row->cells[1], reterr);
    }
    if (frame->error_count == CORPUS_ERRORS_MAX) {
        return corpus_table_refuse(table, row, "too many errors for the frame", frame->name,
                                   reterr);
    }
    corpus_error *error = &frame->errors[frame->error_count++];
    *error = (corpus_error){.row = row, .rule = row->cells[1], .wrong = row->cells[2]};
    return load_unless(error, table, row, reterr);
}

static base_status load_errors(corpus_grammar *grammar, base_error *reterr)
{
    for (int i = 0; i < grammar->table_errors.row_count; i++) {
        const base_status status = load_error(grammar, &grammar->table_errors.rows[i], reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    for (int i = 0; i < grammar->frame_count; i++) {
        if (grammar->frames[i].error_count == 0) {
            return corpus_table_refuse(&grammar->table_frames, grammar->frames[i].row,
                                       "errors.tsv has no row for the frame",
                                       grammar->frames[i].name, reterr);
        }
    }
    return BASE_OK;
}

static base_status read_tables(corpus_grammar *grammar, const char *directory, base_error *reterr)
{
    const struct {
        corpus_table *table;
        const char *name;
        int columns;
    } files[] = {
        {&grammar->table_verbs, "verbs.tsv", 11},
        {&grammar->table_predicates, "predicates.tsv", 1},
        {&grammar->table_subjects, "subjects.tsv", 2},
        {&grammar->table_agreement, "agreement.tsv", 7},
        {&grammar->table_words, "words.tsv", 3},
        {&grammar->table_rules, "rules.tsv", 2},
        {&grammar->table_frames, "frames.tsv", 7},
        {&grammar->table_errors, "errors.tsv", 4},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == BASE_OK; i++) {
        status =
            corpus_table_read(files[i].table, directory, files[i].name, files[i].columns, reterr);
    }
    return status;
}

base_status corpus_grammar_load(corpus_grammar *grammar, const char *directory, base_error *reterr)
{
    static base_status (*const steps[])(corpus_grammar *, base_error *) = {
        load_verbs, load_subjects, load_frames, load_errors};
    memset(grammar, 0, sizeof *grammar);
    base_status status = read_tables(grammar, directory, reterr);
    if (status == BASE_OK) {
        const int verbs = grammar->table_verbs.row_count + grammar->table_predicates.row_count;
        grammar->verbs = calloc((size_t)verbs, sizeof *grammar->verbs);
        grammar->subjects =
            calloc((size_t)grammar->table_subjects.row_count, sizeof *grammar->subjects);
        grammar->frames = calloc((size_t)grammar->table_frames.row_count, sizeof *grammar->frames);
        if (grammar->verbs == NULL || grammar->subjects == NULL || grammar->frames == NULL) {
            status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the grammar");
        }
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == BASE_OK; i++) {
        status = steps[i](grammar, reterr);
    }
    if (status == BASE_OK) {
        status = check_words(grammar, reterr);
    }
    if (status != BASE_OK) {
        corpus_grammar_fini(grammar);
    }
    return status;
}

void corpus_grammar_fini(corpus_grammar *grammar)
{
    corpus_table_fini(&grammar->table_verbs);
    corpus_table_fini(&grammar->table_predicates);
    corpus_table_fini(&grammar->table_subjects);
    corpus_table_fini(&grammar->table_agreement);
    corpus_table_fini(&grammar->table_words);
    corpus_table_fini(&grammar->table_rules);
    corpus_table_fini(&grammar->table_frames);
    corpus_table_fini(&grammar->table_errors);
    free(grammar->verbs);
    free(grammar->subjects);
    free(grammar->frames);
    memset(grammar, 0, sizeof *grammar);
}

bool corpus_frame_takes(const corpus_frame *frame, const corpus_verb *verb)
{
    switch (frame->verbs) {
    case CORPUS_ALL:
        return verb->kind != CORPUS_BE;
    case CORPUS_ACTIVE:
        return verb->kind != CORPUS_BE && strcmp(verb->often, "state") != 0;
    case CORPUS_PASSIVE:
        return verb->patient != NULL;
    case CORPUS_ONLY_BE:
        return verb->kind == CORPUS_BE;
    }
    return false;
}

int corpus_frame_lines(const corpus_frame *frame, const corpus_verb *verb)
{
    if (verb->common) {
        return frame->lines_common;
    }
    return verb->kind == CORPUS_IRREGULAR ? frame->lines_irregular : frame->lines_regular;
}

bool corpus_is_form(const corpus_grammar *grammar, const char *text)
{
    for (int i = 0; i < grammar->verb_count; i++) {
        for (int form = 0; form < CORPUS_FORMS; form++) {
            if (strcmp(grammar->verbs[i].forms[form], text) == 0) {
                return true;
            }
        }
    }
    return false;
}
