/* The tables: a small grammar gives exactly the right sentences, and mistakes are refused with file
 * and line. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "dress.h"
#include "generate.h"
#include "grammar.h"
#include "support.h"

typedef struct table_text {
    const char *name;
    const char *text;
} table_text;

#define GO "go\tgoes\twent\tgone\tgoing\tirregular\t-\tdaily\thome\t-\t-\n"

/* One verb, one subject, one object: only the choice of right lines is left to chance, so nine
 * lines are asked for. The verb is held out of one frame of each form. */

static const table_text SMALL[] = {
    {"verbs.tsv", "# a comment\n\n" GO},
    {"predicates.tsv", "be happy\n"},
    {"subjects.tsv", "he\the\n"},
    {"agreement.tsv", "don't\tdon't\tdoesn't\tdon't\tdoesn't\tdon't\tdoesn't\n"},
    {"words.tsv", "when\tdaily\tyesterday\n"},
    {"rules.tsv", "none\tright\nover\tno -ed\nbase\tbase form\n"},
    {"frames.tsv", "past\tpast\tall\t9\t9\t9\t{subject} {past} {object}\n"
                   "past-time\tpast\tall\t9\t9\t9\t{subject} {past} {object} {when}\n"
                   "negation\tbase\tall\t9\t9\t9\t{subject} {don't} {base} {object}\n"
                   "question\tbase\tall\t9\t9\t9\tdid {subject} {base} {object}?\n"},
    {"errors.tsv", "past\tover\t{subject} {over} {object}\t-\n"
                   "past-time\tover\t{subject} {over} {object} {when}\t-\n"
                   "negation\tbase\t{subject} {don't!~} {base} {object}\tpast=participle\n"
                   "question\tbase\tdid {subject} {past} {object}?\tpast=base\n"},
};

enum { TABLES = sizeof SMALL / sizeof *SMALL };

/* Writes the small grammar, with one table replaced. */
static void write_tables(const char *name, const char *text)
{
    base_error error;
    for (int i = 0; i < TABLES; i++) {
        const char *content =
            name != NULL && strcmp(name, SMALL[i].name) == 0 ? text : SMALL[i].text;
        assert_ok(
            base_file_write(test_shared_path(SMALL[i].name), content, strlen(content), &error),
            &error);
    }
}

static void a_small_grammar_gives_its_sentences(void **state)
{
    (void)state;
    static const char *const expected[][3] = {
        {"past", "he goed home", "he went home"},
        {"past-time", "he goed home yesterday", "he went home yesterday"},
        {"negation", "he dont go home", "he doesn't go home"},
        {"question", "did he went home?", "did he go home?"},
    };
    base_error error;
    corpus_grammar grammar;
    corpus_lines lines;
    int held_out = 0;
    write_tables(NULL, NULL);
    assert_ok(corpus_grammar_load(&grammar, test_shared_directory.path, &error), &error);
    assert_ok(corpus_generate(&grammar, &lines, &error), &error);
    assert_true(lines.count >= 4);
    for (size_t i = 0; i < lines.count; i++) {
        const corpus_line *line = &lines.lines[i];
        const bool dressed = line->right[0] >= 'A' && line->right[0] <= 'Z';
        for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
            if (!dressed && strcmp(line->frame, expected[e][0]) == 0) {
                assert_string_equal(line->right, expected[e][2]);
                if (strcmp(line->rule, "none") != 0) {
                    assert_string_equal(line->wrong, expected[e][1]);
                }
            }
        }
        held_out += line->held_out;
    }
    assert_int_equal(held_out, 2);
    corpus_lines_fini(&lines);
    corpus_grammar_fini(&grammar);
}

/* Every sentence that the seeds make of a pattern is one of the two, and both occur. */
static void assert_either(const corpus_grammar *grammar, const char *pattern, const char *one,
                          const char *other)
{
    enum { SEEDS = 64 };
    corpus_fill fill = {
        .grammar = grammar, .verb = &grammar->verbs[0], .subject = &grammar->subjects[0]};
    int ones = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char sentence[CORPUS_SENTENCE_BYTES];
        fill.seed = corpus_mix(seed);
        assert_int_equal(corpus_pattern_fill(&fill, pattern, sentence), CORPUS_FILLED);
        const bool is_one = strcmp(sentence, one) == 0;
        ones += is_one;
        if (!is_one) {
            assert_string_equal(sentence, other);
        }
    }
    assert_in_range(ones, 1, SEEDS - 1);
}

static void empty_placeholders_leave_no_space(void **state)
{
    (void)state;
    base_error error;
    corpus_grammar grammar;
    write_tables("verbs.tsv", "go\tgoes\twent\tgone\tgoing\tirregular\tyes\tdaily\t-|home\t-\t-\n");
    assert_ok(corpus_grammar_load(&grammar, test_shared_directory.path, &error), &error);
    assert_either(&grammar, "{subject} {past} {object}", "he went", "he went home");
    assert_either(&grammar, "{subject} {past} {object} {when}", "he went yesterday",
                  "he went home yesterday");
    assert_either(&grammar, "did {subject} {base} {object}?", "did he go?", "did he go home?");
    assert_either(&grammar, "did {subject} {base} {when?}?", "did he go?", "did he go yesterday?");
    assert_either(&grammar, "{when?} {subject} {past}", "he went", "yesterday he went");
    corpus_grammar_fini(&grammar);
}

static void common_verbs_get_lines_of_their_own(void **state)
{
    (void)state;
    const corpus_frame frame = {.lines_common = 9, .lines_irregular = 4, .lines_regular = 2};
    const struct {
        corpus_verb verb;
        int lines;
    } cases[] = {
        {{.kind = CORPUS_IRREGULAR, .common = true}, 9},
        {{.kind = CORPUS_REGULAR, .common = true}, 9},
        {{.kind = CORPUS_IRREGULAR}, 4},
        {{.kind = CORPUS_REGULAR}, 2},
        {{.kind = CORPUS_BE}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(corpus_frame_lines(&frame, &cases[i].verb), cases[i].lines);
    }
}

static void dressed_sentences_have_capitals_and_a_full_stop(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"he goed to rome", "He goed to Rome."},
        {"yesterday i go to the romeo", "Yesterday I go to the romeo."},
        {"did i went to rome?", "Did I went to Rome?"},
        {"i", "I."},
    };
    base_error error;
    corpus_grammar grammar;
    write_tables("words.tsv", "when\tdaily\tyesterday\ncapital\tany\ti\ncapital\tany\trome\n");
    assert_ok(corpus_grammar_load(&grammar, test_shared_directory.path, &error), &error);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sentence[CORPUS_SENTENCE_BYTES];
        (void)snprintf(sentence, sizeof sentence, "%s", cases[i][0]);
        corpus_dress(&grammar, sentence);
        assert_string_equal(sentence, cases[i][1]);
    }
    char full[CORPUS_SENTENCE_BYTES];
    memset(full, 'a', sizeof full - 1);
    full[sizeof full - 1] = '\0';
    corpus_dress(&grammar, full);
    assert_int_equal(strlen(full), sizeof full - 1);
    corpus_grammar_fini(&grammar);
}

static void refuse(const char *name, const char *text, const char *reason)
{
    base_error error = {.status = BASE_OK};
    corpus_grammar grammar;
    corpus_lines lines;
    write_tables(name, text);
    base_status status = corpus_grammar_load(&grammar, test_shared_directory.path, &error);
    if (status == BASE_OK) {
        status = corpus_generate(&grammar, &lines, &error);
        if (status == BASE_OK) {
            corpus_lines_fini(&lines);
        }
        corpus_grammar_fini(&grammar);
    }
    if (status != BASE_ERR_INVALID || strstr(error.message, reason) == NULL) {
        fail_msg("%s: \"%s\", expected \"%s\"", text, error.message, reason);
    }
}

static void malformed_rows_are_refused_with_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        const char *reason;
    } cases[] = {
        {"verbs.tsv", "", "verbs.tsv has no rows"},
        {"verbs.tsv", "# x\ngo\tgoes\n", "verbs.tsv:2: 2 columns, there must be 11"},
        {"verbs.tsv", GO "\n# x\n" GO, "verbs.tsv:4: the verb is in the table already: go"},
        {"verbs.tsv", "go\tgoes\twent\tgone\tgoing\todd\t-\tdaily\thome\t-\t-\n",
         "verbs.tsv:1: unknown kind"},
        {"verbs.tsv", "go\tgoes\twent\tgone\tgoing\tirregular\t-\thourly\thome\t-\t-\n",
         "verbs.tsv:1: unknown kind or often"},
        {"verbs.tsv", "go\tgoes\tdid go\tgone\tgoing\tirregular\t-\tdaily\thome\t-\t-\n",
         "verbs.tsv:1: a form is one word"},
        {"verbs.tsv", "go\tgoes\twent\tgone\tgoing\tirregular\t-\tdaily\thome||to\t-\t-\n",
         "verbs.tsv:1: too many or empty objects"},
        {"verbs.tsv", "go\tgoes\twent\tgone\tgoing\tirregular\toften\tdaily\thome\t-\t-\n",
         "verbs.tsv:1: common is yes or -: often"},
        {"verbs.tsv", "Go\tgoes\twent\tgone\tgoing\tirregular\t-\tdaily\thome\t-\t-\n",
         "verbs.tsv:1: not lower-case words"},
        {"verbs.tsv", "go\tgoes\twent\t\tgoing\tirregular\t-\tdaily\thome\t-\t-\n",
         "verbs.tsv:1: not lower-case words"},
        {"verbs.tsv", "go\tgoes\twent\tgone\tgoing\tirregular\t-\tdaily\t\"home\"\t-\t-\n",
         "verbs.tsv:1: not lower-case words"},
        {"predicates.tsv", "happy\n", "predicates.tsv:1: does not begin with be"},
        {"subjects.tsv", "he\the\nit\tit\n", "subjects.tsv:2: unknown person: it"},
        {"subjects.tsv", "he\the\textra\n", "subjects.tsv:1: too many columns"},
        {"words.tsv", "when\tseldom\tyesterday\n", "words.tsv:1: unknown often"},
        {"frames.tsv", "past\tpast\tsome\t1\t1\t1\t{past}\n", "frames.tsv:1: unknown verbs"},
        {"frames.tsv", "past\tpast\tall\t0\t1\t1\t{past}\n",
         "frames.tsv:1: unknown verbs or number"},
        {"frames.tsv", "past\tpast\tall\tx\t1\t1\t{past}\n",
         "frames.tsv:1: unknown verbs or number"},
        {"frames.tsv", "past\tpast\tall\t1\t1\t1\t{past}\n",
         "errors.tsv:2: no such frame: past-time"},
        {"errors.tsv", "past\tover\t{over}\t-\n", "frames.tsv:2: errors.tsv has no row"},
        {"errors.tsv", "past\tunder\t{over}\t-\n", "errors.tsv:1: no such rule: under"},
        {"errors.tsv", "past\tover\t{over}\tpast\n", "errors.tsv:1: not form=form"},
        {"errors.tsv", "past\tover\t{over}\tpast=perfect\n", "errors.tsv:1: not form=form"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse(cases[i].name, cases[i].text, cases[i].reason);
    }
}

#define THREE_TIMES(text) text " " text " " text
#define LONG_PATTERN      THREE_TIMES(THREE_TIMES("{when} {when}"))
#define OTHER_ERRORS                                                                               \
    "past-time\tover\t{subject} {over} {object} {when}\t-\n"                                       \
    "negation\tbase\t{subject} {don't!~} {base} {object}\t-\n"                                     \
    "question\tbase\tdid {subject} {past} {object}?\tpast=base\n"

static void patterns_that_mislead_are_refused(void **state)
{
    (void)state;
    refuse("errors.tsv", "past\tover\t{subject} {nothing} {object}\t-\n" OTHER_ERRORS,
           "errors.tsv:1: unknown placeholder");
    refuse("errors.tsv", "past\tover\t{subject {over}\t-\n" OTHER_ERRORS,
           "errors.tsv:1: unknown placeholder");
    refuse("errors.tsv", "past\tover\t{when!} {over}\t-\n" OTHER_ERRORS,
           "errors.tsv:1: unknown placeholder");
    refuse("errors.tsv", "past\tover\t" LONG_PATTERN "\t-\n" OTHER_ERRORS, "errors.tsv:1:");
    /* The wrong sentence of two frames, with a correction in each. */
    refuse("errors.tsv", "past\tover\t{subject} {over} {object} {when}\t-\n" OTHER_ERRORS,
           "has two corrections");
    /* A sentence that is right in the next frame. */
    refuse("errors.tsv", "past\tover\t{subject} {past} {object} {when}\t-\n" OTHER_ERRORS,
           "is right in past-time and wrong in past");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(a_small_grammar_gives_its_sentences),
        TEST_IN_DIRECTORY(empty_placeholders_leave_no_space),
        cmocka_unit_test(common_verbs_get_lines_of_their_own),
        TEST_IN_DIRECTORY(dressed_sentences_have_capitals_and_a_full_stop),
        TEST_IN_DIRECTORY(malformed_rows_are_refused_with_file_and_line),
        TEST_IN_DIRECTORY(patterns_that_mislead_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
