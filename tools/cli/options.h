/* Options of a subcommand as tables, from which parsing, help, the man page and completion are derived. */
#ifndef XCVM_TOOLS_CLI_OPTIONS_H
#define XCVM_TOOLS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the value of an option is stored as. */
enum option_kind {
    OPTION_FLAG,   /* bool; takes no value */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* struct text_list; may be given again and again */
    OPTION_FILE,   /* const char *, a path */
    OPTION_FOLDER, /* const char *, a path of a folder */
    OPTION_CHOICE, /* const char *, one of those in `argument`, which are separated by | */
    OPTION_INT,    /* int64_t from min to max */
    OPTION_REAL,   /* double, at least 0 */
    OPTION_SIZE    /* uint64_t bytes, written as 1000, 64K, 512M or 2G */
};

struct text_list {
    const char **items;
    size_t count;
};

/* Options live in a struct of the subcommand's; `offset` is where in it (or in a part of it, see option_group). */
struct option {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* what help calls the value; NULL for flags */
    enum option_kind kind;
    size_t offset;
    int64_t min, max;
    const char *help;
};

/* Options that belong together, and the offset of their struct in the subcommand's. */
struct option_group {
    const char *title;
    const struct option *options; /* ended by END_OF_OPTIONS */
    size_t offset;
};
#define END_OF_OPTIONS                                                                                                 \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define OPTION_GROUP(title, table, type, member)                                                                       \
    {                                                                                                                  \
        (title), (table), offsetof(type, member)                                                                       \
    }

struct example {
    const char *arguments; /* behind "xcvm NAME" */
    const char *purpose;
};

struct arguments {
    const char **items;
    size_t count;
};

struct command {
    const char *name;
    const char *summary;  /* one line, no capital, no full stop */
    const char *operands; /* as in the synopsis: "PROG", "A B", "DIR..." */
    size_t min_operands, max_operands;
    const char *description; /* paragraphs, separated by empty lines */
    const struct option_group *groups;
    size_t group_count;
    const struct example *examples;
    size_t example_count;
    const void *defaults; /* a struct of options_size bytes; NULL: zeros */
    size_t options_size;
    /* With --help: prints what there is to say of the operands, before the help. NULL: nothing. */
    void (*describe)(const void *options, const struct arguments *arguments);
    /* Returns an exit code. */
    int (*run)(const void *options, const struct arguments *arguments);
};

/* Fills in `options` (options_size bytes) and the operands, which lend from argv. argv[0] is the first argument behind
 * the subcommand's name. Every mistake is reported, not just the first. Returns false if there was one; *help is set
 * if --help was asked for, and then nothing else matters. */
bool options_parse(const struct command *command, int argc, char **argv, void *options, struct arguments *operands,
                   bool *help);
void options_release(const struct command *command, void *options, struct arguments *operands);

/* The default of an option as text, or NULL if there is none to speak of: false, no text, and 0 unless the help says
 * what "0: " means. `text` is for numbers. */
const char *option_default(const struct option *option, const struct option_group *group, const void *defaults,
                           char *text, size_t size);

/* Whether the option's value differs between two structs of its group. */
bool option_differs(const struct option *option, const void *a, const void *b);

/* Of the names (ended by NULL), the one that is most like `word`, or NULL if none is near. */
const char *nearest_name(const char *word, const char *const *names);

/* "512M" and the like; false if it is no size. */
bool parse_size(const char *text, uint64_t *bytes);
bool parse_int(const char *text, int64_t *value);
bool parse_real(const char *text, double *value);

#endif
