/* What a driver answers, and what of it is believed: instances as JSON, and drivers that fail, hang on to a
 * pipe, answer too much, or are no programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "end.h"
#include "support.h"

static base_status read_text(const char *text, bool partial, rent_instance *instance,
                             base_error *error)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    const base_status status = rent_instance_read(object, partial, instance, error);
    json_decref(object);
    return status;
}

static void test_reads_an_instance(void **state)
{
    (void)state;
    rent_instance instance;
    assert_int_equal(
        read_text("{\"instance_id\":\"i-1\",\"name\":\"rf-00-1\",\"status\":\"running\","
                  "\"host\":\"10.0.0.1\",\"port\":2222,\"user\":\"root\","
                  "\"price_usd\":\"0.69\",\"other\":[1]}",
                  false, &instance, NULL),
        BASE_OK);
    assert_string_equal(instance.id, "i-1");
    assert_string_equal(instance.host, "10.0.0.1");
    assert_int_equal(instance.port, 2222);
    assert_int_equal(instance.state, RENT_RUNNING);
    assert_int_equal(instance.price_usd_micro, 690000);
    assert_int_equal(read_text("{\"instance_id\":\"7\"}", true, &instance, NULL), BASE_OK);
    assert_int_equal(instance.state, RENT_STARTING);
    assert_int_equal(instance.price_usd_micro, -1);
    json_t *object = rent_instance_json(&instance);
    rent_instance again;
    assert_int_equal(rent_instance_read(object, true, &again, NULL), BASE_OK);
    assert_string_equal(again.id, "7");
    json_decref(object);
}

static void test_refuses_what_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"[]", "is no object"},
        {"{}", "instance_id"},
        {"{\"instance_id\":7}", "instance_id"},
        {"{\"instance_id\":\"\"}", "instance_id"},
        {"{\"instance_id\":\"-rf\"}", "instance_id"},
        {"{\"instance_id\":\"a b\"}", "instance_id"},
        {"{\"instance_id\":\"a\\nb\"}", "instance_id"},
        {"{\"instance_id\":\"../x\"}", "instance_id"},
        {"{\"instance_id\":\"a\"}", "status"},
        {"{\"instance_id\":\"a\",\"status\":\"Running\"}", "status"},
        {"{\"instance_id\":\"a\",\"status\":\"starting\",\"name\":{}}", "name"},
        {"{\"instance_id\":\"a\",\"status\":\"running\"}", "host, port or user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"h\",\"port\":22}", "user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"-oProxyCommand=x\",\"port\":22,"
         "\"user\":\"u\"}",
         "host or user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"h\",\"port\":22,\"user\":\"a "
         "b\"}",
         "host or user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"h\",\"port\":70000,\"user\":"
         "\"u\"}",
         "port"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"h;x\",\"port\":22,\"user\":"
         "\"u\"}",
         "host or user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"$(x)\",\"port\":22,\"user\":"
         "\"u\"}",
         "host or user"},
        {"{\"instance_id\":\"a\",\"status\":\"running\",\"host\":\"h\",\"port\":22,\"user\":\"a'"
         "b\"}",
         "host or user"},
        {"{\"instance_id\":\"a\",\"status\":\"starting\",\"price_usd\":0.5}", "price_usd"},
        {"{\"instance_id\":\"a\",\"status\":\"starting\",\"price_usd\":\"1e3\"}", "price_usd"},
        {"{\"instance_id\":\"a\",\"status\":\"starting\",\"price_usd\":\"-1\"}", "price_usd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rent_instance instance;
        base_error error = {0};
        assert_int_equal(read_text(cases[i].text, false, &instance, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, cases[i].why));
    }
}

static void test_reads_an_account(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *account; /* NULL: it is none */
    } cases[] = {
        {"{\"vendor_account\":\"123456789012/us-east-1\"}", "123456789012/us-east-1"},
        {"{\"vendor_account\":\"A:B+c@d=\",\"email\":7}", "A:B+c@d="},
        {"{}", NULL},
        {"[]", NULL},
        {"{\"vendor_account\":7}", NULL},
        {"{\"vendor_account\":\"\"}", NULL},
        {"{\"vendor_account\":null}", NULL},
        {"{\"vendor_account\":\"a b\"}", NULL},
        {"{\"vendor_account\":\"a\\nb\"}", NULL},
        {"{\"vendor_account\":\"a\\\"b\"}", NULL},
        {"{\"vendor_account\":\"1234567890123456789012345678901234567890123456789012345678901234"
         "5\"}",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char account[BUDGET_VENDOR_ACCOUNT_BYTES] = "old";
        json_t *object = json_loads(cases[i].text, 0, NULL);
        assert_non_null(object);
        assert_int_equal(rent_account_read(object, account, NULL),
                         cases[i].account != NULL ? BASE_OK : BASE_ERR_INVALID);
        assert_string_equal(account, cases[i].account != NULL ? cases[i].account : "");
        json_decref(object);
    }
}

/* A rent orders nothing when an end elsewhere may take all for ended. */
static void test_orders_end(void **state)
{
    (void)state;
    assert_int_equal(rent_order_end_s(100, 1), 100 + RENT_CALL_S);
    assert_int_equal(rent_order_end_s(100, 64), 100 + 64 * RENT_CALL_S);
}

static base_status read_list(const char *text, rent_list *list, base_error *error)
{
    json_t *object = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(object);
    const base_status status = rent_list_read(object, "5f0c", list, error);
    json_decref(object);
    return status;
}

/* An odd instance of somebody else is no reason to know nothing of ours. */
static void test_somebody_elses_may_be_odd(void **state)
{
    (void)state;
    enum { LONG_BYTES = 600 };
    char name[LONG_BYTES + 1];
    char text[2 * LONG_BYTES];
    rent_list list;
    memset(name, 'x', sizeof name);
    memcpy(name + 254, "\u00e4", 2);
    name[LONG_BYTES] = '\0';
    (void)snprintf(
        text, sizeof text,
        "{\"instances\":[{\"instance_id\":\"a\",\"name\":\"%s\",\"status\":\"terminated\"},"
        "{\"instance_id\":\"b\",\"name\":\"other\",\"status\":\"new\"},"
        "{\"instance_id\":\"b\",\"name\":\"x\\u0000y\"},"
        "{\"instance_id\":\"b/c\",\"name\":\"other\"},{\"name\":\"other\"},"
        "{\"instance_id\":\"d\",\"name\":\"rf-5f0c-1\",\"status\":\"running\"}]}",
        name);
    assert_int_equal(read_list(text, &list, NULL), BASE_OK);
    assert_int_equal(list.count, 4);
    assert_string_equal(list.items[0].id, "a");
    assert_int_equal(strlen(list.items[0].name), 254); /* to a whole character */
    assert_int_equal(list.items[0].state, RENT_TERMINATED);
    assert_string_equal(list.items[1].id, "b");
    assert_int_equal(list.items[1].state, RENT_STARTING); /* it exists, for all that is known */
    assert_string_equal(list.items[2].name, "x");
    assert_string_equal(list.items[3].id, "d");
    rent_list_free(&list);
}

/* One that may be ours is: then nothing is known. */
static void test_one_that_may_be_ours_must_be_read(void **state)
{
    (void)state;
    enum { LONG_BYTES = 300 };
    char text[LONG_BYTES + 128];
    static const char *const items[] = {
        "{\"instance_id\":\"a/b\"}",
        "{\"instance_id\":\"a/b\",\"name\":\"\"}",
        "{\"instance_id\":\"a/b\",\"name\":null}",
        "{\"instance_id\":\"a/b\",\"name\":\"rf-5f0c-1\"}",
        "{\"instance_id\":\"a\",\"name\":\"rf-5f0c-1\",\"status\":\"new\"}",
        "{\"instance_id\":\"a\",\"name\":\"x\\u0000rf-5f0c-1\"}",
        "{\"instance_id\":\"a\",\"name\":\"\\u0000\"}",
        "{\"instance_id\":\"a\",\"name\":7}",
        "{\"instance_id\":\"a\",\"name\":[\"other\"]}",
        "7",
    };
    rent_list list;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"instances\":[%s]}", items[i]);
        assert_int_equal(read_list(text, &list, NULL), BASE_ERR_INVALID);
        assert_null(list.items);
    }
    (void)snprintf(text, sizeof text,
                   "{\"instances\":[{\"instance_id\":\"a\",\"name\":\"%*s5f0c\"}]}", LONG_BYTES,
                   "rf-");
    assert_int_equal(read_list(text, &list, NULL), BASE_ERR_INVALID);
}

/* A driver of the test: a shell script. */
static void write_driver(const char *script, rent_driver *driver)
{
    static char directory[64];
    base_error error = {0};
    if (directory[0] == '\0') {
        (void)snprintf(directory, sizeof directory, "/tmp/rent-driver-XXXXXX");
        assert_non_null(mkdtemp(directory));
    }
    char path[128];
    (void)snprintf(path, sizeof path, "%s/driver", directory);
    if (script == NULL) {
        (void)unlink(path);
        (void)rmdir(directory);
        return;
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\n%s\n", script) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(rent_driver_find("stub", path, driver, &error), BASE_OK);
}

static void test_a_driver_that_fails_says_why(void **state)
{
    (void)state;
    rent_driver driver;
    rent_list list;
    base_error error = {0};
    write_driver("echo first >&2; echo 'the key is wrong' >&2; echo '{\"instances\":[]}'; exit 1",
                 &driver);
    assert_int_equal(rent_driver_list(&driver, "5f0c", &list, &error), BASE_ERR_IO);
    assert_string_equal(error.message, "stub, list: the key is wrong");
    write_driver("kill -9 $$", &driver);
    assert_int_equal(rent_driver_delete(&driver, "i-1", &error), BASE_ERR_IO);
    assert_string_equal(error.message, "stub, delete: it gives no reason");
}

static void test_an_answer_that_is_none(void **state)
{
    (void)state;
    static const char *const scripts[] = {"echo",
                                          "echo '{\"instances\":[]} x'",
                                          "echo '{\"instances\":{}}'",
                                          "echo '[]'",
                                          "echo '{\"instances\":[],\"instances\":[]}'",
                                          "echo '{\"instances\":[{\"status\":\"running\"}]}'",
                                          "head -c 5000000 /dev/zero | tr '\\0' ' '"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        rent_driver driver;
        rent_list list;
        base_error error = {0};
        write_driver(scripts[i], &driver);
        assert_int_not_equal(rent_driver_list(&driver, "5f0c", &list, &error), BASE_OK);
        assert_null(list.items);
    }
}

static void test_an_order_is_refused_or_unclear(void **state)
{
    (void)state;
    static const budget_claims claims = {.label = "lab/run1",
                                         .instance_type = "small \"one\"",
                                         .gpus = 2,
                                         .max_price_usd_micro_per_hour = 690000};
    const rent_order order = {.name = "rf-00-1", .claims = &claims, .until_s = 1000};
    rent_driver driver;
    rent_instance made;
    base_error error = {0};
    write_driver("echo full >&2; exit 3", &driver);
    assert_int_equal(rent_driver_check(&driver, &order, &error), RENT_REFUSED);
    assert_int_equal(rent_driver_create(&driver, &order, &made, &error), RENT_REFUSED);
    assert_string_equal(error.message, "stub, create: full");
    write_driver("exit 1", &driver);
    assert_int_equal(rent_driver_create(&driver, &order, &made, &error), RENT_UNCLEAR);
    write_driver("echo '{\"id\":\"i-1\"}'", &driver); /* made, perhaps, but under which id? */
    assert_int_equal(rent_driver_create(&driver, &order, &made, &error), RENT_UNCLEAR);
    write_driver("jq -e '.name == \"rf-00-1\" and .label == \"lab/run1\" and .instance_type == "
                 "\"small \\\"one\\\"\" and .gpus == 2 "
                 "and .max_price_usd == \"0.69\" and .until == \"1970-01-01T00:16:40Z\" and "
                 "(has(\"image\") | not)' >&2 || exit 3; echo '{\"instance_id\":\"i-1\"}'",
                 &driver);
    assert_int_equal(rent_driver_create(&driver, &order, &made, &error), RENT_MADE);
    assert_string_equal(made.id, "i-1");
    assert_string_equal(made.name, "rf-00-1");
    write_driver("echo '{\"instance_id\":\"i-1\",\"name\":\"other\",\"status\":\"running\"}'",
                 &driver);
    assert_int_equal(rent_driver_create(&driver, &order, &made, &error), RENT_MADE);
    assert_int_equal(made.state, RENT_STARTING); /* describe says where it is */
    assert_false(made.shown);
}

static void test_the_vendors_first_word_counts(void **state)
{
    (void)state;
    rent_instance known = {.name = "rf-00-1"};
    rent_instance_show(&known, &(rent_instance){.name = ""}); /* a vendor without names */
    assert_string_equal(known.name, "rf-00-1");
    known.shown = false;
    rent_instance_show(&known, &(rent_instance){.name = "other"});
    assert_string_equal(known.name, "other");
    rent_instance_show(&known, &(rent_instance){.name = "renamed"});
    assert_string_equal(known.name, "other");
}

static void test_an_answer_about_another_instance(void **state)
{
    (void)state;
    rent_driver driver;
    rent_instance instance;
    base_error error = {0};
    write_driver("echo '{\"instance_id\":\"i-2\",\"status\":\"not-found\"}'", &driver);
    assert_int_equal(rent_driver_describe(&driver, "i-1", &instance, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "the answer is about i-2"));
    assert_int_equal(rent_driver_describe(&driver, "i-2", &instance, &error), BASE_OK);
    assert_int_equal(instance.state, RENT_NOT_FOUND);
}

static void test_finds_no_driver(void **state)
{
    (void)state;
    rent_driver driver;
    assert_int_equal(rent_driver_find("nobody", NULL, &driver, NULL), BASE_ERR_NOTFOUND);
    assert_int_equal(rent_driver_find("../../bin/sh", NULL, &driver, NULL), BASE_ERR_NOTFOUND);
    assert_int_equal(rent_driver_find("stub", "/etc/passwd", &driver, NULL), BASE_ERR_NOTFOUND);
    assert_int_equal(rent_driver_find("stub", "/tmp", &driver, NULL), BASE_ERR_NOTFOUND);
    write_driver(NULL, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_an_instance),
        cmocka_unit_test(test_refuses_what_is_none),
        cmocka_unit_test(test_reads_an_account),
        cmocka_unit_test(test_orders_end),
        cmocka_unit_test(test_somebody_elses_may_be_odd),
        cmocka_unit_test(test_one_that_may_be_ours_must_be_read),
        cmocka_unit_test(test_a_driver_that_fails_says_why),
        cmocka_unit_test(test_an_answer_that_is_none),
        cmocka_unit_test(test_an_order_is_refused_or_unclear),
        cmocka_unit_test(test_the_vendors_first_word_counts),
        cmocka_unit_test(test_an_answer_about_another_instance),
        cmocka_unit_test(test_finds_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
