/* Tests of UTF-8: every character is encoded and decoded, and invalid bytes are detected. */
#include "base/utf8.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

START_TEST(every_character)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[4];
        uint32_t read = 0, first = 0;
        const size_t length = xcvm_utf8_encode(text, c);
        bool good = xcvm_utf8_encode(NULL, c) == length &&
                    xcvm_utf8_decode((const unsigned char *)text, length, &read) == length && read == c;
        /* A truncated character is read as its first byte. */
        if (length > 1)
            good = good && xcvm_utf8_decode((const unsigned char *)text, length - 1, &first) == 1 &&
                   first == (unsigned char)text[0];
        /* A successful ck_assert is a system call, so only failures call it. */
        if (!good)
            ck_abort_msg("U+%04x: %zu bytes, read as U+%04x", (unsigned)c, length, (unsigned)read);
    }
}
END_TEST

/* Overlong forms of a space, code points beyond Unicode, and invalid leading or continuation bytes. */
START_TEST(broken_bytes)
{
    static const char *const texts[] = {"\xc0\xa0",         "\xe0\x80\xa0",     "\xf0\x80\x80\xa0", "\xf8\x80\x80\xa0",
                                        "\xf4\x90\x80\x80", "\xff\xbf\xbf\xbf", "\x80\x80",         "\xe2\x82z"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t read = 0;
        ck_assert_msg(xcvm_utf8_decode((const unsigned char *)texts[i], strlen(texts[i]), &read) == 1, "%zu", i);
        ck_assert_uint_eq(read, (unsigned char)texts[i][0]);
    }
}
END_TEST

Suite *suite_base_utf8(void);
Suite *suite_base_utf8(void)
{
    Suite *suite = suite_create("base_utf8");
    TCase *test = tcase_create("utf8");
    tcase_add_test(test, every_character);
    tcase_add_test(test, broken_bytes);
    suite_add_tcase(suite, test);
    return suite;
}
