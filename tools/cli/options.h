/* Tables of options. Parsing, help, the man page and completion follow from them. */
#ifndef XCVM_TOOLS_CLI_OPTIONS_H
#define XCVM_TOOLS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of an option's value. */
enum option_kind {
    OPTION_FLAG,   /* bool; takes no value */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* struct text_list; may be repeated */
    OPTION_FILE,   /* const char *, a path */
    OPTION_OUTPUT, /* const char *, a path to write. `argument` ends in the suffix of the format, which is checked */
    OPTION_FOLDER, /* const char *, a path of a directory */
    OPTION_CHOICE, /* const char *, one of the choices in `argument`, separated by | */
    OPTION_INT,    /* int64_t from min to max */
    OPTION_REAL,   /* double, at least 0 */
    OPTION_SIZE    /* uint64_t bytes, written as 1000, 64K, 512M or 2G */
};

struct text_list {
    const char **items;
    size_t count;
};

/* An option. Its value is stored at `offset` in the struct of its group. */
struct option {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* name of the value in help; NULL for flags */
    enum option_kind kind;
    size_t offset;
    int64_t min, max;
    const char *help;
};

/* A group of options, and the offset of its struct in the options of the subcommand. */
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
    const char *arguments; /* after "xcvm NAME" */
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
    /* With --help, prints information about the operands before the help. May be NULL. */
    void (*describe)(const void *options, const struct arguments *arguments);
    /* Returns an exit code. */
    int (*run)(const void *options, const struct arguments *arguments);
};

/* Parses the arguments into `options` (options_size bytes) and `operands`, which borrow from argv. argv[0] is the
 * first argument after the subcommand's name. Reports every mistake and returns false if there is one. *help is
 * set for --help, and mistakes are then ignored. */
bool options_parse(const struct command *command, int argc, char **argv, void *options, struct arguments *operands,
                   bool *help);
void options_release(const struct command *command, void *options, struct arguments *operands);

/* The default of an option as text. NULL for false, for no text, and for 0 unless the help explains "0: ". `text`
 * is the buffer for numbers. */
const char *option_default(const struct option *option, const struct option_group *group, const void *defaults,
                           char *text, size_t size);

/* True if the option's value differs between two structs of its group. */
bool option_differs(const struct option *option, const void *a, const void *b);

/* The name (the list ends with NULL) that is most similar to `word`, or NULL if none is similar. */
const char *nearest_name(const char *word, const char *const *names);

/* Parses a size such as "512M". Returns false if it is not a size. */
bool parse_size(const char *text, uint64_t *bytes);
bool parse_int(const char *text, int64_t *value);
bool parse_real(const char *text, double *value);
/* Returns the position of "*FACTOR" at the end of a text, a finite number other than 0 or a fraction such as 1/255; the
 * end of the text, and a factor of 0, if there is none. */
const char *parse_factor(const char *text, double *factor);

#endif
