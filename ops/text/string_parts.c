/* StringConcat and StringSplit. */
#include "ops/util/broadcast.h"
#include "ops/util/kernel.h"
#include "base/utf8.h"

/* ---- StringConcat ---- */

typedef struct joining {
    const xcvm_kernel *k;
    xcvm_poller poller;
    const xcvm_value *a, *b;
    size_t steps[2]; /* within a row */
    size_t characters;
    bool overflow;
    xcvm_string *spans; /* NULL: characters are only counted */
    char *to;
    const char *ends[3]; /* of a, b and the result */
    uint64_t at;         /* offset of `to` in the tensor's data */
} joining;

static void join_row(void *context, size_t at, const size_t *offsets, size_t count)
{
    joining *j = context;
    for (size_t i = 0; i < count; i++) {
        size_t lengths[2];
        const char *a = xcvm_string_at(j->a, offsets[0] + i * j->steps[0], &lengths[0]);
        const char *b = xcvm_string_at(j->b, offsets[1] + i * j->steps[1], &lengths[1]);
        if (xcvm_poll_after(&j->poller, 1 + (j->spans != NULL ? (lengths[0] + lengths[1]) / XCVM_STEP_BYTES : 0)) !=
            XCVM_OK)
            return;
        if (j->spans == NULL) {
            j->overflow = j->overflow || !xcvm_size_add(j->characters, lengths[0], &j->characters) ||
                          !xcvm_size_add(j->characters, lengths[1], &j->characters);
            continue;
        }
        (void)xcvm_kernel_copy_string(j->k, j->to, j->ends[2], a, j->ends[0], lengths[0]);
        (void)xcvm_kernel_copy_string(j->k, j->to + lengths[0], j->ends[2], b, j->ends[1], lengths[1]);
        j->spans[at + i] = (xcvm_string){j->at, lengths[0] + lengths[1]};
        j->to += lengths[0] + lengths[1];
        j->at += lengths[0] + lengths[1];
    }
}

XCVM_KERNEL(StringConcat)
{
    xcvm_broadcast plan;
    xcvm_broadcast_plan(&plan, a->y, (const xcvm_value *const[]){a->a, a->b}, 2);
    joining j = {.k = k, .poller = xcvm_poller_of(k), .a = a->a, .b = a->b};
    for (int i = 0; i < 2; i++)
        j.steps[i] = plan.strides[i][plan.rank - 1];
    xcvm_broadcast_rows(&plan, 0, plan.count, join_row, &j);
    XCVM_TRY(xcvm_kernel_poll(k));
    XCVM_CHECK(k->error, !j.overflow, OUT_OF_RANGE, "a result of strings is too large");
    xcvm_string *spans;
    XCVM_TRY(xcvm_kernel_allocate_strings(k, a->y, a->y->rank, a->y->dims, j.characters, &spans, &j.to));
    j.spans = spans;
    j.at = (uint64_t)(j.to - (char *)a->y->data);
    j.ends[0] = xcvm_strings_end(a->a);
    j.ends[1] = xcvm_strings_end(a->b);
    j.ends[2] = xcvm_strings_end(a->y);
    xcvm_broadcast_rows(&plan, 0, plan.count, join_row, &j);
    return xcvm_kernel_poll(k);
}

/* ---- StringSplit ---- */

XCVM_SHAPE_RULE_OF(StringSplit)
{
    const int rank = a->x->rank;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_CHECK(t->error, rank < XCVM_MAX_RANK, UNSUPPORTED, "x has an unsupported rank (%d; expected at most %d)", rank,
               XCVM_MAX_RANK - 1);
    for (int i = 0; i < rank; i++)
        dims[i] = a->x->dims[i];
    if (rank >= 0)
        dims[rank] = XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, XCVM_STRING, rank < 0 ? -1 : rank + 1, dims);
    xcvm_value_set_tensor(a->count, XCVM_I64, rank, a->x->dims);
    return XCVM_OK;
}

/* The rest of a text that is being split. */
typedef struct splitting {
    const xcvm_StringSplit_args *a;
    xcvm_poller *poller;
    const char *text;
    size_t left;
    int64_t cuts; /* remaining splits; negative: unlimited */
    bool done;
} splitting;

/* Whitespace of Python's str.split(). */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Both stop early if the run was stopped. */
static size_t skip_space(xcvm_poller *poller, const char *text, size_t left)
{
    size_t at = 0;
    uint32_t c;
    while (at < left && xcvm_poll_after(poller, 1) == XCVM_OK) {
        const size_t n = xcvm_utf8_decode((const unsigned char *)text + at, left - at, &c);
        if (!is_space(c))
            break;
        at += n;
    }
    return at;
}

static size_t skip_word(xcvm_poller *poller, const char *text, size_t left)
{
    size_t at = 0;
    uint32_t c;
    while (at < left && xcvm_poll_after(poller, 1) == XCVM_OK) {
        const size_t n = xcvm_utf8_decode((const unsigned char *)text + at, left - at, &c);
        if (is_space(c))
            break;
        at += n;
    }
    return at;
}

static splitting split_of(const xcvm_StringSplit_args *a, xcvm_poller *poller, size_t index)
{
    splitting s = {.a = a, .poller = poller, .cuts = a->maxsplit};
    s.text = xcvm_string_at(a->x, index, &s.left);
    return s;
}

static const char *find_delimiter(const xcvm_text *delimiter, const char *text, size_t left)
{
    return delimiter->length == 1 ? memchr(text, delimiter->at[0], left)
                                  : memmem(text, left, delimiter->at, delimiter->length);
}

/* Finds the next piece; false if there is none. Without a delimiter, runs of whitespace separate pieces, and leading
 * and trailing whitespace is ignored. */
static bool next_piece(splitting *s, const char **piece, size_t *length)
{
    const xcvm_text *delimiter = &s->a->delimiter;
    if (s->done || xcvm_poll_after(s->poller, 1) != XCVM_OK)
        return false;
    if (delimiter->length == 0) {
        const size_t space = skip_space(s->poller, s->text, s->left);
        s->text += space;
        s->left -= space;
        *piece = s->text;
        s->done = s->left == 0;
        if (s->done)
            return false;
        *length = s->cuts == 0 ? s->left : skip_word(s->poller, s->text, s->left);
        s->done = *length == s->left;
        s->text += *length;
        s->left -= *length;
        s->cuts -= s->cuts > 0;
        return true;
    }
    const char *found = s->cuts != 0 && s->left > 0 ? find_delimiter(delimiter, s->text, s->left) : NULL;
    *piece = s->text;
    *length = found != NULL ? (size_t)(found - s->text) : s->left;
    (void)xcvm_poll_after(s->poller, *length / XCVM_STEP_BYTES);
    s->done = found == NULL;
    if (found != NULL) {
        s->text += *length + delimiter->length;
        s->left -= *length + delimiter->length;
        s->cuts -= s->cuts > 0;
    }
    return true;
}

/* Destination of the pieces of all texts. */
typedef struct pieces {
    const xcvm_kernel *k;
    xcvm_string *spans;
    char *to;
    const char *base, *end, *from_end; /* of the result, and the end of their source */
} pieces;

static xcvm_status put_piece(pieces *p, const char *piece, size_t length)
{
    char *to = p->to;
    *p->spans++ = (xcvm_string){(uint64_t)(to - p->base), length};
    p->to += length;
    return xcvm_kernel_copy_string(p->k, to, p->end, piece, p->from_end, length);
}

XCVM_KERNEL(StringSplit)
{
    const size_t count = xcvm_element_count(a->x);
    const char *piece;
    size_t length, characters = 0;
    int64_t most = 0, *counts = XCVM_DATA(int64_t, a->count);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        splitting s = split_of(a, &poller, i);
        int64_t found = 0;
        for (; next_piece(&s, &piece, &length); found++)
            characters += length; /* at most as many as x has */
        counts[i] = found;
        most = found > most ? found : most;
        XCVM_TRY(xcvm_poll_after(&poller, 1));
    }
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < a->x->rank; i++)
        dims[i] = a->x->dims[i];
    dims[a->x->rank] = most;
    pieces p = {.k = k, .from_end = xcvm_strings_end(a->x)};
    XCVM_TRY(xcvm_kernel_allocate_strings(k, a->y, a->x->rank + 1, dims, characters, &p.spans, &p.to));
    p.base = a->y->data;
    p.end = xcvm_strings_end(a->y);
    for (size_t i = 0; i < count; i++) {
        splitting s = split_of(a, &poller, i);
        for (int64_t j = 0; j < most; j++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            /* The piece after the last split is the whole rest. */
            const bool rest = a->delimiter.length != 0 && j + 1 == counts[i];
            piece = s.text;
            length = rest ? s.left : 0;
            if (j < counts[i] && !rest && !next_piece(&s, &piece, &length))
                length = 0;
            XCVM_TRY(put_piece(&p, piece, length));
        }
    }
    return xcvm_kernel_poll(k);
}
