/* A configuration file becomes a command line, which the parser of options reads. */
#include "serve/config.h"

#include "cli/memory.h"
#include "cli/report.h"
#include "io/read.h"

#include <stdlib.h>
#include <string.h>

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

struct words {
    char **items;
    size_t count;
};

static void add_word(struct words *words, char *word)
{
    words->items = memory_append(words->items, words->count, sizeof *words->items);
    words->items[words->count++] = word;
}

static void add_line(struct words *words, char *line)
{
    line = trim(line);
    if (*line == '\0' || *line == '#')
        return;
    char *equals = strchr(line, '=');
    if (equals != NULL)
        *equals = '\0';
    const char *name = trim(line), *value = equals != NULL ? trim(equals + 1) : NULL;
    if (strcmp(name, "model") == 0 && value != NULL)
        add_word(words, memory_text(value));
    else
        add_word(words, value != NULL ? memory_format("--%s=%s", name, value) : memory_format("--%s", name));
}

static size_t size_of(enum option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG:
        return sizeof(bool);
    case OPTION_LIST:
        return sizeof(struct text_list);
    case OPTION_INT:
        return sizeof(int64_t);
    case OPTION_REAL:
        return sizeof(double);
    case OPTION_SIZE:
        return sizeof(uint64_t);
    default:
        return sizeof(const char *);
    }
}

/* Copies the file's values of options that the command line leaves at their defaults. */
static void merge(const struct command *command, void *options, const void *from_file)
{
    for (size_t g = 0; g < command->group_count; g++) {
        const size_t offset = command->groups[g].offset;
        for (const struct option *option = command->groups[g].options; option->name != NULL; option++)
            if (!option_differs(option, (const char *)options + offset, (const char *)command->defaults + offset))
                memcpy((char *)options + offset + option->offset, (const char *)from_file + offset + option->offset,
                       size_of(option->kind));
    }
}

int config_read(const char *path, const struct command *command, void *options, struct arguments *operands,
                struct config *config)
{
    xcvm_error error = {.pc = -1};
    const struct read_limits limits = {.bytes = 1 << 20};
    struct words words = {0};
    bool help;
    if (file_read(path, &limits, &config->text, &error) != XCVM_OK)
        return report_error(NULL, &error);
    char *rest = config->text.length > 0 ? config->text.data : NULL;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        add_line(&words, line);
    /* Operands are needed, if not in the file then on the command line. */
    for (size_t i = 0; i < operands->count; i++)
        add_word(&words, memory_text(operands->items[i]));
    config->options = memory_take(1, command->options_size);
    const bool parsed =
        options_parse(command, (int)words.count, words.items, config->options, &config->operands, &help);
    if (parsed) {
        merge(command, options, config->options);
        *operands = config->operands;
    } else {
        report_line("%s: the configuration is wrong", path);
    }
    config->words = words.items;
    config->word_count = words.count;
    return parsed ? EXIT_OK : EXIT_USAGE;
}

void config_release(const struct command *command, struct config *config)
{
    if (config->options != NULL)
        options_release(command, config->options, &config->operands);
    free(config->options);
    for (size_t i = 0; i < config->word_count; i++)
        free(config->words[i]);
    free(config->words);
    buffer_release(&config->text);
}
