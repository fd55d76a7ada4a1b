/* budget/policy.h: defaults and limits of accounts, and policies that are refused. */
#include "budget/policy.h"

#include <stdio.h>
#include <string.h>

#include "budget/money.h"
#include "support.h"

static const char text[] =
    "{\"version\": 1, \"hook\": [\"/bin/tell\", \"me\"],"
    " \"token_seconds\": 60, \"vendors\": {\"runpod\": {\"granularity_seconds\": 60}},"
    " \"accounts\": {"
    "  \"*\": {\"defaults\": {\"vendor\": \"runpod\", \"tier\": \"spot\", \"max_attempts\": 3,"
    "                          \"max_price\": \"2.50\", \"max_hours\": \"1.5\"},"
    "          \"limits\": {\"max_hours\": \"24\", \"vendors\": [\"runpod\", \"local\"]}},"
    "  \"phase\": {\"limits\": {\"max_price\": \"3\", \"tiers\": [\"spot\"]}},"
    "  \"phase/lab\": {\"defaults\": {\"max_price\": \"2\"}}}}";

static budget_policy *parse(const char *words)
{
    base_error error = {0};
    budget_policy *policy = NULL;
    assert_ok(budget_policy_parse(words, strlen(words), &policy, &error), &error);
    return policy;
}

static budget_policy *parsed(void)
{
    return parse(text);
}

static budget_claims claim(const char *account)
{
    budget_claims claims = {.world_size = 2, .max_usd_micro = 10000000};
    (void)snprintf(claims.account, sizeof claims.account, "%s", account);
    return claims;
}

static void the_nearest_default_is_taken(void **state)
{
    (void)state;
    budget_policy *policy = parsed();
    budget_claims claims = claim("phase/lab/deep");
    budget_policy_fill(policy, &claims);
    assert_string_equal(claims.vendor, "runpod");
    assert_string_equal(claims.tier, "spot");
    assert_int_equal(claims.max_price_usd_micro_per_hour, 2000000);
    assert_int_equal(claims.max_seconds, 5400);
    assert_int_equal(claims.max_attempts, 3);
    assert_int_equal(claims.instances, 1);
    claims = claim("elsewhere");
    (void)snprintf(claims.tier, sizeof claims.tier, "secure");
    budget_policy_fill(policy, &claims);
    assert_int_equal(claims.max_price_usd_micro_per_hour, 2500000);
    assert_string_equal(claims.tier, "secure");
    assert_string_equal(budget_policy_hook(policy)[1], "me");
    assert_null(budget_policy_hook(policy)[2]);
    assert_int_equal(budget_policy_token_seconds(policy), 60);
    assert_false(claims.price_derived);
    assert_int_equal(budget_policy_reminder_seconds(policy), BUDGET_POLICY_REMINDER_S);
    assert_int_equal(budget_policy_granularity_seconds(policy, "runpod"), 60);
    assert_int_equal(budget_policy_granularity_seconds(policy, "vast"),
                     BUDGET_POLICY_GRANULARITY_S);
    budget_policy_destroy(policy);
}

static budget_reason checked(const budget_policy *policy, budget_claims claims, const char *says)
{
    char words[BUDGET_POLICY_MESSAGE_BYTES];
    budget_policy_fill(policy, &claims);
    const budget_reason reason = budget_policy_check(policy, &claims, words);
    if (strstr(words, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", words, says);
    }
    return reason;
}

static void the_strictest_limit_holds(void **state)
{
    (void)state;
    budget_policy *policy = parsed();
    budget_claims claims = claim("phase/lab");
    assert_int_equal(checked(policy, claims, ""), BUDGET_REASON_NONE);
    claims.max_price_usd_micro_per_hour = 3000001;
    assert_int_equal(checked(policy, claims, "policy of phase allows a price per hour up to $3.00"),
                     BUDGET_REASON_POLICY);
    claims = claim("phase/lab");
    claims.max_seconds = 86401;
    assert_int_equal(checked(policy, claims, "policy of * allows a time up to 24 h, asked "),
                     BUDGET_REASON_POLICY);
    claims = claim("phase/lab");
    (void)snprintf(claims.tier, sizeof claims.tier, "secure");
    assert_int_equal(checked(policy, claims, "the tier \"secure\", but spot"),
                     BUDGET_REASON_POLICY);
    claims = claim("phase/lab");
    (void)snprintf(claims.vendor, sizeof claims.vendor, "vast");
    assert_int_equal(checked(policy, claims, "the vendor \"vast\", but runpod, local"),
                     BUDGET_REASON_POLICY);
    budget_policy_destroy(policy);
}

/* As many as one line has room for. */
static void a_refusal_names_what_is_allowed(void **state)
{
    (void)state;
    enum { NAMES = 32, LETTERS = 9 };
    char words[1024] = "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"vendors\": [";
    char message[BUDGET_POLICY_MESSAGE_BYTES];
    for (int i = 0; i < NAMES; i++) {
        const size_t used = strlen(words);
        (void)snprintf(words + used, sizeof words - used, "%s\"%0*d\"", i > 0 ? "," : "", LETTERS,
                       i);
    }
    (void)strncat(words, "]}}}}", sizeof words - strlen(words) - 1);
    budget_policy *policy = parse(words);
    const budget_claims claims = claim("phase");
    assert_int_equal(budget_policy_check(policy, &claims, message), BUDGET_REASON_POLICY);
    const size_t length = strlen(message);
    assert_non_null(strstr(message, "but 000000000, 000000001, "));
    assert_string_equal(message + length - strlen(" and more"), " and more");
    assert_true(length + strlen(", 000000000") >= sizeof message); /* another one has no room */
    budget_policy_destroy(policy);
}

/* Every number that a policy may limit: as much as the limit is fine,
 * one more is refused by name. */
static void every_number_has_its_limit(void **state)
{
    (void)state;
    budget_policy *policy = parse(
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"instances\": 2, \"world_size\": 8,"
        " \"max_attempts\": 3, \"max_price\": \"1\", \"max_hours\": \"1\", \"max_usd\": "
        "\"50\"}}}}");
    const budget_claims good = {
        .account = "phase",
        .vendor = "runpod",
        .world_size = 8,
        .instances = 2,
        .gpus = 4,
        .max_attempts = 3,
        .max_seconds = 3600,
        .max_price_usd_micro_per_hour = 1000000,
        .max_usd_micro = 50000000,
    };
    const struct {
        size_t offset_bytes;
        const char *says;
    } numbers[] = {
        {offsetof(budget_claims, instances), "instances"},
        {offsetof(budget_claims, world_size), "a world size"},
        {offsetof(budget_claims, max_attempts), "attempts up to 3"},
        {offsetof(budget_claims, max_seconds), "a time"},
        {offsetof(budget_claims, max_price_usd_micro_per_hour), "a price per hour"},
        {offsetof(budget_claims, max_usd_micro), "an amount"},
    };
    assert_int_equal(checked(policy, good, ""), BUDGET_REASON_NONE);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        budget_claims claims = good;
        int64_t number = 0;
        memcpy(&number, (const char *)&claims + numbers[i].offset_bytes, sizeof number);
        number++;
        memcpy((char *)&claims + numbers[i].offset_bytes, &number, sizeof number);
        assert_int_equal(checked(policy, claims, numbers[i].says), BUDGET_REASON_POLICY);
    }
    budget_policy_destroy(policy);
}

static void an_amount_covers_what_it_may_cost(void **state)
{
    (void)state;
    budget_policy *policy = parsed();
    budget_claims claims = claim("phase/lab"); /* 2 USD/h, 5400 + 60 s: 3.033334 */
    claims.max_usd_micro = 3033334;
    assert_int_equal(checked(policy, claims, ""), BUDGET_REASON_NONE);
    claims.max_usd_micro = 3033333;
    assert_int_equal(checked(policy, claims, "3.033334"), BUDGET_REASON_UNDERFUNDED);
    claims.instances = 2;
    claims.max_usd_micro = 6066666;
    assert_int_equal(checked(policy, claims, "6.066667"), BUDGET_REASON_UNDERFUNDED);
    claims.max_usd_micro = INT64_C(1000000000);
    claims.instances = 64;
    assert_int_equal(checked(policy, claims, ""), BUDGET_REASON_NONE);
    claims.instances = 65;
    assert_int_equal(checked(policy, claims, "65 instances are more than 64"), BUDGET_REASON_LIMIT);
    claims = claim("phase/lab");
    (void)snprintf(claims.vendor, sizeof claims.vendor, "local");
    assert_int_equal(checked(policy, claims, "costs nothing"), BUDGET_REASON_POLICY);
    claims.max_usd_micro = 0;
    assert_int_equal(checked(policy, claims, ""), BUDGET_REASON_NONE);
    budget_policy_destroy(policy);
}

static void a_misspelt_policy_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"version\": 2}",
        "{\"version\": 1, \"version\": 1}",
        "{\"version\": 1, \"spent\": \"x\"}",
        "{\"version\": 1, \"hook\": [\"\"]}",
        "{\"version\": 1, \"hook\": [\"/a\\u0000b\"]}",
        "{\"version\": 1, \"hook\": [\"tell\"]}",
        "{\"version\": 1, \"hook\": []}",
        "{\"version\": 1, \"token_seconds\": 0}",
        "{\"version\": 1, \"token_seconds\": 1.5}",
        "{\"version\": 1, \"accounts\": {\"a b\": {}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limit\": {}}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"max_prize\": \"1\"}}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"max_price\": 2.5}}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"max_price\": \"-1\"}}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"max_hours\": \"0\"}}}}",
        "{\"version\": 1, \"accounts\": {\"*\": {\"limits\": {\"vendors\": []}}}}",
        "{\"version\": 1, \"vendors\": {\"runpod\": {\"granularity\": 60}}}",
        "{\"version\": 1} x",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        budget_policy *policy = NULL;
        assert_status(budget_policy_parse(texts[i], strlen(texts[i]), &policy, NULL),
                      BASE_ERR_INVALID);
        assert_null(policy);
    }
}

static void the_first_policy_is_good(void **state)
{
    (void)state;
    base_error error = {0};
    budget_policy *policy = NULL;
    const char *initial = budget_policy_initial();
    assert_ok(budget_policy_parse(initial, strlen(initial), &policy, &error), &error);
    char words[BUDGET_POLICY_MESSAGE_BYTES];
    budget_claims free_of_charge = claim("any");
    free_of_charge.max_usd_micro = 0;
    budget_policy_fill(policy, &free_of_charge);
    assert_string_equal(free_of_charge.vendor, "local");
    /* any amount at all is granted with nothing else said, and its price follows from it */
    static const int64_t amounts[] = {1, 7199, 10000, 1000000, BUDGET_MONEY_MICRO_MAX};
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        budget_claims claims = claim("any");
        claims.max_usd_micro = amounts[i];
        budget_policy_fill(policy, &claims);
        assert_string_equal(claims.vendor, "cloud");
        assert_int_equal(claims.max_seconds, BUDGET_POLICY_SECONDS);
        assert_int_equal(budget_policy_check(policy, &claims, words), BUDGET_REASON_NONE);
        claims.max_price_usd_micro_per_hour += 1;
        assert_int_equal(budget_policy_check(policy, &claims, words), BUDGET_REASON_UNDERFUNDED);
    }
    assert_null(budget_policy_hook(policy));
    budget_policy_destroy(policy);
}

static void no_account_and_no_hours_are_the_policys(void **state)
{
    (void)state;
    static const char said[] = "{\"version\": 1, \"account\": \"phase\", \"accounts\": {"
                               "\"phase\": {\"limits\": {\"max_hours\": \"8\"}}}}";
    base_error error = {0};
    budget_policy *policy = parse(said);
    budget_claims claims = claim("phase");
    assert_string_equal(budget_policy_account(policy), "phase");
    claims.max_usd_micro = 0;
    budget_policy_fill(policy, &claims);
    assert_string_equal(claims.vendor, "local");
    assert_int_equal(claims.max_seconds, 8 * 3600); /* a day, but for the limit */
    claims = claim("elsewhere");
    claims.max_usd_micro = 0;
    budget_policy_fill(policy, &claims);
    assert_int_equal(claims.max_seconds, BUDGET_POLICY_LOCAL_SECONDS);
    budget_policy_destroy(policy);
    static const char odd[] = "{\"version\": 1, \"account\": \"a//b\"}";
    assert_int_equal(budget_policy_parse(odd, strlen(odd), &policy, &error), BASE_ERR_INVALID);
}

static void the_policy_says_when_a_vendor_has_settled(void **state)
{
    (void)state;
    base_error error = {0};
    budget_policy *policy =
        parse("{\"version\": 1, \"vendors\": {\"runpod\": {\"settling_hours\": \"1.5\"}}}");
    assert_int_equal(budget_policy_settling_seconds(policy, "runpod"), 5400);
    assert_int_equal(budget_policy_settling_seconds(policy, "vast"), BUDGET_POLICY_SETTLING_S);
    assert_int_equal(budget_policy_settling_seconds(NULL, "runpod"), 48 * 3600);
    budget_policy_destroy(policy);
    const char *const bad[] = {"0", "-1", "1e9", "8785"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char words[128];
        (void)snprintf(words, sizeof words,
                       "{\"version\": 1, \"vendors\": {\"x\": {\"settling_hours\": \"%s\"}}}",
                       bad[i]);
        assert_int_equal(budget_policy_parse(words, strlen(words), &policy, &error),
                         BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, "settling_hours must be hours in quotes"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_default_is_taken),
        cmocka_unit_test(the_strictest_limit_holds),
        cmocka_unit_test(a_refusal_names_what_is_allowed),
        cmocka_unit_test(every_number_has_its_limit),
        cmocka_unit_test(an_amount_covers_what_it_may_cost),
        cmocka_unit_test(a_misspelt_policy_is_refused),
        cmocka_unit_test(the_first_policy_is_good),
        cmocka_unit_test(no_account_and_no_hours_are_the_policys),
        cmocka_unit_test(the_policy_says_when_a_vendor_has_settled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
