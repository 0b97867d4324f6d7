/* Option parsing: values checked against their table, and suggestions for misspelt names. */
#include "cli/options.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_int(const char *text, int64_t *value)
{
    if (*text == '\0' || isspace((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end != '\0' || errno != 0)
        return false;
    *value = number;
    return true;
}

bool parse_real(const char *text, double *value)
{
    if (*text == '\0' || isspace((unsigned char)*text))
        return false;
    char *end;
    double number = strtod(text, &end);
    if (*end != '\0')
        return false;
    *value = number;
    return true;
}

const char *parse_factor(const char *text, double *factor)
{
    const char *star = strrchr(text, '*'), *end = text + strlen(text);
    *factor = 0;
    if (star == NULL)
        return end;
    const char *slash = strchr(star, '/');
    char *above = slash != NULL ? memory_text_n(star + 1, (size_t)(slash - star - 1)) : memory_text(star + 1);
    double below = 1;
    const bool good = parse_real(above, factor) && (slash == NULL || parse_real(slash + 1, &below)) &&
                      isfinite(*factor) && isfinite(below) && below != 0;
    *factor = good && isfinite(*factor / below) ? *factor / below : 0;
    free(above);
    return *factor != 0 ? star : end;
}

bool parse_size(const char *text, uint64_t *bytes)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    static const char units[] = "KMGT";
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    uint64_t factor = 1;
    if (unit != NULL) {
        factor = UINT64_C(1) << (10 * (unit - units + 1));
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
        else if (*end == 'B')
            end++;
    }
    return *end == '\0' && !__builtin_mul_overflow(number, factor, bytes);
}

/* Insertions, deletions, replacements and swaps of neighbors that turn a into b; words of up to 63 characters. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b), rows[3][LONGEST];
    if (n >= LONGEST || m >= LONGEST)
        return LONGEST;
    size_t *above = rows[0], *row = rows[1], *two_above = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    memset(rows[2], 0, sizeof rows[2]);
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = two_above;
        two_above = above;
        above = row;
        row = spare;
    }
    return above[m];
}

const char *nearest_name(const char *word, const char *const *names)
{
    const char *nearest = NULL;
    size_t length = strlen(word), least = length / 3 + 2;
    for (; *names != NULL; names++) {
        size_t distance = edit_distance(word, *names);
        if (length >= 3 && strncmp(word, *names, length) == 0)
            distance = 0;
        /* A word of other letters only is not near. */
        if (distance < least && (distance == 0 || distance < length)) {
            least = distance;
            nearest = *names;
        }
    }
    return nearest;
}

/* Older names of options. */
static const struct {
    const char *old, *name;
} aliases[] = {{"fuse", "kernel-library"}};

static const struct option *find_option(const struct command *command, const char *name, size_t length, char letter,
                                        size_t *offset)
{
    for (size_t i = 0; i < COUNT_OF(aliases) && name != NULL; i++)
        if (strlen(aliases[i].old) == length && memcmp(aliases[i].old, name, length) == 0) {
            name = aliases[i].name;
            length = strlen(name);
        }
    for (size_t g = 0; g < command->group_count; g++) {
        const struct option_group *group = &command->groups[g];
        for (size_t i = 0; group->options[i].name != NULL; i++) {
            const struct option *option = &group->options[i];
            bool found = name != NULL ? strlen(option->name) == length && memcmp(option->name, name, length) == 0
                                      : option->letter == letter;
            if (found) {
                *offset = group->offset + option->offset;
                return option;
            }
        }
    }
    return NULL;
}

static void report_unknown(const struct command *command, const char *name)
{
    size_t count = 0;
    for (size_t g = 0; g < command->group_count; g++)
        for (size_t i = 0; command->groups[g].options[i].name != NULL; i++)
            count++;
    const char **names = memory_take(count + 2, sizeof *names);
    size_t at = 0;
    for (size_t g = 0; g < command->group_count; g++)
        for (size_t i = 0; command->groups[g].options[i].name != NULL; i++)
            names[at++] = command->groups[g].options[i].name;
    names[at] = "help";
    const char *nearest = nearest_name(name, names);
    if (nearest != NULL)
        report_line("unknown option --%s. Did you mean --%s?", name, nearest);
    else
        report_line("unknown option --%s", name);
    free(names);
}

static bool choice_allowed(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices; at != NULL; at = strchr(at, '|'), at = at != NULL ? at + 1 : NULL) {
        size_t span = strcspn(at, "|");
        if (span == length && memcmp(at, value, span) == 0)
            return true;
    }
    return false;
}

static bool store_int(const struct option *option, const char *value, int64_t *target)
{
    if (parse_int(value, target) && *target >= option->min && *target <= option->max)
        return true;
    if (option->max == INT64_MAX)
        report_line("--%s needs a whole number of at least %" PRId64 " (given: \"%s\")", option->name, option->min,
                    value);
    else
        report_line("--%s needs a whole number from %" PRId64 " to %" PRId64 " (given: \"%s\")", option->name,
                    option->min, option->max, value);
    return false;
}

/* Returns false, with a message, if a value is no path, or has the suffix of another format. */
static bool check_path(const struct option *option, const char *value)
{
    if (*value == '\0' && option->kind != OPTION_TEXT) {
        report_line("--%s needs a path (given: \"\")", option->name);
        return false;
    }
    if (option->kind != OPTION_OUTPUT)
        return true;
    const char *own = strrchr(option->argument, '.'), *other = suffix_of_another(value, own);
    if (other != NULL)
        report_line("%s: the suffix %s belongs to another format. --%s writes %s", value, other, option->name, own);
    return other == NULL;
}

/* Stores a value. Returns false, with a message, if the option does not accept it. */
static bool store(const struct option *option, const char *value, char *target)
{
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)target = true;
        return true;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_OUTPUT:
    case OPTION_FOLDER:
        if (!check_path(option, value))
            return false;
        *(const char **)(void *)target = value;
        return true;
    case OPTION_LIST: {
        struct text_list *list = (void *)target;
        list->items = memory_append(list->items, list->count, sizeof *list->items);
        list->items[list->count++] = value;
        return true;
    }
    case OPTION_CHOICE:
        if (!choice_allowed(option->argument, value)) {
            report_line("--%s needs one of %s (given: \"%s\")", option->name, option->argument, value);
            return false;
        }
        *(const char **)(void *)target = value;
        return true;
    case OPTION_INT:
        return store_int(option, value, (void *)target);
    case OPTION_REAL: {
        double number;
        if (!parse_real(value, &number) || !(number >= 0) || isinf(number)) {
            report_line("--%s needs a number of at least 0 (given: \"%s\")", option->name, value);
            return false;
        }
        *(double *)(void *)target = number;
        return true;
    }
    case OPTION_SIZE: {
        uint64_t bytes;
        if (!parse_size(value, &bytes)) {
            report_line("--%s needs a size, for example 1000, 64K, 512M or 2G (given: \"%s\")", option->name, value);
            return false;
        }
        *(uint64_t *)(void *)target = bytes;
        return true;
    }
    }
    return false;
}

/* A place in argv while it is parsed. */
struct cursor {
    const struct command *command;
    char **argv;
    int argc, at;
    char *options;
};

/* `value` is the rest of the same argument, or NULL. */
static bool take_value(struct cursor *cursor, const struct option *option, size_t offset, const char *value)
{
    if (option->kind == OPTION_FLAG) {
        if (value != NULL) {
            report_line("--%s takes no value", option->name);
            return false;
        }
    } else if (value == NULL) {
        if (cursor->at + 1 >= cursor->argc || strncmp(cursor->argv[cursor->at + 1], "--", 2) == 0) {
            report_line("--%s needs a value: --%s=%s", option->name, option->name, option->argument);
            return false;
        }
        value = cursor->argv[++cursor->at];
    }
    return store(option, value, cursor->options + offset);
}

static bool parse_long(struct cursor *cursor, const char *text, bool *help)
{
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text), offset;
    if (length == 4 && memcmp(text, "help", 4) == 0) {
        *help = true;
        return true;
    }
    const struct option *option = find_option(cursor->command, text, length, 0, &offset);
    if (option == NULL) {
        char *name = memory_text_n(text, length);
        report_unknown(cursor->command, name);
        free(name);
        return false;
    }
    return take_value(cursor, option, offset, equals != NULL ? equals + 1 : NULL);
}

/* Letters of one argument: flags may be joined, and the value of the last may follow at once. */
static bool parse_letters(struct cursor *cursor, const char *letters, bool *help)
{
    for (; *letters != '\0'; letters++) {
        size_t offset;
        const struct option *option = find_option(cursor->command, NULL, 0, *letters, &offset);
        if (option == NULL && *letters == 'h') {
            *help = true;
            continue;
        }
        if (option == NULL) {
            report_line("unknown option -%c", *letters);
            return false;
        }
        if (option->kind != OPTION_FLAG)
            return take_value(cursor, option, offset, letters[1] != '\0' ? letters + 1 : NULL);
        if (!take_value(cursor, option, offset, NULL))
            return false;
    }
    return true;
}

static bool check_operands(const struct command *command, const struct arguments *operands)
{
    if (operands->count < command->min_operands) {
        report_line("%s is missing", command->operands);
        return false;
    }
    if (operands->count > command->max_operands) {
        report_line("unexpected argument \"%s\"", operands->items[command->max_operands]);
        return false;
    }
    return true;
}

bool options_parse(const struct command *command, int argc, char **argv, void *options, struct arguments *operands,
                   bool *help)
{
    if (command->defaults != NULL)
        memcpy(options, command->defaults, command->options_size);
    else
        memset(options, 0, command->options_size);
    *operands = (struct arguments){0};
    *help = false;
    bool good = true, only_operands = false;
    struct cursor cursor = {command, argv, argc, 0, options};
    for (; cursor.at < argc; cursor.at++) {
        const char *argument = argv[cursor.at];
        if (only_operands || argument[0] != '-' || argument[1] == '\0') {
            operands->items = memory_append(operands->items, operands->count, sizeof *operands->items);
            operands->items[operands->count++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            only_operands = true;
        } else if (argument[1] == '-') {
            good &= parse_long(&cursor, argument + 2, help);
        } else {
            good &= parse_letters(&cursor, argument + 1, help);
        }
    }
    return *help || (check_operands(command, operands) & good);
}

void options_release(const struct command *command, void *options, struct arguments *operands)
{
    for (size_t g = 0; g < command->group_count; g++) {
        const struct option_group *group = &command->groups[g];
        for (size_t i = 0; group->options[i].name != NULL; i++) {
            if (group->options[i].kind != OPTION_LIST)
                continue;
            struct text_list *list = (void *)((char *)options + group->offset + group->options[i].offset);
            free(list->items);
            *list = (struct text_list){0};
        }
    }
    free(operands->items);
    *operands = (struct arguments){0};
}

const char *option_default(const struct option *option, const struct option_group *group, const void *defaults,
                           char *text, size_t size)
{
    if (defaults == NULL)
        return NULL;
    const char *at = (const char *)defaults + group->offset + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
    case OPTION_LIST:
    case OPTION_FILE:
    case OPTION_OUTPUT:
    case OPTION_FOLDER:
        return NULL;
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return *(const char *const *)(const void *)at;
    case OPTION_INT:
        snprintf(text, size, "%" PRId64, *(const int64_t *)(const void *)at);
        break;
    case OPTION_REAL:
        snprintf(text, size, "%g", *(const double *)(const void *)at);
        break;
    case OPTION_SIZE: {
        uint64_t bytes = *(const uint64_t *)(const void *)at;
        bool whole = bytes % (UINT64_C(1) << 30) == 0 && bytes != 0;
        snprintf(text, size, "%" PRIu64 "%s", whole ? bytes >> 30 : bytes, whole ? "G" : "");
        break;
    }
    }
    return strcmp(text, "0") == 0 && strstr(option->help, "0: ") == NULL ? NULL : text;
}

bool option_differs(const struct option *option, const void *a, const void *b)
{
    const void *x = (const char *)a + option->offset, *y = (const char *)b + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        return *(const bool *)x != *(const bool *)y;
    case OPTION_LIST:
        return ((const struct text_list *)x)->count != ((const struct text_list *)y)->count;
    case OPTION_INT:
        return *(const int64_t *)x != *(const int64_t *)y;
    case OPTION_SIZE:
        return *(const uint64_t *)x != *(const uint64_t *)y;
    case OPTION_REAL:
        return memcmp(x, y, sizeof(double)) != 0;
    default: {
        const char *first = *(const char *const *)x, *second = *(const char *const *)y;
        return first != second && (first == NULL || second == NULL || strcmp(first, second) != 0);
    }
    }
}
