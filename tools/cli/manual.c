/* The manual: help, man pages and Markdown pages from the tables of subcommands. */
#include "cli/manual.h"
#include "cli/report.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 28 };

static const char about[] = "XCVM compiles ONNX models into programs for a small virtual machine, and runs, profiles, "
                            "quantizes and trains them.";

static const char prog_text[] =
    "PROG is a program file, its text assembly, or an ONNX model, which is compiled in memory first. "
    "The content of the file decides which of them it is; - is standard input. For other files, for example a PyTorch "
    "file, a Git LFS pointer or a compressed file, the error names the kind and the next step.";

static const char spec_text[] = "SPEC is a tensor. As the value of an input, or as the expected value of an output:";
static const struct example spec_rows[] = {
    {"3.5", "numbers (or true, false, \"text\") of the declared type and shape"},
    {"2x3xf32=1 2 3 4 5 6", "dimensions, element type and elements. One element fills the tensor. Brackets and commas "
                            "between elements are ignored. f32=3.5 has rank 0"},
    {"@file.npy", "a NumPy array"},
    {"@file.npz:key", "an array of a NumPy archive; the default key is the name of the input"},
    {"@file.safetensors:key", "a tensor of a safetensors file"},
    {"@file.pb", "an ONNX TensorProto, SequenceProto or OptionalProto, as in ONNX test data"},
    {"@file.jpg", "an image (PNG, JPEG, WebP, TIFF, BMP, PGM, PPM, JPEG 2000) in the layout of the input (1x3xHxW, "
                  "1xHxWx3, HxW ...). It is rotated by its EXIF orientation and resized to H and W. Elements are 0 to "
                  "1 for floats and 0 to 255 for integers"},
    {"2x3xf32=@file.bin", "raw little-endian elements. Dimensions and type may be omitted if the input declares them. "
                          "Before another kind of file, they are checked against its content"},
    {"@file.npy*1/255", "a factor of the numbers of an array, or of the bytes of an image, which has "
                        "1/255 if the input is of floats. *1 keeps 0 to 255"},
    {"random, random:SEED", "floats from -0.5 to 0.5, integers from 0 to --int-max minus 1; also 2x3xf32=random"},
    {"zeros, ones", "all elements 0 or 1; also 2x3xf32=zeros"},
    {"seq(2xf32=1 2; f32=3)", "a sequence of tensors; also optional(3.5), optional() and map(KEYS; VALUES)"},
    {"-", "a file in one of these formats on standard input"},
};
static const char spec_output_text[] =
    "As the target of an output: @file.npy, @file.npz:key, @file.pb, @file.png or @file.bin write it to a file, - "
    "prints it, and an empty SPEC discards it. The element types are bool i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 "
    "f16 bf16 f32 "
    "f64 "
    "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 c64 c128 str. A value of another type is converted if no "
    "element changes (floats may be rounded). The content of a file decides its format, except for .pb and .bin.";

static const struct example environment_rows[] = {
    {"CC", "the C compiler of --kernel-library, unless --cc is given"},
    {"XDG_CACHE_HOME, HOME", "cache of kernel libraries by the hash of their source, in $XDG_CACHE_HOME/xcvm or "
                             "~/.cache/xcvm. It may be removed at any time"},
    {"TMPDIR", "temporary directory of --kernel-library for a model that is compiled in memory; /tmp if not set"},
    {"NO_COLOR", "if set and not empty, no colors are used on a terminal"},
};

static const struct exit_row {
    int code;
    const char *summary;
} exit_rows[] = {
#define EXIT_CODE(name, number, summary) {number, summary},
    EXIT_CODE_LIST(EXIT_CODE)
#undef EXIT_CODE
};

/* ---- Plain text ---- */

/* Appends the words of `text` at the current column, wrapped at WIDTH and indented by `indent`, and ends the line. */
static void wrap(struct buffer *out, const char *text, size_t line_start, size_t indent)
{
    size_t column = out->length - line_start;
    bool first = true;
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (!first && column + 1 + length > WIDTH) {
            buffer_text(out, "\n");
            buffer_format(out, "%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            buffer_text(out, " ");
            column++;
        }
        buffer_append(out, text, length);
        column += length;
        first = false;
        text += length;
        text += strspn(text, " \n");
    }
    buffer_text(out, "\n");
}

/* "label" at column 2 and the wrapped text at `column`. */
static void row(struct buffer *out, const char *label, const char *text, size_t column)
{
    size_t start = out->length;
    buffer_format(out, "  %s", label);
    if (out->length - start + 2 > column) {
        buffer_text(out, "\n");
        start = out->length;
    }
    buffer_pad(out, start, column);
    wrap(out, text, start, column);
}

/* Calls `paragraph` for each paragraph of the text. */
static void each_paragraph(struct buffer *out, const char *text,
                           void (*paragraph)(struct buffer *out, const char *text, size_t length))
{
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        paragraph(out, text, length);
        text += length;
        text += strspn(text, "\n");
    }
}

static void text_paragraph(struct buffer *out, const char *text, size_t length)
{
    struct buffer copy = {0};
    buffer_append(&copy, text, length);
    wrap(out, buffer_string(&copy), out->length, 0);
    buffer_text(out, "\n");
    buffer_release(&copy);
}

/* "-o, --output=FILE". */
static void option_label(struct buffer *out, const struct option *option, bool aligned)
{
    if (option->letter != 0)
        buffer_format(out, "-%c, ", option->letter);
    else if (aligned)
        buffer_text(out, "    ");
    buffer_format(out, "--%s", option->name);
    if (option->argument != NULL)
        buffer_format(out, "=%s", option->argument);
}

/* The help text and the default. */
static void option_help(struct buffer *out, const struct command *command, const struct option_group *group,
                        const struct option *option)
{
    char number[40];
    const char *value = option_default(option, group, command->defaults, number, sizeof number);
    buffer_text(out, option->help);
    if (value != NULL)
        buffer_format(out, " (default %s)", value);
}

static void synopsis(struct buffer *out, const struct command *command)
{
    buffer_format(out, "xcvm %s", command->name);
    if (command->group_count != 0)
        buffer_text(out, " [OPTION...]");
    if (*command->operands != '\0')
        buffer_format(out, " %s", command->operands);
}

static bool takes_prog(const struct command *command) { return strstr(command->operands, "PROG") != NULL; }

void manual_overview(struct buffer *text, const struct command *const *commands)
{
    buffer_text(text, "Usage: xcvm COMMAND [OPTION...] ...\n\n");
    wrap(text, about, text->length, 0);
    buffer_text(text, "\nCommands\n");
    for (; *commands != NULL; commands++)
        row(text, (*commands)->name, (*commands)->summary, 14);
    buffer_text(text, "\n");
    row(text, "xcvm help COMMAND", "describe a command, its options and examples", OPTION_COLUMN);
    row(text, "xcvm help spec", "explain how to write tensors on the command line", OPTION_COLUMN);
    row(text, "xcvm --version", "print the version", OPTION_COLUMN);
    row(text, "xcvm --man [COMMAND]", "print the man page of all commands or of one", OPTION_COLUMN);
    row(text, "xcvm --completion bash", "print completion, for: source <(xcvm --completion bash)", OPTION_COLUMN);
}

static void help_options(struct buffer *text, const struct command *command)
{
    for (size_t g = 0; g < command->group_count; g++) {
        const struct option_group *group = &command->groups[g];
        buffer_format(text, "%s\n", group->title);
        for (size_t i = 0; group->options[i].name != NULL; i++) {
            struct buffer label = {0}, summary = {0};
            option_label(&label, &group->options[i], true);
            option_help(&summary, command, group, &group->options[i]);
            row(text, buffer_string(&label), buffer_string(&summary), OPTION_COLUMN);
            buffer_release(&label);
            buffer_release(&summary);
        }
        buffer_text(text, "\n");
    }
}

static void help_exit_codes(struct buffer *text)
{
    buffer_text(text, "Exit codes\n");
    for (size_t i = 0; i < COUNT_OF(exit_rows); i++)
        buffer_format(text, "  %d  %s\n", exit_rows[i].code, exit_rows[i].summary);
}

static void example_line(struct buffer *text, const char *indent, const struct command *command,
                         const struct example *example)
{
    buffer_format(text, "%sxcvm %s%s%s\n", indent, command->name, *example->arguments != '\0' ? " " : "",
                  example->arguments);
}

void manual_help(struct buffer *text, const struct command *command)
{
    buffer_text(text, "Usage: ");
    synopsis(text, command);
    buffer_text(text, "\n\n");
    each_paragraph(text, command->description, text_paragraph);
    if (takes_prog(command)) {
        wrap(text, prog_text, text->length, 0);
        buffer_text(text, "\n");
    }
    help_options(text, command);
    if (command->example_count != 0)
        buffer_text(text, "Examples\n");
    for (size_t i = 0; i < command->example_count; i++) {
        example_line(text, "  ", command, &command->examples[i]);
        buffer_text(text, "      ");
        wrap(text, command->examples[i].purpose, text->length - 6, 6);
    }
    if (command->example_count != 0)
        buffer_text(text, "\n");
    help_exit_codes(text);
}

void manual_spec(struct buffer *text)
{
    wrap(text, spec_text, text->length, 0);
    buffer_text(text, "\n");
    for (size_t i = 0; i < COUNT_OF(spec_rows); i++)
        row(text, spec_rows[i].arguments, spec_rows[i].purpose, OPTION_COLUMN);
    buffer_text(text, "\n");
    wrap(text, spec_output_text, text->length, 0);
}

/* ---- Markdown ---- */

void markdown_text(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_<>|[]", *text) != NULL)
            buffer_text(out, "\\");
        buffer_append(out, text, 1);
    }
}

static void markdown_paragraph(struct buffer *out, const char *text, size_t length)
{
    struct buffer copy = {0};
    buffer_append(&copy, text, length);
    markdown_text(out, buffer_string(&copy));
    buffer_text(out, "\n\n");
    buffer_release(&copy);
}

/* A cell of a table in code style, where only | has to be escaped. */
static void markdown_code(struct buffer *out, const char *text)
{
    buffer_text(out, "`");
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buffer_text(out, "\\");
        buffer_append(out, text, 1);
    }
    buffer_text(out, "`");
}

static void markdown_option(struct buffer *text, const struct command *command, const struct option_group *group,
                            const struct option *option)
{
    struct buffer label = {0}, summary = {0};
    option_label(&label, option, false);
    option_help(&summary, command, group, option);
    buffer_text(text, "| ");
    markdown_code(text, buffer_string(&label));
    buffer_text(text, " | ");
    markdown_text(text, buffer_string(&summary));
    buffer_text(text, " |\n");
    buffer_release(&label);
    buffer_release(&summary);
}

void manual_markdown(struct buffer *text, const struct command *command)
{
    buffer_format(text, "# xcvm %s\n\n", command->name);
    buffer_text(text, "    ");
    synopsis(text, command);
    buffer_text(text, "\n\n");
    each_paragraph(text, command->description, markdown_paragraph);
    if (takes_prog(command)) {
        markdown_text(text, prog_text);
        buffer_text(text, "\n\n");
    }
    for (size_t g = 0; g < command->group_count; g++) {
        buffer_format(text, "## %s\n\n| option | meaning |\n| --- | --- |\n", command->groups[g].title);
        for (size_t i = 0; command->groups[g].options[i].name != NULL; i++)
            markdown_option(text, command, &command->groups[g], &command->groups[g].options[i]);
        buffer_text(text, "\n");
    }
    if (command->example_count != 0)
        buffer_text(text, "## Examples\n\n");
    for (size_t i = 0; i < command->example_count; i++) {
        markdown_text(text, command->examples[i].purpose);
        buffer_text(text, "\n\n");
        example_line(text, "    ", command, &command->examples[i]);
        buffer_text(text, "\n");
    }
    buffer_text(text, "## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for (size_t i = 0; i < COUNT_OF(exit_rows); i++)
        buffer_format(text, "| %d | %s |\n", exit_rows[i].code, exit_rows[i].summary);
}

void manual_spec_markdown(struct buffer *text)
{
    buffer_text(text, "# Tensors on the command line\n\n");
    markdown_text(text, spec_text);
    buffer_text(text, "\n\n| SPEC | meaning |\n| --- | --- |\n");
    for (size_t i = 0; i < COUNT_OF(spec_rows); i++) {
        buffer_text(text, "| ");
        markdown_code(text, spec_rows[i].arguments);
        buffer_text(text, " | ");
        markdown_text(text, spec_rows[i].purpose);
        buffer_text(text, " |\n");
    }
    buffer_text(text, "\n");
    markdown_text(text, spec_output_text);
    buffer_text(text, "\n");
}

/* ---- troff ---- */

/* Escapes text for troff. */
static void troff_text(struct buffer *out, const char *text)
{
    bool line_start = out->length == 0 || out->data[out->length - 1] == '\n';
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            buffer_text(out, "\\&");
        if (*text == '\\')
            buffer_text(out, "\\e");
        else if (*text == '-')
            buffer_text(out, "\\-");
        else
            buffer_append(out, text, 1);
        line_start = *text == '\n';
    }
}

static void troff_line(struct buffer *out, const char *macro, const char *text)
{
    if (macro != NULL)
        buffer_format(out, "%s ", macro);
    troff_text(out, text);
    buffer_text(out, "\n");
}

static void troff_paragraph(struct buffer *out, const char *text, size_t length)
{
    struct buffer copy = {0};
    buffer_append(&copy, text, length);
    buffer_text(out, ".PP\n");
    troff_line(out, NULL, buffer_string(&copy));
    buffer_release(&copy);
}

static void troff_item(struct buffer *out, const char *label, const char *text)
{
    buffer_text(out, ".TP\n");
    troff_line(out, ".B", label);
    troff_line(out, NULL, text);
}

static void troff_group(struct buffer *text, const struct command *command, const struct option_group *group)
{
    for (size_t i = 0; group->options[i].name != NULL; i++) {
        struct buffer label = {0}, summary = {0};
        option_label(&label, &group->options[i], false);
        option_help(&summary, command, group, &group->options[i]);
        troff_item(text, buffer_string(&label), buffer_string(&summary));
        buffer_release(&label);
        buffer_release(&summary);
    }
}

static void troff_examples(struct buffer *text, const struct command *command)
{
    for (size_t i = 0; i < command->example_count; i++) {
        buffer_text(text, ".PP\n");
        troff_line(text, NULL, command->examples[i].purpose);
        buffer_text(text, ".PP\n.RS 4\n.nf\n");
        buffer_format(text, "xcvm %s ", command->name);
        troff_line(text, NULL, command->examples[i].arguments);
        buffer_text(text, ".fi\n.RE\n");
    }
}

static void troff_synopsis(struct buffer *text, const struct command *command)
{
    struct buffer line = {0};
    buffer_text(text, ".nf\n");
    synopsis(&line, command);
    troff_line(text, ".B", buffer_string(&line));
    buffer_release(&line);
    buffer_text(text, ".fi\n");
}

static void troff_command(struct buffer *text, const struct command *command)
{
    buffer_format(text, ".SS xcvm %s\n", command->name);
    troff_synopsis(text, command);
    each_paragraph(text, command->description, troff_paragraph);
    for (size_t g = 0; g < command->group_count; g++)
        troff_group(text, command, &command->groups[g]);
    troff_examples(text, command);
}

static void troff_title(struct buffer *text, const char *name)
{
    buffer_text(text, ".TH XCVM");
    for (; *name != '\0'; name++)
        buffer_append(text, &(char){(char)toupper((unsigned char)*name)}, 1);
    buffer_format(text, " 1 \"\" \"xcvm %d.%d.%d\" \"User Commands\"\n", XCVM_VERSION_MAJOR, XCVM_VERSION_MINOR,
                  XCVM_VERSION_PATCH);
}

static void troff_exit_status(struct buffer *text)
{
    buffer_text(text, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < COUNT_OF(exit_rows); i++)
        buffer_format(text, ".TP\n.B %d\n%s\n", exit_rows[i].code, exit_rows[i].summary);
}

void manual_troff_page(struct buffer *text, const struct command *command)
{
    char title[64];
    (void)snprintf(title, sizeof title, "-%s", command->name);
    troff_title(text, title);
    buffer_format(text, ".SH NAME\nxcvm\\-%s \\- ", command->name);
    troff_line(text, NULL, command->summary);
    buffer_text(text, ".SH SYNOPSIS\n");
    troff_synopsis(text, command);
    buffer_text(text, ".SH DESCRIPTION\n");
    each_paragraph(text, command->description, troff_paragraph);
    if (takes_prog(command))
        troff_paragraph(text, prog_text, strlen(prog_text));
    buffer_text(text, ".SH OPTIONS\n");
    for (size_t g = 0; g < command->group_count; g++) {
        troff_line(text, ".SS", command->groups[g].title);
        troff_group(text, command, &command->groups[g]);
    }
    if (command->example_count != 0)
        buffer_text(text, ".SH EXAMPLES\n");
    troff_examples(text, command);
    troff_exit_status(text);
    buffer_text(text, ".SH SEE ALSO\n.BR xcvm (1)\n");
}

void manual_troff(struct buffer *text, const struct command *const *commands)
{
    const struct command *const *command = commands;
    troff_title(text, "");
    buffer_text(text, ".SH NAME\nxcvm \\- compile and run neural networks\n.SH SYNOPSIS\n.B xcvm\n.I COMMAND\n"
                      "[\\fIOPTION\\fR...] ...\n.SH DESCRIPTION\n");
    troff_line(text, NULL, about);
    buffer_text(text, ".PP\n");
    troff_line(text, NULL, prog_text);
    buffer_text(text, ".SH COMMANDS\n");
    for (; *commands != NULL; commands++)
        troff_command(text, *commands);
    buffer_text(text, ".SH TENSORS\n");
    troff_line(text, NULL, spec_text);
    for (size_t i = 0; i < COUNT_OF(spec_rows); i++)
        troff_item(text, spec_rows[i].arguments, spec_rows[i].purpose);
    buffer_text(text, ".PP\n");
    troff_line(text, NULL, spec_output_text);
    troff_exit_status(text);
    buffer_text(text, ".SH ENVIRONMENT\n");
    for (size_t i = 0; i < COUNT_OF(environment_rows); i++)
        troff_item(text, environment_rows[i].arguments, environment_rows[i].purpose);
    buffer_text(text, ".SH SEE ALSO\n");
    for (; *command != NULL; command++)
        buffer_format(text, ".BR xcvm\\-%s (1)%s\n", (*command)->name, command[1] != NULL ? "," : "");
}
