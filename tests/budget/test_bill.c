/* budget/bill.h: the vendors' bills are read, and what is no bill is refused. */
#include "budget/bill.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { CHARGES = 8 };

/* By its name; NULL: the bill's own text says which. */
static const budget_bill_format *format_of(const char *name, const char *text)
{
    const budget_bill_format *format = NULL;
    if (name == NULL) {
        format = budget_bill_format_guess(text, strlen(text), NULL);
        assert_non_null(format);
    } else {
        assert_int_equal(budget_bill_format_parse(name, &format, NULL), BASE_OK);
    }
    return format;
}

static size_t read_all(const char *text, const char *format, budget_charge found[CHARGES])
{
    base_error error = {0};
    budget_charge *charges = NULL;
    size_t count = 0;
    assert_ok(
        budget_bill_parse(text, strlen(text), format_of(format, text), &charges, &count, &error),
        &error);
    assert_true(count <= CHARGES);
    memcpy(found, charges, count * sizeof *charges);
    free(charges);
    return count;
}

static void runpod_bills_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"amount\": 0.1, \"podId\": \"abc\", \"time\": \"2026-11-20T00:00:00Z\","
        "  \"timeBilledMs\": 3600000, \"gpuTypeId\": \"NVIDIA A100\"},"
        " {\"amount\": 1.2e-5, \"podId\": \"abc\", \"time\": \"2026-11-21T00:00:00Z\"},"
        " {\"amount\": 0.29, \"podId\": \"de\\\"f\", \"name\": \"lab02-run1\", \"id\": \"7\", "
        "\"time\": null}]";
    budget_charge found[CHARGES];
    assert_int_equal(read_all(text, NULL, found), 3);
    assert_int_equal(found[0].usd_micro, 100000);
    assert_string_equal(found[0].instance_id, "abc");
    assert_int_equal(found[0].at_s, 1795132800);
    assert_int_equal(found[1].usd_micro, 12);
    assert_int_equal(found[2].usd_micro, 290000);
    assert_string_equal(found[2].label, "lab02-run1");
    assert_memory_equal(found[2].instance_id, "long-", 5);
    assert_string_not_equal(found[0].line_id, found[1].line_id);
    static const char marked[] = "\xef\xbb\xbf[{\"podId\": \"a\", \"amount\": 1, \"id\": \"1\"}]";
    assert_int_equal(read_all(marked, NULL, found), 1); /* with a byte order mark */
    static const char named[] =
        "{\"currency\": \"usd\", \"data\": [{\"podId\": \"a\", \"amount\": 1, \"id\": \"1\","
        " \"currency\": null}, {\"podId\": \"b\", \"amount\": 2, \"id\": \"2\","
        " \"currency\": \"USD\"}]}";
    assert_int_equal(read_all(named, NULL, found), 2);
}

/* An hour of a pod is the same line, whichever of RunPod's interfaces has said it. */
static void runpod_says_an_hour_in_three_ways(void **state)
{
    static const char *const ways[] = {
        "[{\"amount\": 0.69, \"podId\": \"abc\", \"time\": \"2026-11-20T00:00:00.000Z\","
        " \"timeBilledMs\": 3600000, \"diskSpaceBilledGB\": 40, \"gpuTypeId\": \"NVIDIA A40\"}]",
        "{\"records\": [{\"podId\": \"abc\", \"podName\": \"rf-1\", \"startTime\": "
        "\"2026-11-20T00:00:00Z\","
        " \"endTime\": \"2026-11-20T01:00:00Z\", \"gpuAmount\": 0.68, \"diskAmount\": 0.01,"
        " \"totalAmount\": 0.69}], \"metadata\": {\"totals\": {\"totalAmount\": 0.69}}}",
        "{\"records\": [{\"podId\": \"abc\", \"time\": \"2026-11-20T01:00:00+01:00\", \"amount\": "
        "0.69}]}",
        "{\"records\": [{\"podId\": \"abc\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": "
        "0.69}]}",
    };
    static const char twice[] =
        "[{\"podId\": \"abc\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": 0.69},"
        " {\"podId\": \"abc\", \"startTime\": \"2026-11-20T00:00:00Z\", \"totalAmount\": 0.69}]";
    static const char unlike[] = /* of another kind, and of pods whose type alone is said */
        "[{\"gpuTypeId\": \"NVIDIA A40\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": 1},"
        " {\"gpuTypeId\": \"NVIDIA L4\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": 1},"
        " {\"podId\": \"abc\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": 1},"
        " {\"podId\": \"abc\", \"time\": \"2026-11-20T01:00:00Z\", \"amount\": 1},"
        " {\"podId\": \"abd\", \"time\": \"2026-11-20T00:00:00Z\", \"amount\": 1}]";
    budget_charge found[CHARGES];
    base_error error = {0};
    budget_charge *charges = NULL;
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_int_equal(read_all(ways[i], NULL, found), 1);
        assert_int_equal(found[0].usd_micro, 690000);
        /* that of the driver's bills, which ledgers have */
        assert_string_equal(found[0].line_id, "abc@1795132800~76ee3fc8a5fdaba8");
    }
    assert_status(
        budget_bill_parse(twice, strlen(twice), format_of(NULL, twice), &charges, &count, &error),
        BASE_ERR_INVALID);
    assert_string_equal(
        error.message, "bill: two lines are about abc from 2026-11-20T00:00:00Z on, and its vendor "
                       "has one alone: take both from one source, with periods of one length");
    assert_int_equal(read_all(unlike, NULL, found), 5);
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(found[i].line_id, found[j].line_id);
        }
    }
}

/* A vendor's own format says whose bill it is; a line of the others may. */
static void a_bill_says_whose_it_is(void **state)
{
    static const struct {
        const char *text;
        const char *format;
        const char *vendor; /* of the format */
        const char *lines;  /* of the first line */
    } bills[] = {
        {"[{\"amount\": 0.1, \"podId\": \"abc\", \"id\": \"1\"}]", "runpod-json", "runpod", ""},
        {"[{\"id\": 1, \"amount\": 1, \"type\": \"charge\", \"instance_id\": 1}]", "vast-json",
         "vast", ""},
        {"usd,Vendor,line_id\n1,vast,a\n", "csv", NULL, "vast"},
        {"usd,line_id\n1,a\n", "csv", NULL, ""},
        {"BilledCost,BillingCurrency,x_Vendor,x_LineId\n1,USD,lambda,1\n", "focus-csv", NULL,
         "lambda"},
        {"BilledCost,BillingCurrency,x_LineId\n1,USD,1\n", "focus-csv", NULL, ""},
    };
    base_error error;
    budget_charge found[CHARGES];
    (void)state;
    for (size_t i = 0; i < sizeof bills / sizeof bills[0]; i++) {
        const budget_bill_format *format =
            budget_bill_format_guess(bills[i].text, strlen(bills[i].text), NULL);
        const char *vendor = budget_bill_format_vendor(format);
        const budget_bill_format *named = NULL;
        assert_ok(budget_bill_format_parse(bills[i].format, &named, &error), &error);
        assert_ptr_equal(format, named);
        assert_string_equal(vendor != NULL ? vendor : "none",
                            bills[i].vendor != NULL ? bills[i].vendor : "none");
        assert_int_equal(read_all(bills[i].text, NULL, found), 1);
        assert_string_equal(found[0].vendor, bills[i].lines);
    }
    assert_int_equal(read_all("usd,vendor,line_id,label\n1,vast,1,a\n1,runpod,1,b\n", "csv", found),
                     2);
}

/* A bill without lines, or whose lines say nothing, is not taken for anybody's. */
static void a_format_is_not_made_up(void **state)
{
    static const struct {
        const char *text;
        const char *vendor;
        const char *format; /* NULL: none */
    } bills[] = {
        {"[]", NULL, NULL},
        {"[]", "cloud", NULL},
        {"[]", "runpod", "runpod-json"},
        {"{\"results\": []}", "vast", "vast-json"},
        {"[{\"gpuTypeId\": \"NVIDIA A40\", \"amount\": 1}]", NULL, NULL},
        {"[{\"gpuTypeId\": \"NVIDIA A40\", \"amount\": 1}]", "runpod", "runpod-json"},
        {"[{\"podId\": \"a\", \"amount\": 1}]", "cloud", "runpod-json"},
        {"{\"results\": [{\"source\": \"instance-7\", \"amount\": 1}]}", NULL, "vast-json"},
        {"usd,label\n", NULL, "csv"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bills / sizeof bills[0]; i++) {
        const budget_bill_format *format =
            budget_bill_format_guess(bills[i].text, strlen(bills[i].text), bills[i].vendor);
        const char *name = format != NULL ? budget_bill_format_name(format) : NULL;
        if ((name == NULL) != (bills[i].format == NULL) ||
            (name != NULL && strcmp(name, bills[i].format) != 0)) {
            fail_msg("%s is taken for %s", bills[i].text, name != NULL ? name : "nothing");
        }
    }
}

static void vast_bills_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"type\": \"charge\", \"description\": \"Instance 123 GPU charge\","
        "  \"timestamp\": 1633036800.25, \"quantity\": \"10.000\", \"rate\": \"0.1000\","
        "  \"amount\": \"1.000\", \"instance_id\": 123},"
        " {\"type\": \"payment\", \"amount\": \"-20\", \"timestamp\": 1633036801},"
        " {\"type\": \"refund\", \"amount\": \"-7\", \"instance_id\": 123},"
        " {\"type\": \"charge\", \"description\": \"Instance 123 storage charge\","
        "  \"timestamp\": 1633036800, \"amount\": 0.0000014, \"instance_id\": 123}]";
    static const char newer[] =
        "{\"results\": [{\"type\": \"instance\", \"source\": \"instance-77\","
        " \"amount\": 2.5, \"start\": 1633036800,"
        " \"metadata\": {\"label\": \"run9\"}}], \"total\": 1}";
    budget_charge found[CHARGES];
    assert_int_equal(read_all(text, NULL, found), 2);
    assert_int_equal(found[0].usd_micro, 1000000);
    assert_string_equal(found[0].instance_id, "123");
    assert_int_equal(found[0].at_s, 1633036800);
    assert_int_equal(found[1].usd_micro, 1);
    assert_int_equal(read_all(newer, "vast-json", found), 1);
    assert_string_equal(found[0].instance_id, "77");
    assert_string_equal(found[0].label, "run9");
}

static void focus_bills_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf"
        "BilledCost,BillingCurrency,ChargeDescription,ChargePeriodStart,ResourceId,Tags\r\n"
        "35.2E-7,USD,\"GPU, \"\"spot\"\"\",2026-11-20T00:00:00Z,i-1,"
        "\"{\"\"ringfence-label\"\": \"\"run1\"\"}\"\r\n"
        "-1.50,USD,credit,2026-11-20T01:00:00Z,i-1,{}\r\n"
        "\r\n"
        "2,USD,\"two\nlines\",2026-11-20T02:00:00Z,i-2,";
    budget_charge found[CHARGES];
    assert_int_equal(read_all(text, NULL, found), 3);
    assert_int_equal(found[0].usd_micro, 4);
    assert_string_equal(found[0].label, "run1");
    assert_int_equal(found[1].usd_micro, -1500000);
    assert_string_equal(found[1].label, "");
    assert_string_equal(found[2].instance_id, "i-2");
    assert_int_equal(found[2].usd_micro, 2000000);
}

/* A later bill corrects a line by another one of the same time and description. That is no change of the
 * first line, and whatever corrects nothing keeps the id by which a ledger has it. */
static void a_correction_is_another_line(void **state)
{
    (void)state;
    static const char first[] =
        "BilledCost,BillingCurrency,ResourceId,ChargePeriodStart,ChargePeriodEnd\n"
        "5,USD,i-1,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z\n";
    static const char later[] =
        "BilledCost,BillingCurrency,ResourceId,ChargePeriodStart,ChargePeriodEnd,ChargeClass\n"
        "2,USD,i-1,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z,Correction\n"
        "-1,USD,i-1,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z,Correction\n"
        "5,USD,i-1,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z,\n";
    budget_charge a[CHARGES];
    budget_charge b[CHARGES];
    assert_int_equal(read_all(first, NULL, a), 1);
    assert_int_equal(read_all(later, NULL, b), 3);
    assert_string_equal(a[0].line_id, "i-1@1795132800~bf919d51467a8966");
    assert_string_not_equal(b[0].line_id, a[0].line_id);
    assert_string_not_equal(b[1].line_id, b[0].line_id);
    assert_string_equal(b[2].line_id, a[0].line_id);
}

static void plain_csv_is_read(void **state)
{
    (void)state;
    static const char text[] = "label,USD,line_id,time\n"
                               "run1,0.10,L-1,2026-11-20\n"
                               "run2,3,L-2,1795132800\n";
    budget_charge found[CHARGES];
    assert_int_equal(read_all(text, NULL, found), 2);
    assert_string_equal(found[0].line_id, "L-1");
    assert_int_equal(found[0].at_s, 1795132800);
    assert_int_equal(found[1].at_s, 1795132800);
    assert_int_equal(found[1].usd_micro, 3000000);
}

/* The same line on the next bill has the same id, and equal lines of one bill have their own. */
static void lines_without_an_id_get_one(void **state)
{
    (void)state;
    static const char first[] = "label,usd,time\nrun1,1,2026-11-20\nrun1,1,2026-11-20\n";
    static const char second[] = "label,usd,time\nrun2,1,2026-11-20\nrun1,1.01,2026-11-20\n"
                                 "run1,1,2026-11-20\nrun1,1,2026-11-20\n";
    budget_charge a[CHARGES];
    budget_charge b[CHARGES];
    assert_int_equal(read_all(first, "csv", a), 2);
    assert_int_equal(read_all(second, "csv", b), 4);
    assert_string_not_equal(a[0].line_id, a[1].line_id);
    assert_string_equal(a[0].line_id, b[1].line_id);
    assert_string_equal(a[1].line_id, b[2].line_id);
    assert_string_not_equal(b[2].line_id, b[3].line_id);
}

static void what_is_no_bill_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        const char *text;
    } cases[] = {
        {"csv", "label,cost\nrun1,1\n"},
        {"csv", "label,usd\nrun1\n"},
        {"csv", "label,usd,start\nrun1,1,2026-01-01T00:00:00Z\n"},
        {"csv", "label,usd\nrun1,\n"},
        {"csv", "label,usd\nrun1,1,2\n"},
        {"csv", "label,usd\nrun1,NaN\n"},
        {"csv", "label,usd\n\"run1,1\n"},
        {"csv", "label,usd\n\"run\"1,1\n"},
        {"csv", "label,usd,usd\nrun1,1,1\n"},
        {"csv", "label,usd,currency\nrun1,1,EUR\n"},
        {"csv", "label,usd,time\nrun1,1,yesterday\n"},
        {"csv", "label,usd,time\nrun1,1,31.12.2027\n"},
        {"csv", "label,usd,time\nrun1,1,1795132800.5.1\n"},
        {"csv", "label,usd,time\nrun1,1,1795132800.\n"},
        {"csv", "label,usd,time\nrun1,1,20271231\n"},
        {"csv", "label,usd,time\nrun1,1,31.12\n"},
        {"csv", "label,usd,line_id\nrun1,1,a\nrun2,1,a\n"},
        {"csv", "label,usd,line_id\nrun1,1,o~1\nrun2,1,o~1\n"},
        {"focus-csv", "BilledCost,ResourceId\n1,a\n"},
        {"focus-csv", "BilledCost,BillingCurrency\n1,EUR\n"},
        {"runpod-json", "{}"},
        {"runpod-json", "[{\"podId\": \"a\"}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": null}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 01}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1.}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1, \"amount\": 2}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1]"},
        {"runpod-json", "[{\"podId\": \"a"},
        {"runpod-json", "[1]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1, \"currency\": \"EUR\"}]"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1, \"currency\": {\"code\": \"EUR\"}}]"},
        {"vast-json", "{\"currency\": \"EUR\", \"results\": [{\"amount\": 1}]}"},
        {"vast-json",
         "{\"currency\": \"EUR\", \"results\": [{\"amount\": 1, \"currency\": null}]}"},
        {"vast-json", "[{\"type\": \"charge\", \"amount\": 1, \"currency\": \"EUR\"}]"},
        {"vast-json", "[{\"type\": \"surprise\", \"amount\": 1}]"},
        {"csv", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        budget_charge *charges = NULL;
        size_t count = 0;
        const base_status status =
            budget_bill_parse(cases[i].text, strlen(cases[i].text),
                              format_of(cases[i].format, cases[i].text), &charges, &count, NULL);
        if (status != BASE_ERR_INVALID) {
            fail_msg("\"%s\" is taken for a bill", cases[i].text);
        }
    }
    base_error error;
    const budget_bill_format *format = NULL;
    assert_status(budget_bill_format_parse("pdf", &format, &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "no such format of a bill: pdf (there are runpod-json, "
                                       "vast-json, focus-csv and csv)");
    budget_charge *charges = NULL;
    size_t count = 0;
    assert_status(budget_bill_parse("label,usd\nr\0n,1\n", 16, format_of("csv", NULL), &charges,
                                    &count, NULL),
                  BASE_ERR_INVALID);
}

/* A record may have several lines of the file, and empty lines are none. */
static void an_error_names_the_line_of_the_file(void **state)
{
    static const struct {
        const char *format;
        const char *text;
        const char *message;
    } cases[] = {
        {"csv", "\xef\xbb\xbfusd,surprise\n",
         "bill, line 1: this format has no column \"surprise\""},
        {"csv", "\n\nlabel\n", "bill, line 3: the header lacks the column usd"},
        {"csv", "usd\nno\n", "bill, line 2: cost: "},
        {"csv", "usd,label,time\n1,a,\n", "bill, line 2: it has neither an id nor a time, "},
        {"vast-json", "[{\"instance_id\": 1, \"amount\": 1}]",
         "bill, entry 1: it has neither an id nor a time, "},
        {"csv", "line_id;label;usd\n1;a;0,20\n", "bill, line 1: commas must stand between"},
        {"csv", "usd\tlabel\n1\ta\n", "bill, line 1: commas must stand between"},
        {"csv", "usd,line_id\n1,a\n\n\nno,b\n", "bill, line 5: cost: "},
        {"csv", "usd,line_id\r\n1,a\r\n\r\nno,b\r\n", "bill, line 4: cost: "},
        {"csv", "usd,line_id\r1,a\rno,b\r", "bill, line 3: cost: "},
        {"csv", "usd,\"line_id\"\n1,\"a\n\r\nb\"\n1\n", "bill, line 5: it has 1 columns"},
        {"csv", "\"usd\",\"la\nbel\"\n1,a\n", "bill, line 1: this format has no column"},
        {"csv", "usd,line_id\n1,a\n1,\"b\n\n", "bill, line 3: a quoted field does not end as one"},
        {"focus-csv",
         "BilledCost,BillingCurrency,\"a\nb\",x_LineId\n1,USD,\"\"\"\n\",1\n1,EUR,c,2\n",
         "bill, line 5: the currency EUR is not USD"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1, \"id\": \"1\"}, 2]",
         "bill, entry 2: not an object"},
        {"csv", "usd,time\n1,2026-11-29T02:00:00Z\n1,2026-11-29 02:00:00\n",
         "bill, line 3: the time 2026-11-29 02:00:00 is none: it must be as 2026-01-02T03:04:05Z, "
         "with "
         "Z or another offset from UTC"},
        {"runpod-json", "[{\"podId\": \"a\", \"amount\": 1, \"time\": \"2026-11-29 02:00:00\"}]",
         "bill, entry 1: the time 2026-11-29 02:00:00 is none: it must be as "},
        {"vast-json", "[{\"type\": \"surprise\", \"amount\": 1}]",
         "bill, entry 1: a line of the type surprise is not known"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        budget_charge *charges = NULL;
        size_t count = 0;
        assert_status(budget_bill_parse(cases[i].text, strlen(cases[i].text),
                                        format_of(cases[i].format, cases[i].text), &charges, &count,
                                        &error),
                      BASE_ERR_INVALID);
        if (strncmp(error.message, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("\"%s\" is refused with: %s", cases[i].text, error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bill_says_whose_it_is),
        cmocka_unit_test(a_format_is_not_made_up),
        cmocka_unit_test(runpod_bills_are_read),
        cmocka_unit_test(runpod_says_an_hour_in_three_ways),
        cmocka_unit_test(vast_bills_are_read),
        cmocka_unit_test(focus_bills_are_read),
        cmocka_unit_test(a_correction_is_another_line),
        cmocka_unit_test(plain_csv_is_read),
        cmocka_unit_test(lines_without_an_id_get_one),
        cmocka_unit_test(what_is_no_bill_is_refused),
        cmocka_unit_test(an_error_names_the_line_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
