/* Names of states, as exporters write them. Words that mark the past or the next value are removed, so that both names
 * of a pair become equal. */
#include "compiler/states/pair_names.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 32, MOST_CHARACTERS = 256 };

typedef struct words {
    char text[MOST_CHARACTERS + 2 * MOST_WORDS]; /* lower case, each with its NUL */
    const char *at[MOST_WORDS];
    size_t count, length;
} words;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_separator(char c)
{
    return (unsigned char)c < 0x80 && !is_digit(c) && !is_upper(c) && !(c >= 'a' && c <= 'z');
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static bool add_word(words *w, const char *text, size_t length)
{
    if (w->count == MOST_WORDS || w->length + length + 1 > sizeof w->text)
        return false;
    char *word = w->text + w->length;
    for (size_t i = 0; i < length; i++)
        word[i] = (char)(is_upper(text[i]) ? text[i] - 'A' + 'a' : text[i]);
    word[length] = '\0';
    w->at[w->count++] = word;
    w->length += length + 1;
    return true;
}

/* "hn", "cx": a state and a mark in one word. */
static bool add_split(words *w, const char *text, size_t length)
{
    const bool split = length == 2 && (text[0] == 'h' || text[0] == 'c') && strchr("nxy", text[1]) != NULL;
    return split ? add_word(w, text, 1) && add_word(w, text + 1, 1) : add_word(w, text, length);
}

/* Words end at separators, between letters and digits, and before a capital that follows a small letter. */
static bool split_words(const char *name, words *w)
{
    *w = (words){.count = 0};
    if (strlen(name) > MOST_CHARACTERS)
        return false;
    for (const char *end = name; *end != '\0';) {
        const char *begin = end;
        while (*end != '\0' && !is_separator(*end) &&
               (end == begin || (is_digit(*end) == is_digit(end[-1]) && !(is_upper(*end) && !is_upper(end[-1])))))
            end++;
        if (end == begin)
            end++;
        else if (!add_split(w, begin, (size_t)(end - begin)))
            return false;
    }
    return true;
}

static void remove_words(words *w, size_t index, size_t count)
{
    w->count -= count;
    memmove(w->at + index, w->at + index + count, (w->count - index) * sizeof *w->at);
}

static bool is_word(const words *w, size_t index, const char *word)
{
    return index < w->count && strcmp(w->at[index], word) == 0;
}

/* "past_key_values.0.key" is the past of "0.key". */
static void remove_phrases(words *w)
{
    for (size_t i = 0; i + 1 < w->count; i++)
        if (is_word(w, i, "key") && is_word(w, i + 1, "values"))
            remove_words(w, i, 2);
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *join(xcc_module *m, words *w)
{
    size_t length = 0;
    qsort(w->at, w->count, sizeof *w->at, compare_words);
    for (size_t i = 0; i < w->count; i++)
        length += strlen(w->at[i]) + 1;
    char *key = xcc_alloc(m, length + 1), *at = key;
    for (size_t i = 0; i < w->count && key != NULL; i++) {
        const size_t part = strlen(w->at[i]);
        memcpy(at, w->at[i], part);
        at[part] = '.';
        at += part + 1;
    }
    return key;
}

/* One spelling for words that are plural on one side. */
static void unify(words *w)
{
    static const char *const plurals[][2] = {
        {"states", "state"}, {"values", "value"}, {"keys", "key"}, {"caches", "cache"}, {"cached", "cache"}};
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < sizeof plurals / sizeof *plurals; k++)
            if (strcmp(w->at[i], plurals[k][0]) == 0)
                w->at[i] = plurals[k][1];
}

static bool has_memory(const words *w)
{
    static const char *const memory[] = {"state", "hidden", "cell",      "h",   "c",    "r",   "s",   "cache",
                                         "mem",   "memory", "recurrent", "rnn", "lstm", "gru", "key", "value",
                                         "kv",    "ssm",    "conv",      "k",   "v",    NULL};
    /* Hidden states are activations, which encoders read and return. */
    for (size_t i = 0; i + 1 < w->count; i++)
        if (is_word(w, i, "hidden") && is_word(w, i + 1, "states"))
            return false;
    for (size_t i = 0; i < w->count; i++) {
        words one = {.at = {w->at[i]}, .count = 1};
        unify(&one);
        if (is_one_of(one.at[0], memory))
            return true;
    }
    return false;
}

/* Removes the words that mark one side. Returns true if one of them has no other use. */
static bool remove_marks(words *w, bool is_input)
{
    static const char *const strong[2][6] = {{"present", "next", "new", "updated", NULL},
                                             {"past", "prev", "previous", NULL}};
    static const char *const weak[2][10] = {{"out", "output", "outputs", "n", "final", "o", "y", "curr", NULL},
                                            {"in", "input", "inputs", "init", "initial", "old", "last", "i", "x"}};
    bool marked = false;
    for (size_t i = w->count; i-- > 0;) {
        const bool marks = is_one_of(w->at[i], strong[is_input]);
        if (marks || is_one_of(w->at[i], weak[is_input]))
            remove_words(w, i, 1);
        marked = marked || marks;
    }
    return marked;
}

xcvm_status xcc_pair_name_read(xcc_module *m, const char *name, bool is_input, xcc_pair_name *read)
{
    words w;
    *read = (xcc_pair_name){.key = NULL};
    if (!split_words(name, &w))
        return XCVM_OK;
    read->memory = has_memory(&w);
    remove_phrases(&w);
    read->marked = remove_marks(&w, is_input);
    unify(&w);
    if (is_input && !read->marked && w.count > 1 && is_word(&w, w.count - 1, "0")) {
        words without = w;
        without.count--;
        read->first_key = join(m, &without);
        if (read->first_key == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    read->key = join(m, &w);
    return read->key != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

bool xcc_pair_names_fit(const xcc_pair_name *input, const xcc_pair_name *output)
{
    return (input->marked && output->marked) || (input->memory && output->memory);
}
