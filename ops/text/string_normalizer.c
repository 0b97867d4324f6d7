/* StringNormalizer. */
#include "ops/util/kernel.h"
#include "base/utf8.h"

#include <locale.h>
#include <strings.h>
#include <wchar.h>
#include <wctype.h>

XCVM_SHAPE_RULE_OF(StringNormalizer)
{
    XCVM_CHECK(t->error,
               a->x->rank < 0 || a->x->rank == 1 || (a->x->rank == 2 && (a->x->dims[0] < 0 || a->x->dims[0] == 1)),
               SHAPE_MISMATCH, "x must be a list of strings, or one row of them");
    const int64_t dims[] = {a->x->rank == 2 ? 1 : XCVM_ANY_DIM, XCVM_ANY_DIM};
    xcvm_value_set_tensor(a->y, XCVM_STRING, a->x->rank, dims);
    return XCVM_OK;
}

static bool is_stopword(const xcvm_StringNormalizer_args *a, const char *text, size_t length, xcvm_poller *poller)
{
    for (size_t i = 0; i < a->stopwords.count; i++) {
        const xcvm_text *word = &a->stopwords.at[i];
        if (xcvm_poll_after(poller, word->length == length ? 1 + length : 1) != XCVM_OK)
            return true;
        if (word->length == length &&
            (a->is_case_sensitive ? memcmp(word->at, text, length) : strncasecmp(word->at, text, length)) == 0)
            return true;
    }
    return false;
}

static size_t encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(c | (0xf00U >> length & 0xffU));
    return length;
}

/* Writes `text` with its case changed, at most twice as long. Returns the length. */
static size_t change_case(const char *text, size_t length, int action, locale_t locale, char *out, xcvm_poller *poller)
{
    size_t written = 0;
    for (size_t i = 0; i < length && xcvm_poll_after(poller, 1) == XCVM_OK;) {
        uint32_t c;
        const size_t n = xcvm_utf8_decode((const unsigned char *)text + i, length - i, &c);
        const bool single = n == 1 && c >= 0x80;
        if (!single && action != XCVM_CASE_NONE)
            c = (uint32_t)(action == XCVM_CASE_LOWER ? towlower_l((wint_t)c, locale) : towupper_l((wint_t)c, locale));
        if (single || action == XCVM_CASE_NONE) {
            memcpy(out + written, text + i, n);
            written += n;
        } else {
            written += encode(c, out + written);
        }
        i += n;
    }
    return written;
}

XCVM_KERNEL(StringNormalizer)
{
    const size_t count = xcvm_element_count(a->x);
    size_t kept = 0, characters = 0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        size_t length;
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        const char *text = xcvm_string_at(a->x, i, &length);
        if (!is_stopword(a, text, length, &poller)) {
            kept++;
            characters += 2 * length;
        }
    }
    XCVM_TRY(xcvm_kernel_poll(k));
    /* If no string remains, the result is one empty string. */
    const int64_t dims[] = {a->x->rank == 2 ? 1 : (int64_t)(kept != 0 ? kept : 1), (int64_t)(kept != 0 ? kept : 1)};
    xcvm_string *spans;
    char *out;
    XCVM_TRY(xcvm_kernel_allocate_strings(k, a->y, a->x->rank, dims, characters, &spans, &out));
    if (kept == 0) {
        spans[0] = (xcvm_string){sizeof *spans, 0};
        return XCVM_OK;
    }
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (locale == (locale_t)0)
        locale = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    XCVM_CHECK(k->error, locale != (locale_t)0, OUT_OF_MEMORY, "no memory for the locale");
    size_t at = 0, n = 0;
    const uint64_t base = (uint64_t)(out - (char *)a->y->data);
    for (size_t i = 0; i < count && xcvm_poll_after(&poller, 1) == XCVM_OK; i++) {
        size_t length;
        const char *text = xcvm_string_at(a->x, i, &length);
        if (is_stopword(a, text, length, &poller))
            continue;
        const size_t written = change_case(text, length, a->case_change_action, locale, out + at, &poller);
        spans[n++] = (xcvm_string){base + at, written};
        at += written;
    }
    freelocale(locale);
    return xcvm_kernel_poll(k);
}
