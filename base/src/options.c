/* Reads command lines by tables of fields, with getopt_long. Called by the programs. */
#include "base/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "base/text.h"

enum {
    FIRST_LONG = 256, /* behind all letters */
    GROUPS_MAX = 16,
    LEFT_BYTES = 64,
    DEFAULT_BYTES = 64,
    SEVERAL_BYTES = 256,
    HELP_COLUMN = 27,
    LINE_COLUMNS = 100,
};

/* All options of all sets, in getopt's form. Option i is rows[i] of record records[i]. */
typedef struct option_list {
    struct option longs[BASE_OPTIONS_MAX + 1];
    char shorts[2 * BASE_OPTIONS_MAX + 2];
    const base_field *rows[BASE_OPTIONS_MAX];
    void *records[BASE_OPTIONS_MAX];
    int count;
} option_list;

static void list_options(const base_option_set *sets, int set_count, option_list *list)
{
    size_t letters = 0;
    list->shorts[letters++] = ':'; /* makes getopt report a missing value */
    for (int s = 0; s < set_count; s++) {
        for (int i = 0; i < sets[s].fields->count; i++) {
            const base_field *row = &sets[s].fields->rows[i];
            if (row->option == NULL) {
                continue;
            }
            BASE_ASSERT(list->count < BASE_OPTIONS_MAX);
            list->longs[list->count] = (struct option){
                .name = row->option,
                .has_arg = row->value != NULL ? required_argument : no_argument,
                .val = FIRST_LONG + list->count,
            };
            list->rows[list->count] = row;
            list->records[list->count++] = sets[s].record;
            if (row->letter != 0) {
                list->shorts[letters++] = row->letter;
            }
            if (row->letter != 0 && row->value != NULL) {
                list->shorts[letters++] = ':';
            }
        }
    }
}

/* Whether the user has written this, with "-" for "_" or not. */
static bool is_written(const char *key, const char *name, size_t bytes)
{
    if (strlen(key) != bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (key[i] != name[i] && (key[i] != '_' || name[i] != '-')) {
            return false;
        }
    }
    return true;
}

/* Whether the user has written the row's key for its option: --learning-rate for --lr. */
static bool is_key(const base_field *row, const char *name, size_t bytes)
{
    const char *dot = row->key != NULL ? strrchr(row->key, '.') : NULL;
    return row->key != NULL && is_written(dot != NULL ? dot + 1 : row->key, name, bytes);
}

/* The row of what other programs call an option; NULL: the user has written something else. */
static const base_other_name *find_other(const base_command_line *line, const char *name)
{
    for (int i = 0; i < line->other_count; i++) {
        if (is_written(line->others[i].name, name, strcspn(name, "="))) {
            return &line->others[i];
        }
    }
    return NULL;
}

/* `shown` is unknown, or the beginning of several flags. `name` is what the user may have meant as one. */
static base_status wrong_flag(const base_command_line *line, const option_list *list,
                              const char *shown, const char *name, base_error *reterr)
{
    const size_t bytes = strcspn(name, "=");
    base_nearest nearest = base_nearest_begin(name, bytes);
    char question[BASE_NEAREST_BYTES];
    char several[SEVERAL_BYTES] = "";
    for (int i = 0; i < list->count; i++) {
        const char *option = list->rows[i]->option;
        base_nearest_offer(&nearest, option);
        if (is_key(list->rows[i], name, bytes)) {
            nearest.name = option;
            nearest.edits = 0;
        }
        if (shown[1] == '-' && strncmp(option, name, bytes) == 0) {
            base_text_append(several, sizeof several, " --%s", option);
        }
    }
    const base_other_name *other = find_other(line, name);
    if (other != NULL && other->option == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown flag %s: %s", shown, other->instead);
    }
    nearest.name = other != NULL ? other->option : nearest.name;
    return several[0] != '\0' && other == NULL
               ? base_fail(reterr, BASE_ERR_INVALID, "%s may be one of:%s", shown, several)
               : base_fail(reterr, BASE_ERR_INVALID, "unknown flag %s%s", shown,
                           base_nearest_ask(&nearest, "--", question));
}

/* The error that getopt_long found in argv. */
static base_status wrong_option(const base_command_line *line, const option_list *list, int answer,
                                base_error *reterr)
{
    char **argv = line->argv;
    const char *word = argv[optind - 1];
    if (answer == ':') {
        return base_fail(reterr, BASE_ERR_INVALID, "%s needs a value", word);
    }
    if (optopt >= FIRST_LONG) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s takes no value", word);
    }
    if (optopt == 0) {
        return wrong_flag(line, list, word, word + 2, reterr);
    }
    /* a letter: getopt_long may be in the middle of "-ranks" */
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *next = argv[optind];
    word = next != NULL && next[0] == '-' && next[1] != '-' && strchr(next, optopt) != NULL ? next
                                                                                            : word;
    return wrong_flag(line, list, letter, word + 1, reterr);
}

/* What getopt_long has taken for this row, if it was another program's name of an option and only begins the row's; else
 * NULL. */
static const char *find_misread(const base_command_line *line, const base_field *row, int answer)
{
    if (answer < FIRST_LONG) {
        return NULL;
    }
    const bool apart = row->value != NULL && optarg == line->argv[optind - 1];
    const char *word = line->argv[optind - (apart ? 2 : 1)];
    const bool whole = strlen(row->option) == strcspn(word + 2, "=");
    return !whole && find_other(line, word + 2) != NULL ? word : NULL;
}

/* The index of the option that getopt_long's answer means. */
static int find_answer(const option_list *list, int answer)
{
    int index = answer - FIRST_LONG;
    for (int i = 0; i < list->count && index < 0; i++) {
        index = list->rows[i]->letter == answer ? i : index;
    }
    return index;
}

base_status base_options_parse(const base_command_line *line, int *rest, base_error *reterr)
{
    option_list list = {.count = 0};
    list_options(line->sets, line->set_count, &list);
    optind = 0; /* also forgets an earlier command line */
    opterr = 0;
    for (;;) {
        optopt = 0;
        const int answer = getopt_long(line->argc, line->argv, list.shorts, list.longs, NULL);
        if (answer == -1) {
            *rest = optind;
            return BASE_OK;
        }
        if (answer == '?' || answer == ':') {
            return wrong_option(line, &list, answer, reterr);
        }
        const int index = find_answer(&list, answer);
        const base_field *row = list.rows[index];
        const char *misread = find_misread(line, row, answer);
        if (misread != NULL) {
            return wrong_flag(line, &list, misread, misread + 2, reterr);
        }
        if (line->seen != NULL) {
            line->seen(line->user, row);
        }
        const base_status status =
            base_field_set(row, list.records[index], row->value != NULL ? optarg : NULL, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "--%s", row->option);
        }
    }
}

/* The default as a text. Empty if there is none worth showing, or if the help ends in a bracket. */
static void get_default(const base_option_set *set, const base_field *row, char *text,
                        size_t size_bytes)
{
    const size_t length = strlen(row->help);
    const bool written = length > 0 && row->help[length - 1] == ')';
    text[0] = '\0';
    if (set->defaults != NULL && row->value != NULL && !written &&
        !(row->optional && base_field_is_zero(row, set->defaults))) {
        base_field_format(row, set->defaults, text, size_bytes);
    }
}

/* Writes the words of `text` from column `at` on, and goes on below HELP_COLUMN where a line is full.
 * Returns the column behind them. */
static int put_words(const char *text, int at, FILE *stream)
{
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + length > LINE_COLUMNS) {
            (void)fprintf(stream, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        at += fprintf(stream, "%s%.*s", at > HELP_COLUMN ? " " : "", length, text);
        text += length + (text[length] == ' ' ? 1 : 0);
    }
    return at;
}

static void put_row(const base_option_set *set, const base_field *row, FILE *stream)
{
    char left[LEFT_BYTES];
    char value[DEFAULT_BYTES];
    const char letter[] = {'-', row->letter, ',', ' ', '\0'};
    get_default(set, row, value, sizeof value);
    (void)snprintf(left, sizeof left, "%s--%s%s%s", row->letter != 0 ? letter : "", row->option,
                   row->value != NULL ? " " : "", row->value != NULL ? row->value : "");
    if (row->help[0] == '\0' && value[0] == '\0') {
        (void)fprintf(stream, "  %s\n", left);
        return;
    }
    int at = fprintf(stream, "  %-24s ", left);
    at = put_words(row->help, at, stream);
    if (value[0] != '\0') {
        char shown[DEFAULT_BYTES + 2];
        (void)snprintf(shown, sizeof shown, "(%s)", value);
        (void)put_words(shown, at, stream);
    }
    (void)fprintf(stream, "\n");
}

/* Writes the rows of one group, or, with `stream` NULL, collects the groups. */
static int walk(const base_option_set *sets, int set_count, const char *wanted,
                const char *groups[GROUPS_MAX], FILE *stream)
{
    int count = 0;
    for (int s = 0; s < set_count; s++) {
        const char *group = NULL;
        for (int i = 0; i < sets[s].fields->count; i++) {
            const base_field *row = &sets[s].fields->rows[i];
            bool known = false;
            if (row->option == NULL) {
                continue;
            }
            group = row->group != NULL ? row->group : group;
            BASE_ASSERT(group != NULL);
            if (stream != NULL && strcmp(group, wanted) == 0) {
                put_row(&sets[s], row, stream);
            }
            for (int g = 0; g < count; g++) {
                known = known || strcmp(groups[g], group) == 0;
            }
            if (stream == NULL && !known) {
                BASE_ASSERT(count < GROUPS_MAX);
                groups[count++] = group;
            }
        }
    }
    return count;
}

void base_options_help(const base_option_set *sets, int set_count, FILE *stream)
{
    const char *groups[GROUPS_MAX] = {NULL};
    const int count = walk(sets, set_count, NULL, groups, NULL);
    for (int g = 0; g < count; g++) {
        (void)fprintf(stream, "\n%s:\n", groups[g]);
        (void)walk(sets, set_count, groups[g], groups, stream);
    }
}

void base_options_operand(const char *name, const char *choices, FILE *stream)
{
    (void)put_words(choices, fprintf(stream, "%-*s", HELP_COLUMN, name), stream);
    (void)fprintf(stream, "\n");
}

/* The row whose key begins at `at` and ends there as a word; NULL: none, or it has no option. */
static const base_field *key_at(const base_fields *fields, const char *at)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
    char key[LEFT_BYTES];
    size_t length = strspn(at, word);
    while (length > 0 && at[length - 1] == '.') { /* of the sentence */
        length--;
    }
    if (length == 0 || length >= sizeof key) {
        return NULL;
    }
    memcpy(key, at, length);
    key[length] = '\0';
    const base_field *row = base_fields_find(fields, key);
    return row != NULL && row->option != NULL ? row : NULL;
}

void base_options_name(const base_fields *fields, base_error *error)
{
    const base_error keys = *error;
    size_t used = 0;
    bool in_word = false;
    for (const char *at = keys.message; *at != '\0' && used + 1 < sizeof error->message;) {
        const base_field *row = in_word ? NULL : key_at(fields, at);
        in_word = *at != ' ' && *at != '(';
        if (row == NULL) {
            error->message[used++] = *at++;
            continue;
        }
        const int length =
            snprintf(error->message + used, sizeof error->message - used, "--%s", row->option);
        const size_t room = sizeof error->message - 1 - used;
        used += (size_t)length < room ? (size_t)length : room;
        at += strlen(row->key);
    }
    error->message[used] = '\0';
}
