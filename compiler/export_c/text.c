/* The text of exported C: writes it, and selects the called functions from c_runtime/ and from the VM's sources,
 * definition by definition. */
#include "base/array.h"
#include "base/decimal.h"
#include "compiler/export_c/export_c.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const char xcc_c_runtime[];

/* ---- Writing ---- */

void xcc_c_put_bytes(xcc_c_text *text, const char *bytes, size_t count)
{
    while (!text->failed && text->capacity - text->count < count + 1) {
        const size_t capacity = text->capacity > 0 ? text->capacity * 2 : 4096;
        char *grown = xcvm_allocate(text->allocator, capacity);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        if (text->count > 0)
            memcpy(grown, text->at, text->count);
        xcc_c_text old = *text;
        text->at = grown;
        text->capacity = capacity;
        xcc_c_text_release(&old);
    }
    if (text->failed)
        return;
    memcpy(text->at + text->count, bytes, count);
    text->count += count;
    text->at[text->count] = '\0';
}

void xcc_c_put(xcc_c_text *text, const char *format, ...)
{
    char line[4096];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= sizeof line)
        text->failed = true;
    else
        xcc_c_put_bytes(text, line, (size_t)length);
}

void xcc_c_put_number(xcc_c_text *text, xcvm_dtype dtype, double value)
{
    char digits[XCVM_DECIMAL_TEXT];
    const bool narrow = dtype == XCVM_F32;
    if (isnan(value) || isinf(value)) {
        xcc_c_put(text, "%s%s", narrow ? "" : "(double)", isnan(value) ? "NAN" : value < 0 ? "-INFINITY" : "INFINITY");
        return;
    }
    const char *number = xcvm_decimal_text(value, narrow ? 9 : 17, digits);
    const bool plain = strpbrk(number, ".e") == NULL;
    xcc_c_put(text, "%s%s%s", number, plain ? ".0" : "", narrow ? "f" : "");
}

void xcc_c_put_quoted(xcc_c_text *text, const char *words)
{
    for (; *words != '\0'; words++) {
        const unsigned char c = (unsigned char)*words;
        const char safe = c < ' ' || c > '~' || strchr("*\\?\"%", c) != NULL ? '_' : (char)c;
        xcc_c_put_bytes(text, &safe, 1);
    }
}

void xcc_c_text_release(xcc_c_text *text)
{
    if (text->at != NULL)
        xcvm_deallocate(text->allocator, text->at, text->capacity);
    text->at = NULL;
}

/* ---- Definitions ---- */

enum { MOST_NAMES = 12 };

static const struct {
    const char *suffix, *type;
    xcvm_dtype dtype;
} types[] = {{"f32", "float", XCVM_F32},   {"f64", "double", XCVM_F64},   {"i8", "int8_t", XCVM_I8},
             {"i16", "int16_t", XCVM_I16}, {"i32", "int32_t", XCVM_I32},  {"i64", "int64_t", XCVM_I64},
             {"u8", "uint8_t", XCVM_U8},   {"u16", "uint16_t", XCVM_U16}, {"u32", "uint32_t", XCVM_U32},
             {"u64", "uint64_t", XCVM_U64}};
enum { TYPES = sizeof types / sizeof *types };

const char *xcc_c_type(xcvm_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].type;
    if (xcvm_dtype_in(dtype, XCVM_TYPES_HALF))
        return "uint16_t";
    return xcvm_dtype_in(dtype, XCVM_TYPES_BOOL | XCVM_TYPES_PACKED) ? "uint8_t" : NULL;
}

const char *xcc_c_suffix(xcvm_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].suffix;
    return "u8";
}

typedef struct span {
    const char *at;
    size_t length;
} span;

/* A definition: a function, a macro, a type, or the text between #if and #endif. */
typedef struct definition {
    span text, names[MOST_NAMES];
    size_t name_count;
    bool needed;     /* without changes */
    uint32_t wanted; /* for which types, a bit each */
} definition;

typedef struct library {
    definition *at;
    size_t count, capacity;
    xcvm_arena *arena;
    bool failed;
} library;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool equals(span a, const char *at, size_t length)
{
    return a.length == length && memcmp(a.at, at, length) == 0;
}
static bool ends_with(span word, const char *end)
{
    const size_t length = strlen(end);
    return word.length > length && memcmp(word.at + word.length - length, end, length) == 0;
}

/* The next identifier from *at on; strings and comments are left out. False at `end`. */
static bool next_word(const char **at, const char *end, span *word)
{
    for (const char *p = *at; p < end; p++) {
        if (p + 1 < end && p[0] == '/' && p[1] == '*') {
            for (p += 2; p + 1 < end && !(p[0] == '*' && p[1] == '/'); p++)
                ;
            p++;
        } else if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
        } else if (isdigit((unsigned char)*p)) {
            while (p + 1 < end && (is_word(p[1]) || p[1] == '.'))
                p++;
        } else if (is_word(*p)) {
            *word = (span){p, 0};
            while (p < end && is_word(*p))
                p++;
            word->length = (size_t)(p - word->at);
            *at = p;
            return true;
        }
    }
    return false;
}

/* Names that a definition declares at depth 0: macros, the word before "(" of a function, the last word of a typedef,
 * and the constants of an enum. */
static void find_names(definition *d)
{
    const char *at = d->text.at, *const end = at + d->text.length;
    span word, before = {NULL, 0};
    bool is_typedef = false, is_enum = false, named = false;
    int depth = 0;
    const char *last = at;
    while (next_word(&at, end, &word) && d->name_count < MOST_NAMES) {
        for (; last < word.at; last++) {
            if (last[0] == '/' && last[1] == '*')
                last = strstr(last, "*/");
            depth += (*last == '{' || *last == '(') - (*last == '}' || *last == ')');
        }
        last = word.at + word.length;
        const char *p = last;
        while (p < end && (*p == ' ' || *p == '\n'))
            p++;
        is_typedef = is_typedef || (depth == 0 && equals(word, "typedef", 7));
        is_enum = is_enum || (depth == 0 && equals(word, "enum", 4));
        const bool is_macro = equals(before, "define", 6);
        const bool is_function = depth == 0 && !named && !is_typedef && *p == '(' &&
                                 !equals(word, "__attribute__", 13) && !equals(word, "defined", 7);
        const bool is_type = depth == 0 && is_typedef && (*p == ';' || (*p == '_' && !is_enum));
        const bool is_constant = depth == 1 && is_enum && (*p == '=' || *p == ',' || *p == '}');
        const bool is_array = depth == 0 && !named && !is_typedef && *p == '[';
        if (is_macro || is_function || is_type || is_constant || is_array)
            d->names[d->name_count++] = word;
        named = named || is_function || is_array || is_macro;
        if (is_type)
            return;
        before = word;
    }
}

static void add_definition(library *l, const char *begin, const char *end)
{
    while (begin < end && isspace((unsigned char)*begin))
        begin++;
    if (begin == end)
        return;
    definition *grown = xcvm_arena_grow(l->arena, l->at, l->count, &l->capacity, sizeof *grown);
    if (grown == NULL) {
        l->failed = true;
        return;
    }
    l->at = grown;
    definition *d = &l->at[l->count];
    *d = (definition){.text = {begin, (size_t)(end - begin)}};
    find_names(d);
    l->count += d->name_count > 0;
}

/* Splits the text after each definition: at a line that ends with ; or } outside of all brackets, after a macro, and
 * after an #endif. Include guards are no definitions. */
static void cut(library *l)
{
    int depth = 0, conditions = 0;
    const char *begin = xcc_c_runtime;
    bool comment = false;
    for (const char *line = begin; *line != '\0';) {
        const char *end = strchr(line, '\n');
        end = end != NULL ? end : line + strlen(line);
        const char *next = *end == '\n' ? end + 1 : end, *last = end;
        while (last > line && last[-1] == ' ')
            last--;
        const bool directive = *line == '#' && !comment;
        /* Calls of macros that define something are no definitions themselves. */
        while (directive && depth == 0 && conditions == 0 && begin < line && isspace((unsigned char)*begin))
            begin++;
        if (directive && depth == 0 && conditions == 0 && begin < line && *begin != '/')
            begin = line;
        if (directive && strncmp(line, "#ifndef ", 8) == 0 && last[-2] == '_' && last[-1] == 'H') {
            const char *define = strchr(next, '\n');
            begin = line = define != NULL ? define + 1 : next;
            continue;
        }
        if (directive && strncmp(line, "#endif", 6) == 0 && conditions == 0) {
            begin = line = next;
            continue;
        }
        if (directive && strncmp(line, "#if", 3) == 0)
            conditions++;
        if (directive && strncmp(line, "#endif", 6) == 0)
            conditions--;
        for (const char *p = line; p < end; p++) {
            if (!comment && p[0] == '/' && p[1] == '*')
                comment = true;
            else if (comment && p > line && p[-1] == '*' && p[0] == '/')
                comment = false;
            else if (!comment && !directive)
                depth += (*p == '{' || *p == '(') - (*p == '}' || *p == ')');
        }
        bool continued = last > line && last[-1] == '\\';
        while (continued && directive) {
            end = strchr(next, '\n');
            end = end != NULL ? end : next + strlen(next);
            continued = end > next && end[-1] == '\\';
            next = *end == '\n' ? end + 1 : end;
        }
        const bool ends = directive ? conditions == 0 : last > line && (last[-1] == ';' || last[-1] == '}');
        if (!comment && depth == 0 && conditions == 0 && ends) {
            add_definition(l, begin, end);
            begin = next;
        }
        line = next;
    }
}

/* ---- Choosing ---- */

static void need_all(library *l, const char *at, const char *end);

/* Text of a definition, for a type or unchanged. */
static void write_definition(xcc_c_text *to, const definition *d, int type)
{
    const char *at = d->text.at, *const end = at + d->text.length, *copied = at;
    span word;
    while (type >= 0 && next_word(&at, end, &word)) {
        const bool whole = equals(word, "value_t", 7);
        if (!whole && !ends_with(word, "_value"))
            continue;
        const char *from = whole ? word.at : word.at + word.length - 5;
        xcc_c_put_bytes(to, copied, (size_t)(from - copied));
        xcc_c_put(to, "%s", whole ? types[type].type : types[type].suffix);
        copied = word.at + word.length;
    }
    xcc_c_put_bytes(to, copied, (size_t)(end - copied));
    xcc_c_put(to, "\n");
}

static void need_text(library *l, const definition *d, int type)
{
    xcc_c_text text = {.allocator = l->arena->allocator};
    write_definition(&text, d, type);
    if (!text.failed)
        need_all(l, text.at, text.at + text.count);
    l->failed = l->failed || text.failed;
    xcc_c_text_release(&text);
}

/* The definition of `name`, with `suffix` in place of the end of it that is a type's. */
static definition *find(library *l, span name, size_t cut_off, const char *suffix)
{
    const size_t rest = name.length - cut_off, added = strlen(suffix);
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->at[i].name_count; k++) {
            const span *known = &l->at[i].names[k];
            if (known->length == rest + added && memcmp(known->at, name.at, rest) == 0 &&
                memcmp(known->at + rest, suffix, added) == 0)
                return &l->at[i];
        }
    return NULL;
}

static void need_word(library *l, span word)
{
    definition *d = find(l, word, 0, "");
    if (d != NULL) {
        if (!d->needed) {
            d->needed = true;
            need_text(l, d, -1);
        }
        return;
    }
    for (size_t i = 0; i < TYPES; i++) {
        const size_t length = strlen(types[i].suffix);
        if (word.length <= length + 1 || word.at[word.length - length - 1] != '_' || !ends_with(word, types[i].suffix))
            continue;
        d = find(l, word, length, "value");
        if (d != NULL && (d->wanted >> i & 1) == 0) {
            d->wanted |= UINT32_C(1) << i;
            need_text(l, d, (int)i);
        }
    }
}

static void need_all(library *l, const char *at, const char *end)
{
    span word;
    while (next_word(&at, end, &word))
        need_word(l, word);
}

bool xcc_c_take_functions(xcc_c_text *to, const xcc_c_text *code, xcvm_arena *arena)
{
    library l = {.arena = arena};
    cut(&l);
    if (code->count > 0)
        need_all(&l, code->at, code->at + code->count);
    for (size_t i = 0; i < l.count; i++) {
        if (l.at[i].needed) {
            xcc_c_put(to, "\n");
            write_definition(to, &l.at[i], -1);
        }
        for (int type = 0; type < TYPES; type++)
            if ((l.at[i].wanted >> type & 1) != 0) {
                xcc_c_put(to, "\n");
                write_definition(to, &l.at[i], type);
            }
    }
    return !l.failed && !to->failed;
}
