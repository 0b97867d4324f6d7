/* RegexFullMatch with PCRE2, an optional dependency (XCVM_HAVE_PCRE2). */
#include "base/lazy_library.h"
#include "ops/util/kernel.h"
#include "ops/text/regex_syntax.h"

XCVM_SHAPE_RULE_OF(RegexFullMatch)
{
#ifndef XCVM_HAVE_PCRE2
    XCVM_CHECK(t->error, false, UNSUPPORTED,
               "this build does not support regular expressions: it was built without PCRE2");
#endif
    XCVM_TRY(xcvm_regex_check_syntax(a->pattern.at, a->pattern.length, t->error));
    xcvm_value_set_tensor(a->y, XCVM_BOOL, a->x->rank, a->x->dims);
    return XCVM_OK;
}

#ifdef XCVM_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define FUNCTIONS(X)                                                                                                   \
    X(pcre2_general_context_create_8)                                                                                  \
    X(pcre2_compile_context_create_8)                                                                                  \
    X(pcre2_set_newline_8)                                                                                             \
    X(pcre2_set_parens_nest_limit_8)                                                                                   \
    X(pcre2_compile_8)                                                                                                 \
    X(pcre2_get_error_message_8)                                                                                       \
    X(pcre2_pattern_info_8)                                                                                            \
    X(pcre2_match_data_create_8)                                                                                       \
    X(pcre2_get_ovector_pointer_8)                                                                                     \
    X(pcre2_match_context_create_8)                                                                                    \
    X(pcre2_dfa_match_8)
XCVM_LAZY_LIBRARY(pcre2, XCVM_PCRE2_FILE, FUNCTIONS)

enum {
    SMALLEST = 64 * 1024,        /* initial bytes of scratch */
    LARGEST = 256 * 1024 * 1024, /* maximum bytes of scratch */
    /* Maximum workspace of PCRE2 in ints, three per state in two lists. The time per character is quadratic in the
     * number of states. */
    MOST_WORDS = 2 * 3 * (3 << 10),
    SEGMENT_WORK = 1 << 24 /* states squared times characters between polls */
};

/* Memory pool of PCRE2: the kernel's scratch, allocated sequentially. */
typedef struct pool {
    char *at;
    size_t left;
    bool exhausted;
} pool;

static void *pool_allocate(size_t bytes, void *user)
{
    pool *p = user;
    const size_t rounded = bytes <= LARGEST ? xcvm_round_up(bytes, XCVM_ALIGNMENT) : SIZE_MAX;
    if (rounded > p->left) {
        p->exhausted = true;
        return NULL;
    }
    void *memory = p->at;
    p->at += rounded;
    p->left -= rounded;
    return memory;
}

static void deallocate(void *memory, void *user)
{
    (void)memory;
    (void)user;
}

typedef struct matcher {
    const xcvm_RegexFullMatch_args *a;
    xcvm_poller poller;
    pool pool;
    const pcre2_code *code;
    pcre2_match_data *result;
    pcre2_match_context *limits;
    size_t work;      /* maximum work per character: the square of the number of states */
    size_t segment;   /* characters between polls */
    uint32_t checked; /* options for valid UTF-8 */
    int *workspace;
    size_t words; /* of the workspace */
} matcher;

static xcvm_status compile(xcvm_kernel *k, matcher *m)
{
    int error = 0;
    PCRE2_SIZE where = 0;
    pcre2_general_context *memory = pcre2.pcre2_general_context_create_8(pool_allocate, deallocate, &m->pool);
    pcre2_compile_context *context = memory != NULL ? pcre2.pcre2_compile_context_create_8(memory) : NULL;
    if (context == NULL)
        return XCVM_OUT_OF_MEMORY;
    pcre2.pcre2_set_newline_8(context, PCRE2_NEWLINE_LF);
    pcre2.pcre2_set_parens_nest_limit_8(context, 200);
    /* Not anchored at the end, which PCRE2 refuses for partial matching; the length of the longest match is checked
     * instead. */
    const uint32_t options = PCRE2_ANCHORED | PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
    m->code =
        pcre2.pcre2_compile_8((PCRE2_SPTR)m->a->pattern.at, m->a->pattern.length, options, &error, &where, context);
    if (m->code == NULL && m->pool.exhausted)
        return XCVM_OUT_OF_MEMORY;
    if (m->code == NULL) {
        char text[160] = "";
        pcre2.pcre2_get_error_message_8(error, (PCRE2_UCHAR *)text, sizeof text);
        return xcvm_error_set(k->error, XCVM_INVALID_ARGUMENT, "the pattern is broken at %zu: %s", (size_t)where, text);
    }
    size_t size;
    pcre2.pcre2_pattern_info_8(m->code, PCRE2_INFO_SIZE, &size);
    const size_t states = xcvm_min(size, MOST_WORDS / 6) + 1;
    m->work = states * states;
    m->segment = m->work < SEGMENT_WORK ? SEGMENT_WORK / m->work : 1;
    m->result = pcre2.pcre2_match_data_create_8(1, memory);
    m->limits = pcre2.pcre2_match_context_create_8(memory);
    return m->result != NULL && m->limits != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* Sets PCRE2_NO_UTF_CHECK if all strings of x are ASCII, else nothing. */
static xcvm_status check_characters(xcvm_poller *poller, const xcvm_value *x, uint32_t *checked)
{
    enum { PORTION = 64 * 1024 };
    const unsigned char *bytes = x->data;
    unsigned char all = 0;
    for (size_t at = xcvm_element_count(x) * sizeof(xcvm_string), end; at < x->bytes; at = end) {
        end = x->bytes - at < PORTION ? x->bytes : at + PORTION;
        for (size_t i = at; i < end; i++)
            all |= bytes[i];
        XCVM_TRY(xcvm_poll_after(poller, PORTION / XCVM_STEP_BYTES));
    }
    *checked = all < 0x80 ? PCRE2_NO_UTF_CHECK : 0;
    return XCVM_OK;
}

/* End of the segment from `from`: `segment` bytes later, adjusted to a character boundary. */
static size_t segment_end(const char *text, size_t length, size_t from, size_t segment)
{
    enum { LONGEST = 4 }; /* bytes of a character */
    size_t end = length - from > segment ? from + segment : length;
    for (int i = 1; i < LONGEST && end < length && ((unsigned char)text[end] & 0xc0) == 0x80; i++)
        end++;
    return end;
}

/* Uses the DFA algorithm, which follows all alternatives in parallel, like RE2, and so does not take exponential time.
 * It is quadratic in the number of states, which the workspace bounds. */
static xcvm_status match(xcvm_kernel *k, matcher *m, const char *text, size_t length, bool *matches)
{
    enum { STEP = 64 }; /* work of one step */
    const pool before = m->pool;
    size_t from = 0, to;
    int found;
    /* A text is matched in segments; the workspace keeps the states. */
    do {
        to = segment_end(text, length, from, m->segment);
        const uint32_t options = (from > 0 ? PCRE2_DFA_RESTART : 0) | (to < length ? PCRE2_PARTIAL_HARD : 0);
        m->pool = before;
        found = pcre2.pcre2_dfa_match_8(m->code, (PCRE2_SPTR)text, to, from, options | m->checked, m->result, m->limits,
                                        m->workspace, m->words);
        XCVM_TRY(xcvm_poll_after(&m->poller, 1 + (to - from) * m->work / STEP));
        from = to;
    } while (found == PCRE2_ERROR_PARTIAL && to < length);
    /* If no state remains, the rest does not match. */
    if (found >= 0 && pcre2.pcre2_get_ovector_pointer_8(m->result)[1] != length)
        found = PCRE2_ERROR_NOMATCH;
    XCVM_CHECK(k->error, found != PCRE2_ERROR_DFA_WSSIZE || m->words < MOST_WORDS, OUT_OF_RANGE,
               "the pattern is at more than %d places at once in a string of %zu bytes", MOST_WORDS / 6, length);
    if (found == PCRE2_ERROR_DFA_WSSIZE || (found == PCRE2_ERROR_NOMEMORY && m->pool.exhausted))
        return XCVM_OUT_OF_MEMORY;
    /* Invalid UTF-8 never matches. */
    const bool broken = found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21;
    XCVM_CHECK(k->error, found >= 0 || found == PCRE2_ERROR_NOMATCH || broken, UNSUPPORTED,
               "the pattern cannot be matched: PCRE2 gives error %d", found);
    *matches = found >= 0;
    m->pool = before;
    return XCVM_OK;
}

/* Fails with OUT_OF_MEMORY without a message if `bytes` of scratch are too few. */
static xcvm_status attempt(xcvm_kernel *k, const xcvm_RegexFullMatch_args *a, char *scratch, size_t bytes)
{
    const size_t half = bytes / 2, count = xcvm_element_count(a->x);
    matcher m = {.a = a,
                 .poller = xcvm_poller_of(k),
                 .pool = {scratch + half, half, false},
                 .workspace = (int *)(void *)scratch,
                 .words = xcvm_min(half / sizeof(int), MOST_WORDS)};
    XCVM_TRY(compile(k, &m));
    XCVM_TRY(check_characters(&m.poller, a->x, &m.checked));
    bool *y = a->y->data;
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *text = xcvm_string_at(a->x, i, &length);
        XCVM_TRY(match(k, &m, text, length, &y[i]));
    }
    return xcvm_kernel_poll(k);
}

XCVM_KERNEL(RegexFullMatch)
{
    XCVM_TRY(load_pcre2(k->error));
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 4) {
        char *scratch = xcvm_kernel_scratch(k, bytes);
        if (scratch == NULL)
            return k->error->status;
        const xcvm_status status = attempt(k, a, scratch, bytes);
        if (status != XCVM_OUT_OF_MEMORY)
            return status;
    }
    return xcvm_error_set(k->error, XCVM_OUT_OF_MEMORY, "the pattern needs more than %d MB of memory",
                          LARGEST / 1024 / 1024);
}

#else

XCVM_KERNEL(RegexFullMatch)
{
    (void)a;
    return xcvm_error_set(k->error, XCVM_UNSUPPORTED,
                          "this build does not support regular expressions: it was built without PCRE2");
}

#endif
