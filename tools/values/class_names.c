/* Names of classes. */
#include "values/class_names.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "values/number.h"

#include <stdlib.h>
#include <string.h>

void class_names_read(struct class_names *names, const xcvm_program *program)
{
    const char *text = xcvm_program_metadata(program, "class_names");
    *names = (struct class_names){0};
    if (text == NULL || *text == '\0')
        return;
    size_t lines = 1;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    names->output = xcvm_program_metadata(program, "class_output");
    names->text = memory_text(text);
    names->items = memory_take(lines, sizeof *names->items);
    char *next = names->text, *line;
    while ((line = strsep(&next, "\n")) != NULL) {
        make_printable(line);
        names->items[names->count++] = line;
    }
    /* A line feed may end the last line, too. */
    if (names->count > 0 && names->items[names->count - 1][0] == '\0')
        names->count--;
}

void class_names_release(struct class_names *names)
{
    free(names->items);
    free(names->text);
    *names = (struct class_names){0};
}

/* Scores along an axis: the numbers of positions before and after it. */
struct scores {
    const xcvm_value *value;
    size_t outer, inner, classes;
};

static bool find_scores(const struct class_names *names, const char *output, const xcvm_value *value,
                        struct scores *scores)
{
    if (names->count == 0 || value == NULL || xcvm_value_kind(value) != XCVM_KIND_TENSOR ||
        !number_is_float(xcvm_value_dtype(value)) || (names->output != NULL && strcmp(names->output, output) != 0))
        return false;
    const int rank = xcvm_value_rank(value), last = rank - 1;
    const int64_t *dims = xcvm_value_dims(value), count = (int64_t)names->count;
    /* A model may have more scores than there are names. */
    const bool named = names->output != NULL;
    int axis = -1;
    if (rank >= 2 && (dims[1] == count || (rank == 2 && named && dims[1] > count)))
        axis = 1;
    else if (rank >= 1 && dims[last] == count)
        axis = last;
    if (axis < 0)
        return false;
    *scores = (struct scores){.value = value, .outer = 1, .inner = 1, .classes = (size_t)dims[axis]};
    for (int i = 0; i < rank; i++)
        if (i != axis)
            *(i < axis ? &scores->outer : &scores->inner) *= (size_t)dims[i];
    return scores->outer * scores->inner > 0;
}

static number score_at(const struct scores *s, size_t position, size_t class)
{
    const size_t start = position / s->inner * s->inner * s->classes + position % s->inner;
    return number_get(xcvm_value_dtype(s->value), xcvm_value_data((xcvm_value *)(uintptr_t)s->value),
                      start + class * s->inner);
}

/* Returns the class with the highest score that is not in `taken`. */
static size_t next_best(const struct scores *s, size_t position, const size_t *taken, size_t taken_count)
{
    size_t best = s->classes;
    for (size_t c = 0; c < s->classes; c++) {
        bool free = true;
        for (size_t i = 0; i < taken_count && free; i++)
            free = taken[i] != c;
        if (free && (best == s->classes || score_at(s, position, c) > score_at(s, position, best)))
            best = c;
    }
    return best;
}

static void print_class(const struct class_names *names, size_t class, struct buffer *text)
{
    buffer_format(text, "class %zu", class);
    if (class < names->count)
        buffer_format(text, " \"%s\"", names->items[class]);
}

void class_names_print(const struct class_names *names, const char *output, const xcvm_value *value,
                       struct buffer *text)
{
    enum { POSITIONS = 64, BEST = 3 };
    struct scores s;
    if (!find_scores(names, output, value, &s))
        return;
    const size_t positions = s.outer * s.inner;
    for (size_t p = 0; p < positions && p < POSITIONS; p++) {
        size_t taken[BEST];
        buffer_text(text, output);
        if (positions > 1)
            buffer_format(text, "[%zu]", p);
        for (size_t i = 0; i < BEST && i < s.classes; i++) {
            taken[i] = next_best(&s, p, taken, i);
            buffer_text(text, i == 0 ? ": " : ", ");
            print_class(names, taken[i], text);
            buffer_format(text, " %.4Lg", score_at(&s, p, taken[i]));
        }
        buffer_text(text, "\n");
    }
    if (positions > POSITIONS)
        buffer_format(text, "%s: and %zu more\n", output, positions - POSITIONS);
}

void class_names_compare(const struct class_names *names, const char *output, const xcvm_value *actual,
                         const xcvm_value *expected, struct buffer *text)
{
    struct scores a, e;
    if (!find_scores(names, output, actual, &a) || !find_scores(names, output, expected, &e) ||
        a.classes != e.classes || a.outer != e.outer || a.inner != e.inner)
        return;
    for (size_t p = 0; p < a.outer * a.inner; p++) {
        const size_t is = next_best(&a, p, NULL, 0), wanted = next_best(&e, p, NULL, 0);
        if (is == wanted)
            continue;
        if (a.outer * a.inner > 1)
            buffer_format(text, "example %zu: ", p);
        print_class(names, is, text);
        buffer_text(text, ", expected ");
        print_class(names, wanted, text);
        return;
    }
    print_class(names, next_best(&a, 0, NULL, 0), text);
    if (a.outer * a.inner > 1)
        buffer_text(text, " for the first example; all as expected");
}
