/* Tests of name patterns, against the expected answers of Python's fnmatch for patterns without brackets. */
#include "base/pattern.h"

#include <check.h>
#include <string.h>

static const struct {
    const char *pattern, *name;
    bool fits;
} cases[] = {
    {"", "", true},
    {"", "a", false},
    {"a", "", false},
    {"weight", "weight", true},
    {"weight", "weights", false},
    {"weights", "weight", false},
    {"weight", "Weight", false},
    {"*", "", true},
    {"*", "fc.weight", true},
    {"**", "", true},
    {"?", "", false},
    {"?", "a", true},
    {"?", "ab", false},
    {"?*", "", false},
    {"*?", "a", true},
    {"*.weight", "fc.weight", true},
    {"*.weight", "fc.weight.bias", false},
    {"*.weight", ".weight", true},
    {"*.weight", "weight", false},
    {"fc*", "fc", true},
    {"fc*", "f", false},
    {"layer?.w*", "layer1.weight", true},
    {"layer?.w*", "layer12.weight", false},
    {"a*b*c", "abc", true},
    {"a*b*c", "aXbYbZc", true},
    {"a*b*c", "acb", false},
    /* The last star is tried again at a later character. */
    {"*ab", "aab", true},
    {"*ab", "aba", false},
    {"a*ab*b", "aabab", true},
    /* Brackets and backslashes are plain characters. */
    {"[ab]", "a", false},
    {"[ab]", "[ab]", true},
    {"\\*", "\\x", true},
    {"\\*", "*", false},
    /* ? is one byte of UTF-8. */
    {"?", "\xc3\xa9", false},
    {"??", "\xc3\xa9", true},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(pattern_fits)
{
    ck_assert_msg(xcvm_pattern_fits(cases[_i].pattern, cases[_i].name) == cases[_i].fits, "\"%s\" and \"%s\"",
                  cases[_i].pattern, cases[_i].name);
}
END_TEST

/* A pattern of many stars must not take exponential time: this one ends at once or not at all. */
START_TEST(many_stars)
{
    char pattern[2002], name[4001];
    for (size_t i = 0; i < 1000; i++)
        memcpy(pattern + 2 * i, "*a", 2);
    memcpy(pattern + 2000, "b", 2);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert(!xcvm_pattern_fits(pattern, name));
    name[sizeof name - 2] = 'b';
    ck_assert(xcvm_pattern_fits(pattern, name));
}
END_TEST

Suite *suite_base_pattern(void);
Suite *suite_base_pattern(void)
{
    Suite *suite = suite_create("base_pattern");
    TCase *test = tcase_create("pattern");
    tcase_add_loop_test(test, pattern_fits, 0, CASES);
    tcase_add_test(test, many_stars);
    suite_add_tcase(suite, test);
    return suite;
}
